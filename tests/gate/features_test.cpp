// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/gate/features.hpp>

#include <cmath>
#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include <tessera/method/flow.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>
#include <support/unfused.hpp>

namespace features_test {

using namespace tessera;
using support::Toy;
using support::toy_data;

namespace {

template <class R>
nn::Network<R> convnet() {
    using namespace nn;
    return {Shape(1, 4, 4), chain(Conv2d{.outputs = 3, .pad = 1}, Relu{}, MaxPool2d{}, Linear{5}, Relu{}, Linear{3})};
}

}  // namespace

TEST_CASE("one net a block, as wide as what the block reads") {
    const auto net = convnet<double>();
    const auto all = gate::Features{.hidden = 2}.segments(net.routes(MixAt::layer));
    // 16 pixels, 3 planes of 4 features, 5: (n + 1) 2 + (2 + 1) 2 each.
    CHECK(dimension(Layout(all)) == (17 + 13 + 6) * 2 + 3 * 6);
    CHECK(gate::Features{.hidden = 2}.forward_flops(net.routes(MixAt::layer)) == 2 * ((17 + 13 + 6) * 2 + 3 * 6));
}

TEST_CASE("slopes of branches and router, on a convolutional net, are those that differences find") {
    const auto net = convnet<double>();
    const gate::Features gate{.hidden = 4, .dropout = 0};
    for (const MixAt mix : {MixAt::layer, MixAt::output}) {
        const nn::Routed<nn::Network<double>, gate::Features> objective(net, gate, {.gamma = 0.1, .mix = mix});
        CHECK(conformance::check_gradients(objective, 1e-6, 16).empty());
    }
}

TEST_CASE("a block is routed by its features: examples that the block below makes alike share their route") {
    // The first layer of both branches reads feature 0 alone, so what else an example holds is seen by block 0 and no other.
    using Net = nn::Dnn<4, 3, 2, double>;
    const Net net;
    const gate::Features gate{.hidden = 4};
    const nn::Routed<Net, gate::Features> routed(net, gate, {});
    Vec<double> w = initial_parameters(net, Key{1});
    for (std::size_t out = 0; out < 3; ++out)
        for (std::size_t in = 1; in < 4; ++in) w[out * 4 + in] = 0;
    Vec<double> x = routed.start(w, Key{2});
    x.insert(x.end(), w.begin(), w.end());
    const auto pool = data::Dataset::own(std::vector<double>{0.5, 1, 2, 3, 0.5, -1, 0, 9, 0.7, 1, 2, 3}, {0, 1, 0}, 2);
    const std::vector<Index> ids{0, 1, 2};
    Vec<double> q0(3 * routed.blocks());
    routed.shares(x, Batch<double>(pool.examples(), ids), q0);
    REQUIRE(routed.blocks() == 2);
    CHECK(q0[1] == q0[3]);
    CHECK(q0[1] != q0[5]);
    CHECK(q0[0] != q0[2]);
}

TEST_CASE("settings and models that cannot be right are refused; Flow with it keeps the laws of methods") {
    using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
    using Method = Flow<gate::Features>;
    CHECK_THROWS_WITH_AS((Federation<Method, Net>{{}, toy_data(), {.gate = {.hidden = 0}}}), doctest::Contains("hidden"),
                         ConfigError);
    CHECK_THROWS_WITH_AS((Federation<Method, Net>{{}, toy_data(), {.gate = {.dropout = 1}}}),
                         doctest::Contains("dropout"), ConfigError);
    CHECK(support::broken_laws<Method, Net>({.gate = {.hidden = 3}, .local = {.rate = 0.05}}) == "");
}

}  // namespace features_test
