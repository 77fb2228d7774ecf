// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/routing.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <tessera/nn/any_model.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/recurrent.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/finite_differences.hpp>
#include <support/scalar_net.hpp>
#include <support/toy_numbers.hpp>

namespace routing_test {

using namespace tessera;
using support::first_ids;
using support::toy_numbers;

namespace {

constexpr std::size_t rows = 9, width = 5, classes = 3;

// Three blocks, the second a layer with its norm; ReLU and dropout between blocks are not routed.
struct NetRecipe {
    static constexpr nn::Shape in = width;
    static constexpr auto layers =
        nn::chain(nn::Linear{7}, nn::LeakyRelu{}, nn::Dropout{}, nn::chain(nn::Linear{6}, nn::GroupNorm{}),
                  nn::LeakyRelu{}, nn::Linear{classes});
};
template <class R>
using Net = nn::Fixed<NetRecipe, R>;

template <class R>
std::vector<R> shares(std::size_t blocks, std::uint64_t seed) {
    auto q0 = toy_numbers<R>(rows * blocks, seed);
    for (R& q : q0) q = (q + 1) / 2;
    return q0;
}
template <class R>
struct Case {
    Net<R> net{};
    data::Dataset data = support::toy_dataset<R>(rows, width, classes);
    std::vector<Index> ids = first_ids(rows);
    std::vector<R> w_g = toy_numbers<R>(Net<R>::parameters, 3), w_l = toy_numbers<R>(Net<R>::parameters, 4);

