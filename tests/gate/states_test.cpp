// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/gate/states.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/nn/routed.hpp>
#include <tessera/nn/text_zoo.hpp>

#include <support/bits.hpp>
#include <support/toy_numbers.hpp>

namespace states_test {

using namespace tessera;
using support::toy_numbers;

namespace {

constexpr std::size_t words = 6, steps = 4, examples = 3;
const conformance::Complaints none;

std::size_t size_of(const gate::States& gate, const Routes& where) { return dimension(Layout(gate.segments(where))); }
template <class L>
Routes routes_of(nn::Shape in, const L& layers) {
    return nn::Network<float>(in, layers).routes(MixAt::layer);
}

data::Dataset sentences() {
    std::vector<std::int32_t> x, y;
    for (std::size_t i = 0; i < examples * steps; ++i) x.push_back(static_cast<std::int32_t>((5 * i + i * i) % words));
    for (std::size_t i = 0; i < examples * steps; ++i) y.push_back(static_cast<std::int32_t>((3 * i + 1) % words));
    y[2] = y[examples * steps - 1] = -1;
    return data::Dataset::own(x, y, words, steps);
}
const std::vector<Index> all{0, 1, 2};

auto shakespeare() { return nn::recipe::flow_shakespeare(words, 3, 2); }
auto stackoverflow() { return nn::recipe::flow_stackoverflow(words, 3, 2); }
gate::States small(bool whole, double dropout = 0) {
    return {.first = 5, .second = 4, .third = 0, .dense_first = 5, .dense_second = 4, .dense_third = 3, .whole = whole,
            .dropout = dropout};
}

// A batch that is drawn for training has a key.
template <class L>
conformance::Complaints slopes(const L& layers, const gate::States& gate, bool training, nn::RoutingTerms terms) {
    const nn::Network<double> net(steps, layers);
    const nn::Routed<nn::Network<double>, gate::States> objective(net, gate, terms);
    const auto pool = sentences();
    const Key draw{3};
    const Batch<double> batch(pool.examples(), all, {}, training ? &draw : nullptr);
    return conformance::check_gradients(objective, batch);
}

}  // namespace

TEST_CASE("the routers of the paper's language models have its numbers of parameters") {
    const auto shakespeare = routes_of(80, nn::recipe::flow_shakespeare(90));
    CHECK(shakespeare.blocks == 2 * 80);
    CHECK(size_of({}, shakespeare) == 672'002);
    CHECK(dimension(nn::FlowShakespeare<>()) == 822'570);
    // The program has a router for the scores as well, which it does not ask.
    const auto scored = routes_of(80, nn::chain(nn::unrouted(nn::Embedding{90, 8}), nn::recipe::lstm_cell(256),
                                                nn::recipe::lstm_cell(256), nn::by_position(nn::Linear{90})));
    CHECK(size_of({.dense_first = 100, .dense_second = 0}, scored) == 690'304);
    const auto words = routes_of(20, nn::recipe::flow_stackoverflow(10'004));
    CHECK(words.blocks == 3 * 20);
    CHECK(size_of({.whole = false}, words) == 891'151);
    for (const auto& s : gate::States{}.segments(shakespeare)) CHECK(s.part == Part::router);
    CHECK(check_gate<gate::States, float>());
    CHECK(check_gate<gate::States, double>());
}

TEST_CASE("a model says how wide what it shows is") {
    const auto r = routes_of(20, nn::recipe::flow_stackoverflow(50, 7, 4));
    REQUIRE(r.shown.size() == 3);
    CHECK(r.shown[0].recurs);
    CHECK(r.shown[0].asks == 20);
    CHECK(r.shown[0].input == 4);
    CHECK(r.shown[0].held == 14);
    CHECK(r.shown[0].out == 7);
    CHECK(r.shown[0].width() == 4 + 2 * 14);
    CHECK_FALSE(r.shown[1].recurs);
    CHECK(r.shown[1].asks == 20);
    CHECK(r.shown[1].input == 7);
    CHECK(r.shown[1].held == 4);
    const auto vectors = routes_of(5, nn::chain(nn::Linear{3}, nn::Relu{}, nn::Linear{2}));
    REQUIRE(vectors.shown.size() == 2);
    CHECK(vectors.shown[0].asks == 1);
    CHECK(vectors.shown[0].width() == 5 + 2 * 3);
    CHECK(vectors.shown[1].width() == 3 + 2 * 2);
}

TEST_CASE("gradients of both branches and the router are those of differences, cell by cell") {
    for (const bool training : {false, true}) {
        const double dropout = training ? 0.3 : 0.0;
        CHECK(slopes(shakespeare(), small(true, dropout), training, {.gamma = 0.1}) == none);
        CHECK(slopes(stackoverflow(), small(false, dropout), training, {.gamma = 0.1}) == none);
    }
    CHECK(slopes(shakespeare(), small(false), true, {.gamma = 0.1, .reg = nn::Reg::code}) == none);
    // One router of cells for cells apart, and exits of blocks that are asked once an example.
    CHECK(slopes(nn::chain(nn::Embedding{words, 2}, nn::recipe::lstm_cell(3), nn::Relu{}, nn::recipe::lstm_cell(3),
                           nn::Linear{words}),
                 small(true), true, {.gamma = 0.1}) == none);
    CHECK(slopes(nn::chain(nn::unrouted(nn::Embedding{words, 2}), nn::by_position(nn::Linear{3}), nn::Relu{},
                           nn::by_position(nn::Linear{words})),
                 small(true), true, {.gamma = 0.1}) == none);
}

TEST_CASE("q0 by hand: one hidden unit over what the cells hold, one router for both") {
    // The embedding is one number, a cell holds (h, c): the hidden unit reads (x, h_g, c_g, h_l, c_l).
    const nn::Network<double> net(2, nn::recipe::flow_shakespeare(3, 1, 1));
    const gate::States gate{.first = 1, .second = 0, .dropout = 0};
    const auto routes = net.routes(MixAt::layer);
    const std::vector<double> psi{0.5, 1, -2, 3, 0.25, 0.1, /*exit*/ 2, -1, 0.3, 0};
    REQUIRE(size_of(gate, routes) == psi.size());
    const auto pool = data::Dataset::own(std::vector<std::int32_t>{1, 2}, std::vector<std::int32_t>{2, 1}, 3, 2);
    const std::vector<Index> one{0};
    const Batch<double> batch(pool.examples(), one);
    auto asked = gate.route(routes, In<double>(psi), batch, Out<double>{});
    const auto q0 = [&](double x, const std::vector<double>& held) {
        double a = 0.5 * x + 0.1;
        for (std::size_t k = 0; k < 4; ++k) a += psi[k + 1] * held[k];
        a = std::max(a, 0.0);
        return 1 / (1 + std::exp(-((2 * a + 0.3) - (-1 * a))));
    };
    std::vector<double> got(1);
    asked.ask(0, std::vector<double>{0.7, 1, 0.1, 0.2, 0.3}, got);
    CHECK(got[0] == doctest::Approx(q0(0.7, {1, 0.1, 0.2, 0.3})).epsilon(1e-14));
    asked.ask(1, std::vector<double>{-0.4, 0.5, 0.1, 0.9, 0.3}, got);
    CHECK(got[0] == doctest::Approx(q0(-0.4, {0.5, 0.1, 0.9, 0.3})).epsilon(1e-14));
    // The second cell reads the first one's outputs; its router the embedding.
    asked.ask(2, std::vector<double>{123, 1, 0.2, 0.2, 0.6}, got);
    CHECK(got[0] == doctest::Approx(q0(0.7, {1, 0.2, 0.2, 0.6})).epsilon(1e-14));
    CHECK(std::fabs(got[0] - q0(123, {1, 0.2, 0.2, 0.6})) > 1e-3);
}

TEST_CASE("what is unrouted is the global model's; hard routing takes one branch at every position") {
    const nn::Network<float> net(steps, shakespeare());
    const auto pool = sentences();
    const Batch<float> batch(pool.examples(), all);
    const auto g = toy_numbers<float>(dimension(net), 1);
    auto l = toy_numbers<float>(dimension(net), 2);
    const std::size_t n = examples * net.outputs(), blocks = net.routes(MixAt::layer).blocks;
    const auto routed = [&](const std::vector<float>& q0, const auto& local, bool hard = false) {
        std::vector<float> out(n);
        Given<float> given(q0, blocks);
        if (hard) net.hard_predict(g, local, given, batch, out);
        else net.routed_predict(g, local, given, batch, out);
        return out;
    };
    const std::vector<float> local_all(examples * blocks, 0.0f), half(examples * blocks, 0.4f);
    const auto before = routed(local_all, l);
    CHECK(routed(half, l, true) == before);
    CHECK(routed(half, l) != before);
    auto moved = l;
    for (const auto& s : net.layout())
        if (s.part == Part::head || s.part == Part::input)
            for (std::size_t k = s.offset; k < s.end(); ++k) moved[k] += 1;
    CHECK(routed(local_all, moved) == before);
    for (float& v : l) v += 1;
    CHECK(routed(local_all, l) != before);
}

TEST_CASE("blocks that are mixed at every position: q0 = 1 and 0 are the two models, bit for bit") {
    const nn::Network<float> net(steps, nn::chain(nn::by_position(nn::Embedding{words, 3}), nn::by_position(nn::Linear{4}),
                                                  nn::Relu{}, nn::by_position(nn::Linear{words})));
    const auto pool = sentences();
    const Batch<float> batch(pool.examples(), all);
    const auto g = toy_numbers<float>(dimension(net), 1), l = toy_numbers<float>(dimension(net), 2);
    const std::size_t blocks = net.routes(MixAt::layer).blocks;
    CHECK(blocks == 3 * steps);
    const auto routed = [&](std::size_t position) {  // from there on local
        std::vector<float> q0(examples * blocks), out(examples * net.outputs());
        for (std::size_t k = 0; k < q0.size(); ++k) q0[k] = k % steps < position ? 1.0f : 0.0f;
        Given<float> given(q0, blocks);
        net.routed_predict(g, l, given, batch, out);
        return out;
    };
    std::vector<float> of_g(examples * net.outputs()), of_l(of_g);
    net.predict(g, batch, of_g);
    net.predict(l, batch, of_l);
    CHECK(routed(steps) == of_g);
    CHECK(routed(0) == of_l);
    const auto mixed = routed(2);
    for (std::size_t i = 0; i < examples; ++i)
        for (std::size_t k = 0; k < net.outputs(); ++k) {
            const std::size_t at = i * net.outputs() + k;
            CHECK(mixed[at] == (k / words < 2 ? of_g[at] : of_l[at]));
        }
}

TEST_CASE("what it cannot serve is said") {
    const gate::States gate;
    CHECK_THROWS_WITH_AS(gate.segments({4, 2}), "gate::States: it reads what branches hold, and this model shows nothing of that",
                         ConfigError);
    const auto two = routes_of(8, nn::chain(nn::unrouted(nn::Embedding{5, 2}), nn::recipe::lstm_cell(3), nn::recipe::lstm_cell(4)));
    CHECK_THROWS_AS(gate.segments(two), ConfigError);
    const auto mixed = routes_of(8, nn::chain(nn::Embedding{5, 2}, nn::recipe::lstm_cell(3), nn::by_position(nn::Linear{5})));
    CHECK_THROWS_AS(gate.segments(mixed), ConfigError);
    const auto many = routes_of(8, nn::chain(nn::Linear{5}, nn::Linear{4}, nn::Linear{3}, nn::Linear{2}));
    CHECK_THROWS_AS(gate.segments(many), ConfigError);
    CHECK_THROWS_AS(gate::States{.first = 0}.validate(), ConfigError);
    CHECK_THROWS_AS(gate::States{.dropout = 1}.validate(), ConfigError);
    CHECK_THROWS_AS(routes_of(8, nn::chain(nn::by_position(nn::Linear{5}), nn::Linear{4})), ConfigError);
    CHECK_THROWS_AS(routes_of(8, nn::chain(nn::chain(nn::unrouted(nn::Linear{5})), nn::Linear{4})), ConfigError);
}

}  // namespace states_test
