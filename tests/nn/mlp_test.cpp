// SPDX-License-Identifier: BSD-3-Clause
// A network of run-time widths: every bit of the one compiled for them.
#include <tessera/nn/zoo.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/method/fedavg.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/rule/step.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/kernel_sets.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace mlp_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;
using doctest::Contains;

struct DeepRecipe {
    static constexpr Shape in = 37;
    static constexpr auto layers = chain(Linear{21}, LeakyRelu{}, Linear{9}, LeakyRelu{}, Linear{13}, LeakyRelu{}, Linear{5});
};
template <class R>
using Deep = Fixed<DeepRecipe, R>;

template <class R, class F>
Vec<R> written(std::size_t n, F&& f) {
    Vec<R> out(n, std::numeric_limits<R>::quiet_NaN());
    f(Out<R>(out));
    return out;
}

bool same_layout(Layout a, Layout b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Segment& x, const Segment& y) {
        return x.name == y.name && x.part == y.part && x.offset == y.offset && x.shape == y.shape && x.rank == y.rank &&
               x.fan_in == y.fan_in && x.value == y.value && x.deviation == y.deviation;
    });
}

// All that a model offers, on a whole batch, a weighted one and a part of it.
template <class M>
void check_same_bits(const M& fixed, const Network<real<M>>& loose, const data::Dataset& pool) {
    using R = real<M>;
    const auto ids = first_ids(pool.size());
    const auto weights = toy_numbers<R>(pool.size(), 5);
    const auto w = initial_parameters(fixed, Key{3});
    const auto anchor = initial_parameters(fixed, Key{6}), linear = initial_parameters(fixed, Key{7});
    const std::size_t outputs = fixed.outputs(), wide = fixed.feature_width();
    REQUIRE(loose.outputs() == outputs);
    REQUIRE(loose.feature_width() == wide);
    CHECK(loose.forward_flops() == fixed.forward_flops());
    CHECK(same_layout(loose.layout(), fixed.layout()));
    CHECK(same_bits(initial_parameters(loose, Key{3}), w));
    const Batch<R> whole(pool.examples(), ids), weighted(pool.examples(), ids, weights);
    for (const auto& batch : {whole, weighted, whole.part(0, 1), whole.part(3, 4)}) {
        const auto dz = toy_numbers<R>(batch.size() * outputs, 9);
        const auto both = [&](std::size_t n, auto&& ask) {
            return same_bits(written<R>(n, [&](Out<R> out) { ask(fixed, out); }),
                             written<R>(n, [&](Out<R> out) { ask(loose, out); }));
        };
        CHECK(both(w.size(), [&](const auto& m, Out<R> out) { m.gradient(w, batch, out); }));
        CHECK(both(batch.size() * outputs, [&](const auto& m, Out<R> out) { m.predict(w, batch, out); }));
        CHECK(both(batch.size() * outputs, [&](const auto& m, Out<R> out) { m.logits(w, batch, out); }));
        CHECK(both(w.size(), [&](const auto& m, Out<R> out) { m.pullback(w, batch, dz, out); }));
        CHECK(both(batch.size() * wide, [&](const auto& m, Out<R> out) { m.features(w, batch, out); }));
        for (const auto& s :
             {Step<R>{.rate = 0.05}, Step<R>{.rate = 0.05, .decay = 0.01, .momentum = 0.9},
              Step<R>{.terms = {.prox_center = anchor, .prox_weight = 0.3, .linear = linear}, .rate = 0.05},
              Step<R>{.terms = {.on = select<scope::Head>(fixed.layout())}, .rate = 0.05}}) {
            auto x = w, y = w;
            Vec<R> u(w.size(), R(0.5)), v = u;
            auto one = s, other = s;
            one.velocity = &u;
            other.velocity = &v;
            REQUIRE(loose.fuses(other));
            CHECK(fixed.fused_step(x, batch, one) == loose.fused_step(y, batch, other));
            CHECK(same_bits(x, y));
            CHECK(same_bits(u, v));
            CHECK_FALSE(same_bits(x, w));
        }
    }
}

data::Dataset bytes_dataset(std::size_t size, std::size_t width, std::size_t classes) {
    std::vector<std::uint8_t> pixels(size * width);
    Stream draw(Key{4});
    for (auto& p : pixels) p = static_cast<std::uint8_t>(draw.below(256));
    return data::Dataset::own(std::move(pixels), toy_labels(size, classes, 2), classes).normalised(80.0f, 0.01f);
}

}  // namespace