    Batch<R> batch() const { return {data.examples(), ids}; }
    std::vector<R> soft(const std::vector<R>& q0, MixAt mix = MixAt::layer) const { return predicted(q0, mix, false); }
    std::vector<R> hard(const std::vector<R>& q0, MixAt mix = MixAt::layer) const { return predicted(q0, mix, true); }
    std::vector<R> plain(const std::vector<R>& w) const {
        std::vector<R> out(rows * classes);
        net.predict(w, batch(), out);
        return out;
    }

private:
    std::vector<R> predicted(const std::vector<R>& q0, MixAt mix, bool hard) const {
        std::vector<R> out(rows * classes);
        Given<R> routing(q0, net.routes(mix).blocks);
        routing.mix = mix;
        if (hard) net.hard_predict(w_g, w_l, routing, batch(), out);
        else net.routed_predict(w_g, w_l, routing, batch(), out);
        return out;
    }
};

}  // namespace

TEST_CASE("every layer with parameters is a block, several layers in a Block are one") {
    CHECK(Net<float>{}.routes(MixAt::layer).blocks == 3);
    CHECK(Net<float>{}.routes(MixAt::layer).inputs == width);
    CHECK(Net<float>{}.routes(MixAt::output).blocks == 1);
    CHECK(nn::Dnn<4, 3, 2>{}.routes(MixAt::layer).blocks == 2);
    CHECK(RoutableModel<Net<float>>);
    CHECK(RoutableModel<nn::AnyModel<float>>);
}

TEST_CASE("V-FLOW-2 two blocks, linear: loss and all gradients") {
    const auto data = support::scalar_data({1}, {1});
    const support::ScalarNet<2>::type net;
    const auto share = data[0];
    const Batch<double> b(*share.examples, share.train);
    const std::vector<double> w_g{0.5, 0.5}, w_l{1, 1}, q0{0.5, 0.25};
    std::vector<double> dw_g(2), dw_l(2), dq0(2), out(1);
    Given<double> routing(q0, 2, dq0);
    // Every number is a multiple of 2^-11, so there is no rounding.
    CHECK(net.routed_gradient(w_g, w_l, routing, b, dw_g, dw_l) == 0.05908203125);
    CHECK(dw_g == std::vector<double>{-0.150390625, -0.064453125});
    CHECK(dq0 == std::vector<double>{0.150390625, 0.12890625});
    net.routed_predict(w_g, w_l, routing, b, out);
    CHECK(out[0] == 0.65625);
}

TEST_CASE("V-FLOW-3 a tie is global, a little less is local") {
    const auto data = support::scalar_data({1}, {1});
    const support::ScalarNet<1>::type net;
    const auto share = data[0];
    const Batch<double> b(*share.examples, share.train);
    const auto routed = [&](double q) {
        const std::vector<double> w_g{2}, w_l{3}, q0{q};
        std::vector<double> out(1);
        Given<double> routing(q0, 1);
        net.hard_predict(w_g, w_l, routing, b, out);
        return out[0];
    };
    CHECK(routed(0.5) == 2);
    CHECK(routed(0.4999) == 3);
}

TEST_CASE("gradients of both branches and of q0 are those of differences") {
    const Key draw{7};
    for (const auto mix : {MixAt::layer, MixAt::output})
        for (const bool training : {false, true}) {
            const Case<double> c;
            const Batch<double> b(c.data.examples(), c.ids, {}, training ? &draw : nullptr);
            const std::size_t blocks = c.net.routes(mix).blocks;
            const auto q0 = shares<double>(blocks, 5);
            const auto loss = [&](const std::vector<double>& w_g, const std::vector<double>& w_l,
                                  const std::vector<double>& q) {
                Given<double> routing(q, blocks);
                routing.mix = mix;
                return c.net.routed_gradient(w_g, w_l, routing, b, {}, {});
            };
            std::vector<double> dw_g(c.w_g.size()), dw_l(c.w_g.size()), dq0(q0.size());
            Given<double> routing(q0, blocks, dq0);
            routing.mix = mix;
            const double value = c.net.routed_gradient(c.w_g, c.w_l, routing, b, dw_g, dw_l);
            CHECK(value == loss(c.w_g, c.w_l, q0));
            const auto near = [](const std::vector<double>& got, const std::vector<double>& expected) {
                return support::relative_error(got, expected) < 1e-6;  // see finite_differences.hpp
            };
            CHECK(near(dw_g, support::finite_differences([&](const auto& w) { return loss(w, c.w_l, q0); }, c.w_g)));
            CHECK(near(dw_l, support::finite_differences([&](const auto& w) { return loss(c.w_g, w, q0); }, c.w_l)));
            CHECK(near(dq0, support::finite_differences([&](const auto& q) { return loss(c.w_g, c.w_l, q); }, q0)));
            CHECK_FALSE(near(dw_g, dw_l));
        }
}

TEST_CASE("a gradient that is not asked for changes none of the others") {
    const Case<float> c;
    const auto q0 = shares<float>(3, 5);
    std::vector<float> dw_g(c.w_g.size()), dw_l(c.w_g.size()), dq0(q0.size()), alone(c.w_g.size()), router(q0.size());
    Given<float> all(q0, 3, dq0), none(q0, 3), only(q0, 3, router);
    c.net.routed_gradient(c.w_g, c.w_l, all, c.batch(), dw_g, dw_l);
    c.net.routed_gradient(c.w_g, c.w_l, none, c.batch(), alone, {});
    CHECK(alone == dw_g);
    c.net.routed_gradient(c.w_g, c.w_l, none, c.batch(), {}, alone);
    CHECK(alone == dw_l);
    c.net.routed_gradient(c.w_g, c.w_l, only, c.batch(), {}, {});
    CHECK(router == dq0);
}

TEST_CASE("q0 = 1 is the global network and q0 = 0 the local one, bit for bit, also in their gradients") {
    const Case<float> c;
    for (const auto mix : {MixAt::layer, MixAt::output}) {
        const std::size_t blocks = c.net.routes(mix).blocks;
        const std::vector<float> ones(rows * blocks, 1), zeros(rows * blocks, 0), half(rows * blocks, 0.5f);
        CHECK(c.soft(ones, mix) == c.plain(c.w_g));
        CHECK(c.soft(zeros, mix) == c.plain(c.w_l));
        CHECK(c.soft(half, mix) != c.plain(c.w_g));
        std::vector<float> plain(c.w_g.size()), dw_g(c.w_g.size()), dw_l(c.w_g.size());
        const Key draw{7};
        const Batch<float> b(c.data.examples(), c.ids, {}, &draw);
        Given<float> routing(ones, blocks);
        routing.mix = mix;
        const double loss = c.net.gradient(c.w_g, b, plain);
        CHECK(c.net.routed_gradient(c.w_g, c.w_l, routing, b, dw_g, dw_l) == loss);
        CHECK(dw_g == plain);
        CHECK(dw_l == std::vector<float>(c.w_g.size(), 0.0f));
    }
}

TEST_CASE("equal branches give themselves for every q0, and no gradient in q0 (L-FLOW-3)") {
    Case<float> c;
    c.w_l = c.w_g;
    const auto q0 = shares<float>(3, 8);
    CHECK(c.soft(q0) == c.plain(c.w_g));
    std::vector<float> dq0(q0.size(), 1.0f);
    Given<float> routing(q0, 3, dq0);
    c.net.routed_gradient(c.w_g, c.w_l, routing, c.batch(), {}, {});
    CHECK(dq0 == std::vector<float>(q0.size(), 0.0f));
    c.w_l[0] += 0.5f;
    c.net.routed_gradient(c.w_g, c.w_l, routing, c.batch(), {}, {});
    CHECK(dq0 != std::vector<float>(q0.size(), 0.0f));
}

TEST_CASE("L-FLOW-7 a one-hot q0 is the same soft and hard; another one is not") {
    const Case<float> c;
    for (const auto mix : {MixAt::layer, MixAt::output}) {
        auto q0 = shares<float>(c.net.routes(mix).blocks, 9);
        CHECK(c.soft(q0, mix) != c.hard(q0, mix));
        auto one_hot = q0;
        for (float& q : one_hot) q = q >= 0.5f ? 1.0f : 0.0f;
        CHECK(std::ranges::count(one_hot, 1.0f) > 0);
        CHECK(std::ranges::count(one_hot, 0.0f) > 0);
        CHECK(c.soft(one_hot, mix) == c.hard(one_hot, mix));
        CHECK(c.hard(q0, mix) == c.hard(one_hot, mix));
        for (float& q : q0) q = 0.5f + q / 2;
        CHECK(c.hard(q0, mix) == c.plain(c.w_g));
    }
}

TEST_CASE("L-FLOW-8 exchanging branches and shares changes nothing") {
    Case<double> c;
    const auto q0 = shares<double>(3, 10);
    auto q1 = q0;
    for (double& q : q1) q = 1 - q;
    const auto before = c.soft(q0), unswapped = c.soft(q1);
    std::swap(c.w_g, c.w_l);
    const auto after = c.soft(q1);
    double apart = 0, control = 0;
    for (std::size_t k = 0; k < before.size(); ++k) {
        apart = std::max(apart, std::fabs(before[k] - after[k]));
        control = std::max(control, std::fabs(unswapped[k] - after[k]));
    }
    CHECK(apart < 1e-12);  // a few roundings of numbers of size 1
    CHECK(control > 1e-3);
}

TEST_CASE("permuting a batch permutes what comes out, soft and hard (L-FLOW-11)") {
    Case<float> c;
    const auto q0 = shares<float>(3, 11);
    const auto soft = c.soft(q0), hard = c.hard(q0);
    std::vector<std::size_t> to{4, 8, 0, 2, 7, 1, 3, 6, 5};
    const auto ids = c.ids;
    auto moved = q0;
    for (std::size_t i = 0; i < rows; ++i) {
        c.ids[to[i]] = ids[i];
        std::copy_n(q0.data() + 3 * i, 3, moved.data() + 3 * to[i]);
    }
    const auto soft_moved = c.soft(moved), hard_moved = c.hard(moved);
    bool same = true;
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t k = 0; k < classes; ++k)
            same = same && soft_moved[to[i] * classes + k] == soft[i * classes + k] &&
                   hard_moved[to[i] * classes + k] == hard[i * classes + k];
    CHECK(same);
    CHECK(soft_moved != soft);
}

