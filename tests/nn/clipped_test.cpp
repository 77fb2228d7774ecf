// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/clipped.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/scope.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/attention.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/layer_norm.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/recipe.hpp>
#include <tessera/nn/recurrent.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/bits.hpp>

namespace clipped_test {

using namespace tessera;

namespace {

struct DeepRecipe {
    static constexpr nn::Shape in = 6;
    static constexpr auto layers =
        nn::chain(nn::Linear{9}, nn::LeakyRelu{}, nn::GroupNorm{}, nn::bottleneck(3), nn::Linear{4});
};
template <class R>
using Deep = nn::Fixed<DeepRecipe, R>;

template <class R>
data::Dataset some_rows(std::size_t n, std::size_t width, std::size_t classes, std::uint64_t seed = 4) {
    Stream draw(Key{seed});
    std::vector<R> rows(n * width);
    std::vector<std::int32_t> labels(n);
    for (auto& v : rows) v = static_cast<R>(2 * draw.normal());
    for (auto& l : labels) l = static_cast<std::int32_t>(draw.below(classes));
    return data::Dataset::own(std::move(rows), std::move(labels), classes);
}

std::vector<Index> first(std::size_t n) {
    std::vector<Index> ids(n);
    for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<Index>(i);
    return ids;
}

template <class M>
Vec<real<M>> parameters(const M& model) {
    Vec<real<M>> w(dimension(model));
    Stream draw(Key{11});
    for (auto& v : w) v = static_cast<real<M>>(0.5 * draw.normal());
    return w;
}

// The largest difference between the ghosts' sum and the one of explicit gradients, over the largest number in it.
template <class M>
double difference(const M& model, const Batch<real<M>>& b, const Clip<real<M>>& clip) {
    using R = real<M>;
    REQUIRE(model.clips(clip));
    const auto w = parameters(model);
    Vec<R> ghost(w.size()), slow(w.size());
    const double loss = model.clipped_sum(w, b, clip, ghost);
    const double slow_loss = clipped_sum_one_by_one(model, In<R>(w), b, clip, Out<R>(slow));
    CHECK(std::fabs(loss - slow_loss) < 1e-5 * std::fabs(slow_loss));  // a float's mean of 13 losses
    double most = 0, largest = 0;
    clip.on.each(w.size(), [&](Range r) {
        for (std::size_t j = r.begin; j < r.end; ++j) {
            most = std::max(most, std::fabs(static_cast<double>(ghost[j]) - static_cast<double>(slow[j])));
            largest = std::max(largest, std::fabs(static_cast<double>(slow[j])));
        }
    });
    REQUIRE(largest > 0);
    return most / largest;
}

template <class R>
constexpr double rounding = sizeof(R) == 4 ? 1e-6 : 1e-13;  // both add up 13 examples, in two orders

}  // namespace

TEST_CASE_TEMPLATE("clipped sums by ghost norms are those of explicit gradients", R, float, double) {
    const auto pool = some_rows<R>(13, 6, 4);
    const auto ids = first(13);
    const Batch<R> batch(pool.examples(), ids);
    const Deep<R> deep;
    // Norms of single gradients lie between 0.6 and 30 here: 2 cuts most, 0.01 all, 1e6 none.
    for (const double norm : {0.01, 2.0, 1e6}) {
        CHECK(difference(deep, batch, {.norm = norm}) < rounding<R>);
        CHECK(difference(nn::Mclr<6, 4, R>{}, batch, {.norm = norm}) < rounding<R>);
        CHECK(difference(nn::Dnn<6, 9, 4, R>{}, batch, {.norm = norm}) < rounding<R>);
        CHECK(difference(nn::AnyModel<R>(deep), batch, {.norm = norm}) < rounding<R>);
    }
    Vec<R> weights(13, R(0.5));
    weights[3] = 0;
    CHECK(difference(deep, Batch<R>(pool.examples(), ids, weights), {.norm = 2}) < rounding<R>);
    CHECK(difference(deep, batch.part(4, 1), {.norm = 2}) < rounding<R>);
}

TEST_CASE_TEMPLATE("convolutions, positions and shared parameters are clipped like all others", R, float, double) {
    const auto pool = some_rows<R>(13, 2 * 6 * 5, 4);
    const auto ids = first(13);
    const Batch<R> batch(pool.examples(), ids);
    const auto conv = nn::chain(nn::Conv2d{.outputs = 4, .kernel = 3, .pad = 1}, nn::Relu{},
                                nn::residual(nn::chain(nn::Conv2d{.outputs = 4, .kernel = 3, .pad = 1, .bias = false},
                                                       nn::GroupNorm{2})),
                                nn::MaxPool2d{}, nn::Linear{4});
    const auto positions = nn::chain(nn::Linear{5}, nn::Relu{}, nn::again(2, nn::Linear{5}), nn::Lstm{3}, nn::Cut{27, 3},
                                     nn::Linear{4});
    const auto lstm = nn::chain(nn::Lstm{8}, nn::LayerNorm{}, nn::Cut{72, 8}, nn::Linear{4});
    const auto attention = nn::chain(nn::Linear{8}, nn::Attention{2}, nn::Gelu{}, nn::Cut{72, 8}, nn::Linear{4});
    // Of three examples the right class has nearly all of the probability and the gradient a norm of 1e-5 to 5e-3, which
    // 0.01 makes as large as the others: their slopes must be those of single examples to the last bit.
    for (const double norm : {1e-6, 0.01, 2.0, 1e6}) {
        CHECK(difference(nn::Network<R>(nn::Shape(2, 6, 5), conv), batch, {.norm = norm}) < rounding<R>);
        CHECK(difference(nn::Network<R>(nn::Shape(10, 6), positions), batch, {.norm = norm}) < rounding<R>);
        CHECK(difference(nn::Network<R>(nn::Shape(10, 6), lstm), batch, {.norm = norm}) < rounding<R>);
        CHECK(difference(nn::Network<R>(nn::Shape(10, 6), attention), batch, {.norm = norm}) < rounding<R>);
    }
    const nn::Network<R> net(nn::Shape(2, 6, 5), conv);
    CHECK(difference(net, batch, {.norm = 0.3, .on = on<scope::Norm>(net)}) < rounding<R>);
}

TEST_CASE_TEMPLATE("only what trains counts for the norm", R, float, double) {
    const auto pool = some_rows<R>(13, 6, 4);
    const auto ids = first(13);
    const Batch<R> batch(pool.examples(), ids);
    const Deep<R> deep;
    const auto adapter = on<scope::Adapter>(deep), head = on<scope::Head>(deep), norm = on<scope::Norm>(deep);
    for (const Coordinates& where : {adapter, head, norm, off(scope::Adapter{}, deep)}) {
        CHECK(difference(deep, batch, {.norm = 0.3, .on = where}) < rounding<R>);
        CHECK(difference(deep, batch, {.norm = 1e6, .on = where}) < rounding<R>);
    }
    // Another scope, another norm, another sum on the coordinates they share
    const auto w = parameters(deep);
    Vec<R> narrow(w.size()), wide(w.size());
    deep.clipped_sum(w, batch, {.norm = 0.3, .on = head}, narrow);
    deep.clipped_sum(w, batch, {.norm = 0.3}, wide);
    CHECK(std::fabs(static_cast<double>(narrow.back() - wide.back())) > 1e-3);
}

TEST_CASE("what has no ghost goes one example at a time, and says so") {
    const Deep<double> deep;
    Mask mask(dimension(deep), true);
    CHECK_FALSE(deep.clips({.norm = 1, .active = &mask}));
    CHECK_FALSE(deep.clips({.norm = 1, .on = Coordinates::range(0, 7)}));  // through the first weights
    CHECK(deep.clips({.norm = 1, .on = Coordinates::range(0, 54)}));       // the first weights, not their bias
    const auto pool = some_rows<double>(5, 6, 4);
    const auto ids = first(5);
    const Batch<double> batch(pool.examples(), ids);
    const auto w = parameters(deep);
    for (std::size_t j = 0; j < mask.size(); j += 2) mask.set(j, false);
    Vec<double> masked(w.size()), explicitly(w.size());
    const Clip<double> clip{.norm = 0.5, .active = &mask};
    clipped_sum(deep, In<double>(w), batch, clip, Out<double>(masked));
    clipped_sum_one_by_one(deep, In<double>(w), batch, clip, Out<double>(explicitly));
    CHECK(support::same_bits(masked, explicitly));
    CHECK(masked[0] == 0);
    CHECK(masked[1] != 0);
}

TEST_CASE("bytes are read as the network reads them") {
    std::vector<std::uint8_t> rows(20 * 64);
    std::vector<std::int32_t> labels(20);
    Stream draw(Key{8});
    for (auto& v : rows) v = static_cast<std::uint8_t>(draw.below(256));
    for (auto& l : labels) l = static_cast<std::int32_t>(draw.below(4));
    const auto pool = data::Dataset::own(std::move(rows), std::move(labels), 4);
    const auto ids = first(20);
    const Batch<float> batch(pool.examples(), ids);
    const nn::Dnn<64, 16, 4> net;
    // Tiles that read bytes hold weights and errors in halves of 16 bits each, two of them: 2^-16 of a product.
    CHECK(difference(net, batch, {.norm = 1}) < 2e-4);
    CHECK(difference(net, batch, {.norm = 1e9}) < 2e-4);
}

TEST_CASE("an example that is not finite is left out, and the others are as if it were not there") {
    Stream draw(Key{4});
    std::vector<float> rows(6 * 5);
    for (auto& v : rows) v = static_cast<float>(draw.normal());
    rows[7] = std::numeric_limits<float>::infinity();
    rows[12] = std::numeric_limits<float>::quiet_NaN();
    const auto pool = data::Dataset::own(std::move(rows), std::vector<std::int32_t>{0, 1, 2, 3, 0}, 4);
    const nn::Dnn<6, 5, 4> net;
    const auto w = parameters(net);
    const std::vector<Index> all{0, 1, 2, 3, 4}, finite{0, 3, 4};
    Vec<float> with(w.size()), without(w.size()), plain(w.size());
    net.clipped_sum(w, Batch<float>(pool.examples(), all), {.norm = 1}, with);
    net.clipped_sum(w, Batch<float>(pool.examples(), finite), {.norm = 1}, without);
    CHECK(support::same_bits(with, without));
    net.gradient(w, Batch<float>(pool.examples(), all), plain);
    CHECK_FALSE(std::isfinite(plain[0]));  // the plain gradient is lost
    // Nobody left: nothing.
    const std::vector<Index> lost{1, 2};
    CHECK(net.clipped_sum(w, Batch<float>(pool.examples(), lost), {.norm = 1}, with) == 0);
    CHECK(support::same_bits(with, Vec<float>(w.size())));
    // With dropout every example keeps a draw of its own, as a ghost and one by one.
    const nn::Network<float> dropped(6, nn::chain(nn::Linear{5}, nn::Dropout{}, nn::Linear{4}));
    const Key key{12};
    const auto batch = [&](const std::vector<Index>& ids) { return Batch<float>(pool.examples(), ids, {}, &key); };
    dropped.clipped_sum(w, batch(all), {.norm = 1}, with);
    dropped.clipped_sum(w, batch(finite), {.norm = 1}, without);
    CHECK(support::same_bits(with, without));
    const auto one_by_one = [&](const std::vector<Index>& ids, Vec<float>& out) {
        clipped_sum_one_by_one(dropped, In<float>(w), batch(ids), {.norm = 1}, Out<float>(out));
    };
    one_by_one(all, with);
    one_by_one(finite, without);
    CHECK(support::same_bits(with, without));
}

TEST_CASE("a lost example does not tie the others' dropout together") {
    constexpr std::size_t n = 400;
    std::vector<float> rows(2 * (n + 1), 1.0f);
    rows[2 * n] = std::numeric_limits<float>::infinity();
    const auto pool = data::Dataset::own(std::move(rows), std::vector<std::int32_t>(n + 1, 0), 2);
    const nn::Network<float> net(2, nn::chain(nn::Dropout{}, nn::Linear{2}));
    const Vec<float> w(dimension(net));
    const auto ids = first(n + 1);
    const auto deviation = [&](std::size_t count, auto&& sum) {
        double once = 0, twice = 0;
        constexpr int draws = 100;
        for (int r = 0; r < draws; ++r) {
            const Key draw = Key{9}(static_cast<std::uint64_t>(r));
            Vec<float> out(w.size());
            const std::span<const Index> some(ids.data(), count);
            sum(Batch<float>(pool.examples(), some, {}, &draw), out);
            once += static_cast<double>(out[0]) / draws;
            twice += static_cast<double>(out[0]) * static_cast<double>(out[0]) / draws;
        }
        return std::sqrt(twice - once * once);
    };
    const auto ghost = [&](const Batch<float>& b, Vec<float>& out) { net.clipped_sum(w, b, {.norm = 1}, out); };
    const auto explicitly = [&](const Batch<float>& b, Vec<float>& out) {
        clipped_sum_one_by_one(net, In<float>(w), b, {.norm = 1}, Out<float>(out));
    };
    // 400 independent numbers within 1: a deviation of at most 20. One mask for all: 400 times that of one, above 100.
    CHECK(deviation(n, ghost) < 20);
    CHECK(deviation(n + 1, ghost) == deviation(n, ghost));
    CHECK(deviation(n + 1, explicitly) < 20);
}

TEST_CASE("inputs as large, small or wild as they may be: a ghost contributes at most the norm") {
    // 20,000 examples of a network, each by itself; features of 0, 1e-45 to 3e38, either sign, now and then not finite.
    constexpr std::size_t n = 20'000, width = 6;
    Stream draw(Key{77});
    std::vector<float> rows(n * width);
    for (auto& v : rows) {
        const double u = draw.uniform();
        const double sign = draw.uniform() < 0.5 ? -1 : 1;
        if (u < 0.002) v = std::numeric_limits<float>::quiet_NaN();
        else if (u < 0.004) v = static_cast<float>(sign) * std::numeric_limits<float>::infinity();
        else v = static_cast<float>(sign * std::pow(10.0, -45 + 83.5 * draw.uniform()));
    }
    std::vector<std::int32_t> labels(n);
    for (auto& l : labels) l = static_cast<std::int32_t>(draw.below(4));
    const auto pool = data::Dataset::own(std::move(rows), std::move(labels), 4);
    const nn::Mclr<width, 4> net;
    Vec<float> w(net.parameters), out(w.size());
    double most = 0;
    std::size_t cut = 0;
    constexpr double norm = 1.5;
    for (Index i = 0; i < n; ++i) {
        net.clipped_sum(w, Batch<float>(pool.examples(), std::span(&i, 1)), {.norm = norm}, out);
        double squared = 0;
        for (const float g : out) squared += static_cast<double>(g) * static_cast<double>(g);
        const double length = std::sqrt(squared);
        REQUIRE(std::isfinite(length));
        most = std::max(most, length);
        cut += length > 0.999 * norm;
    }
    CHECK(most <= norm);
    CHECK(cut > n / 2);  // and it is the norm that stops them
}

}  // namespace clipped_test