TEST_CASE("run-time widths have the bits of compiled ones, in every kernel set") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        check_same_bits(Deep<float>{}, mlp<float>({37, 21, 9, 13, 5}), toy_dataset<float>(12, 37, 5));
        check_same_bits(Deep<double>{}, mlp<double>({37, 21, 9, 13, 5}), toy_dataset<double>(12, 37, 5));
        check_same_bits(Mclr<16, 3>{}, mlp<float>({16, 3}), toy_dataset<float>(12, 16, 3));  // rows read in place
        check_same_bits(Mclr<60, 10>{}, mlp<float>({60, 10}), toy_dataset<double>(12, 60, 10));
        check_same_bits(Dnn<60, 20, 10>{}, mlp<float>({60, 20, 10}), toy_dataset<float>(12, 60, 10));
        check_same_bits(Dnn<784, 100, 10>{}, mlp<float>({784, 100, 10}), bytes_dataset(12, 784, 10));
        check_same_bits(Dnn<60, 20, 10, double>{}, mlp<double>({60, 20, 10}), bytes_dataset(12, 60, 10));
    });
}

TEST_CASE("parameter counts are those of the published sizes") {
    const auto count = [](std::initializer_list<std::size_t> widths) { return dimension(mlp<float>(widths)); };
    CHECK(count({784, 10}) == 7'850);
    CHECK(count({784, 62}) == 48'670);
    CHECK(count({60, 10}) == 610);
    CHECK(count({784, 100, 10}) == 79'510);
    CHECK(count({784, 100, 62}) == 84'762);
    CHECK(count({60, 20, 10}) == 1'430);
    CHECK(count({3072, 100, 10}) == 308'310);
}

TEST_CASE("its gradient is the slope of its loss") {
    const auto model = mlp<double>({5, 6, 4, 3}, 0.2);
    const auto pool = toy_dataset<double>(7, 5, 3);
    const auto ids = first_ids(7);
    const Batch<double> batch(pool.examples(), ids);
    const auto w = toy_numbers<double>(dimension(model), 21);
    std::vector<double> g(w.size());
    const double loss = model.gradient(w, batch, g);
    const auto slopes = finite_differences(
        [&](const std::vector<double>& at) {
            std::vector<double> unused(at.size());
            return model.gradient(at, batch, unused);
        },
        w);
    CHECK(relative_error(g, slopes) < 1e-6);  // see finite_differences.hpp: the differences are good to about 1e-9
    CHECK(loss > 0);
    std::vector<double> other(w.size());  // negative control: the slope of the activation counts
    mlp<double>({5, 6, 4, 3}, 0.1).gradient(w, batch, other);
    CHECK(relative_error(other, slopes) > 1e-3);
}

TEST_CASE("it steps in one call only what it can") {
    const auto model = mlp<float>({8, 5, 4});
    const Mask mask(dimension(model), true);
    CHECK(model.fuses({.rate = 1}));
    CHECK(model.fuses({.terms = {.on = select<scope::Input>(model.layout())}}));
    CHECK_FALSE(model.fuses({.rate = 1, .clip = 1}));
    CHECK_FALSE(model.fuses({.terms = {.active = &mask}}));
    CHECK_FALSE(
        model.fuses({.terms = {.on = Coordinates::range(0, 40)}}));  // the weights of the first layer, not its bias
}

TEST_CASE("a federation of run-time widths ends in the bits of the compiled one, also behind AnyModel") {
    const auto people = toy_data();
    const Settings settings{.seed = 3, .batch = 5, .rounds = 4};
    const auto end_of = [&](auto model) {
        Federation<FedAvg<>, decltype(model)> run{model, people, {.local = {.rate = 0.05}}, settings};
        run.run(4, sample::Everyone{});
        return run.fingerprint().hex();
    };
    const auto compiled = end_of(Dnn<Toy::width, 6, Toy::classes>{});
    CHECK(end_of(mlp<float>({Toy::width, 6, Toy::classes})) == compiled);
    CHECK(end_of(AnyModel<float>(mlp<float>({Toy::width, 6, Toy::classes}))) == compiled);
    CHECK(end_of(mlp<float>({Toy::width, 7, Toy::classes})) != compiled);
}

TEST_CASE("widths that cannot be, and examples of another width, are refused with a sentence") {
    using Widths = std::vector<std::size_t>;
    CHECK_THROWS_WITH_AS(mlp<float>(Widths{}), Contains("too few"), ConfigError);
    CHECK_THROWS_WITH_AS(mlp<float>(Widths{5}), Contains("too few"), ConfigError);
    CHECK_THROWS_WITH_AS(mlp<float>(Widths{5, 0, 3}), Contains("a width is 0"), ConfigError);
    const std::size_t huge = std::size_t{1} << 40;
    CHECK_THROWS_WITH_AS(mlp<float>(Widths{huge, huge}), Contains("than memory can hold"), ConfigError);

    const auto model = mlp<float>({8, 3});
    const auto pool = toy_dataset<float>(4, 9, 3);
    const auto ids = first_ids(4);
    std::vector<float> w(dimension(model)), out(w.size());
    CHECK_THROWS_WITH_AS(model.gradient(w, Batch<float>(pool.examples(), ids), out),
                         Contains("examples have 9 numbers, the model reads 8"), ConfigError);
}

}  // namespace mlp_test