TEST_CASE("hard routing reads bytes as the plain network does") {
    using Bytes = nn::Dnn<32, 8, classes>;
    std::vector<std::uint8_t> pixels(rows * 32);
    for (std::size_t k = 0; k < pixels.size(); ++k) pixels[k] = static_cast<std::uint8_t>(37 * k % 251);
    const auto labels = support::toy_labels(rows, classes, 2);
    const Examples examples{.size = rows, .width = 32, .storage = Storage::bytes, .rows = pixels.data(), .shift = 100,
                            .scale = 0.01f, .labels = labels.data(), .classes = classes};
    const auto ids = first_ids(rows);
    const Batch<float> b(examples, ids);
    const auto w_g = toy_numbers<float>(Bytes::parameters, 3), w_l = toy_numbers<float>(Bytes::parameters, 4);
    std::vector<float> global(rows * classes), local(global.size()), routed(global.size());
    Bytes{}.predict(w_g, b, global);
    Bytes{}.predict(w_l, b, local);
    std::vector<float> q0(2 * rows);
    for (std::size_t i = 0; i < rows; ++i) q0[2 * i] = q0[2 * i + 1] = i % 2 == 0 ? 1.0f : 0.0f;
    Given<float> routing(q0, 2);
    Bytes{}.hard_predict(w_g, w_l, routing, b, routed);
    for (std::size_t k = 0; k < routed.size(); ++k) CHECK(routed[k] == (k / classes % 2 == 0 ? global : local)[k]);
}

TEST_CASE("what is kept of a pass replaces all before the first mix, and nothing else") {
    const Case<float> c;
    const auto q0 = shares<float>(3, 12), other = shares<float>(3, 13);
    const auto run = [&](const std::vector<float>& q, RoutedPrefix<float>* kept) {
        std::vector<float> dw(c.w_g.size());
        Given<float> routing(q, 3);
        routing.kept = kept;
        c.net.routed_gradient(c.w_g, c.w_l, routing, c.batch(), dw, {});
        return dw;
    };
    RoutedPrefix<float> kept;
    run(q0, &kept);
    CHECK(kept.holds);
    CHECK(run(other, &kept) == run(other, nullptr));
    for (float& v : kept.numbers) v += 1;  // outputs of the first block among them
    CHECK(run(other, &kept) != run(other, nullptr));
    kept.holds = false;
    CHECK(run(other, &kept) == run(other, nullptr));
}

TEST_CASE("blocks of any kind: residual ones, adapters, an LSTM, shared parameters, by differences") {
    const auto by_differences = [](const nn::Network<double>& net) {
        const std::size_t each = net.positions(), labels = net.outputs() / each;
        const auto data = data::Dataset::own(toy_numbers<double>(4 * net.input_width(), 1),
                                             support::toy_labels(4 * each, labels, 2), labels, each);
        const auto ids = first_ids(4);
        const Batch<double> batch(data.examples(), ids);
        const std::size_t d = dimension(net), blocks = net.routes(MixAt::layer).blocks, n = 2 * d + 4 * blocks;
        auto x = toy_numbers<double>(n, 7);  // w_g, w_l and the shares
        for (std::size_t k = 2 * d; k < n; ++k) x[k] = 0.5 + 0.4 * x[k];
        const auto loss = [&](const std::vector<double>& at, Out<double> dw_g, Out<double> dw_l, Out<double> dq0) {
            const In<double> all(at);
            Given<double> routing(all.subspan(2 * d), blocks, dq0);
            return net.routed_gradient(all.first(d), all.subspan(d, d), routing, batch, dw_g, dw_l);
        };
        std::vector<double> g(n);
        const Out<double> out(g);
        loss(x, out.first(d), out.subspan(d, d), out.subspan(2 * d));
        return support::relative_error(
            g, support::finite_differences([&](const auto& at) { return loss(at, {}, {}, {}); }, x));
    };
    using namespace nn;
    const auto block = residual(chain(Conv2d{.outputs = 3, .kernel = 3, .pad = 1}, GroupNorm{}));
    CHECK(by_differences(Network<double>(nn::Shape(1, 4, 3), chain(Conv2d{.outputs = 3, .kernel = 1}, block, LeakyRelu{}, block,
                                                                   Linear{3}))) < 1e-6);
    CHECK(by_differences(Network<double>(5, chain(Linear{6}, bottleneck(2, Near{0.5}), LeakyRelu{}, again(2, Linear{6}),
                                                  Linear{3}))) < 1e-6);
    CHECK(by_differences(Network<double>(nn::Shape(4, 2), chain(Lstm{3}, Lstm{3}, Linear{2}))) < 1e-6);
}

TEST_CASE("a model chosen at run time routes with the same bits; one without blocks says so") {
    const Case<float> c;
    const nn::AnyModel<float> any(c.net);
    const auto q0 = shares<float>(3, 5);
    std::vector<float> dw(c.w_g.size()), expected(c.w_g.size()), dq0(q0.size()), expected_dq0(q0.size());
    Given<float> routing(q0, 3, dq0), direct(q0, 3, expected_dq0);
    CHECK(any.routes(MixAt::layer).blocks == 3);
    CHECK(any.routed_gradient(c.w_g, c.w_l, routing, c.batch(), dw, {}) ==
          c.net.routed_gradient(c.w_g, c.w_l, direct, c.batch(), expected, {}));
    CHECK(dw == expected);
    CHECK(dq0 == expected_dq0);
    std::vector<float> out(rows * classes);
    any.routed_predict(c.w_g, c.w_l, routing, c.batch(), out);
    CHECK(out == c.soft(q0));
    any.hard_predict(c.w_g, c.w_l, routing, c.batch(), out);
    CHECK(out == c.hard(q0));

    struct Bare {
        using Real = float;
        Layout layout() const { return {}; }
        std::size_t outputs() const { return 1; }
        double gradient(In<float>, const Batch<float>&, Out<float>) const { return 0; }
        void predict(In<float>, const Batch<float>&, Out<float>) const {}
    };
    CHECK_THROWS_WITH_AS(nn::AnyModel<float>(Bare{}).routes(MixAt::layer),
                         "this model has no blocks to route between, which the method needs", ConfigError);
}

}  // namespace routing_test
