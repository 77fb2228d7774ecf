// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/routed.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include <tessera/conformance.hpp>
#include <tessera/gate/chain.hpp>
#include <tessera/gate/fixed.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/scalar_net.hpp>
#include <support/toy_numbers.hpp>

namespace routed_test {

using namespace tessera;
using nn::Moves;
using nn::Reg;
using support::Biases;

namespace {

template <class R>
using Net = nn::Dnn<5, 4, 3, R>;
using Router = gate::Chain<6>;

template <class R>
struct Case {
    Net<R> net{};
    Router gate{.dropout = 0.3};
    data::Dataset data = support::toy_dataset<R>(8, 5, 3);
    std::vector<Index> ids = support::first_ids(8);
    Key draw{5};
    std::size_t d = Net<R>::parameters;

    Batch<R> batch() const { return {data.examples(), ids, {}, &draw}; }
    nn::Routed<Net<R>, Router> objective(const nn::RoutingTerms& terms, Moves moves = Moves::all,
                                       nn::Reuse<R>* reuse = nullptr) const {
        return {net, gate, terms, moves, reuse};
    }
    std::vector<R> x(const nn::RoutingTerms& terms = {}) const {
        return support::toy_numbers<R>(dimension(objective(terms)), 6);
    }
};

}  // namespace

TEST_CASE("all of J's gradient is that of differences, for every regulariser and level of mixing") {
    const Case<double> c;
    for (const auto reg : {Reg::q0_all, Reg::code, Reg::code_cifar})
        CHECK(conformance::check_gradients(c.objective({.gamma = 0.3, .reg = reg}), c.batch()) ==
              conformance::Complaints{});
    const nn::RoutingTerms output{.gamma = 0.3, .mix = MixAt::output};
    const gate::Chain<> one{.dropout = 0.3};
    CHECK(conformance::check_gradients(nn::Routed<Net<double>, gate::Chain<>>(c.net, one, output), c.batch()) ==
          conformance::Complaints{});
}

TEST_CASE("each step's objective writes its own coordinates and no others") {
    const Case<float> c;
    const nn::RoutingTerms terms{.gamma = 0.1};
    const auto x = c.x();
    const std::size_t d = c.d, p = c.objective(terms).router_size();
    REQUIRE(x.size() == 2 * d + p);
    std::vector<float> all(x.size());
    const double j_psi = c.objective(terms).gradient(x, c.batch(), all);
    double j_g = 0;
    for (const auto moves : {Moves::router, Moves::global, Moves::branches}) {
        const auto objective = c.objective(terms, moves);
        std::vector<float> out(x.size(), 77.0f);
        const double loss = objective.gradient(x, c.batch(), out);
        if (moves == Moves::router) CHECK(loss == j_psi);
        else j_g = loss;
        const Coordinates own = objective.on();
        bool right = true;
        for (std::size_t j = 0; j < x.size(); ++j)
            right = right && out[j] == (own.touches({j, j + 1}) ? all[j] : 77.0f);
        CHECK(right);
    }
    CHECK(j_g < j_psi);  // the regulariser is positive, and is no part of J_g
    CHECK(c.objective(terms, Moves::router).on().size(x.size()) == p);
    CHECK(c.objective(terms, Moves::global).on().size(x.size()) == d);
    CHECK(c.objective(terms, Moves::branches).on().size(x.size()) == 2 * d);
    CHECK(c.objective(terms, Moves::tied).on().size(x.size()) == d);
}

TEST_CASE("global_loss = global descends the loss of w_g alone, bit for bit (D-FLOW-2)") {
    const Case<float> c;
    const auto x = c.x();
    std::vector<float> released(x.size()), paper(x.size()), plain(c.d);
    c.net.gradient(In<float>(x).first(c.d), c.batch(), plain);
    c.objective({.global_loss = nn::GlobalLoss::global}, Moves::global).gradient(x, c.batch(), released);
    c.objective({}, Moves::global).gradient(x, c.batch(), paper);
    released.resize(c.d);
    paper.resize(c.d);
    CHECK(released == plain);
    CHECK(paper != plain);
}

TEST_CASE("L-FLOW-3 equal branches: the data's gradient in psi is exactly 0, what remains is the regulariser's") {
    const Case<float> c;
    auto x = c.x();
    std::copy_n(x.begin(), c.d, x.end() - static_cast<std::ptrdiff_t>(c.d));
    const auto psi_gradient = [&](const std::vector<float>& at, double gamma) {
        std::vector<float> out(at.size());
        c.objective({.gamma = gamma}, Moves::router).gradient(at, c.batch(), out);
        const auto d = static_cast<std::ptrdiff_t>(c.d);
        return std::vector<float>(out.begin() + d, out.end() - d);
    };
    CHECK(psi_gradient(x, 0) == std::vector<float>(c.objective({}).router_size(), 0.0f));
    CHECK(psi_gradient(x, 0.1) != psi_gradient(x, 0));
    CHECK(psi_gradient(c.x(), 0) != psi_gradient(x, 0));  // branches that differ do pull on psi
}

TEST_CASE("L-FLOW-5 a constant loss: dJ/dz0 = -(gamma/L) q1 = -dJ/dz1 per block, and steps drive q0 to 1") {
    const support::ScalarNet<2>::type net;
    const auto data = support::scalar_data({1, 2, 3}, {1, 1, 1});
    const auto share = data[0];
    const Batch<double> b(*share.examples, share.train);
    const Biases gate;
    const double gamma = 0.4;
    const nn::Routed<support::ScalarNet<2>::type, Biases> objective(net, gate, {.gamma = gamma, .eps = 0},
                                                                    Moves::router);
    std::vector<double> x{0.5, 0.7, 0.3, -0.2, 1.0, 0.1, 0.5, 0.7}, g(x.size());  // w_l = w_g
    objective.gradient(x, b, g);
    const auto q0 = [&](std::size_t j) { return 1 / (1 + std::exp(x[3 + 2 * j] - x[2 + 2 * j])); };
    for (std::size_t j = 0; j < 2; ++j) {
        CHECK(std::fabs(g[2 + 2 * j] + gamma / 2 * (1 - q0(j))) < 1e-15);  // the mean of three equal numbers
        CHECK(g[3 + 2 * j] == -g[2 + 2 * j]);
    }
    double before = q0(0);
    bool rising = true;
    for (int s = 0; s < 400; ++s) {
        objective.gradient(x, b, g);
        for (std::size_t j = 2; j < 6; ++j) x[j] -= g[j];
        rising = rising && q0(0) > before;
        before = q0(0);
    }
    CHECK(rising);
    CHECK(q0(0) > 0.98);
    CHECK(q0(1) > 0.98);
}

TEST_CASE("the regularisers as the papers and programs write them (D-FLOW-3)") {
    const double q = 0.3, e = 1e-6;
    const auto price = [&](Reg reg, std::size_t j, double q0, std::size_t blocks = 4) {
        return nn::RoutingTerms{.gamma = 0.5, .eps = e, .reg = reg}.price(q0, j, blocks, 10).value;
    };
    for (std::size_t j = 0; j < 4; ++j) {
        CHECK(price(Reg::q0_all, j, q) == doctest::Approx(-0.5 / 4 / 10 * std::log(q + e)).epsilon(1e-14));
        CHECK(price(Reg::code_cifar, j, q) == doctest::Approx(-0.5 / 4 / 10 * std::log(0.49 + e)).epsilon(1e-14));
        const double both = -0.5 / 2 / 10 * (std::log(0.09 + e) + std::log(0.49 + e));
        CHECK(price(Reg::code, j, q) == (j == 1 ? doctest::Approx(both).epsilon(1e-14) : doctest::Approx(0)));
    }
    CHECK(price(Reg::q0_all, 0, 0.9) < price(Reg::q0_all, 0, 0.1));          // to the global branch
    CHECK(price(Reg::code_cifar, 0, 0.9) > price(Reg::code_cifar, 0, 0.1));  // to the local one
    CHECK(price(Reg::code, 1, 0.5) < price(Reg::code, 1, 0.9));              // to a half
    CHECK(price(Reg::code, 0, q, 1) > 0);                                    // of one block that one
    CHECK(nn::RoutingTerms{.gamma = 0, .eps = 0}.price(0, 0, 1, 1).value == 0);
}

TEST_CASE("operations of a pass: both branches and the router, or w_g where its loss alone is descended") {
    const Case<float> c;
    const double model = c.net.forward_flops(), both = 2 * model + c.gate.forward_flops(c.net.routes(MixAt::layer));
    const nn::RoutingTerms released{.global_loss = nn::GlobalLoss::global};
    for (const auto moves : {Moves::all, Moves::router, Moves::global, Moves::branches})
        CHECK(c.objective({}, moves).forward_flops() == both);
    CHECK(both > 2 * model);
    CHECK(c.objective({}, Moves::tied).forward_flops() == model);
    CHECK(c.objective(released, Moves::global).forward_flops() == model);
    CHECK(c.objective(released, Moves::router).forward_flops() == both);
}

TEST_CASE("L-FLOW-9 without a second branch the output does not depend on psi and is the global one") {
    const Case<float> c;
    auto x = c.x();
    x.resize(c.d + c.objective({}).router_size());
    const Batch<float> b = c.batch().evaluated();
    std::vector<float> plain(8 * 3), routed(plain.size()), out(x.size(), 77.0f), expected(c.d);
    c.net.predict(In<float>(x).first(c.d), b, plain);
    for (const auto how : {nn::Inference::hard, nn::Inference::soft}) {
        c.objective({.inference = how}).predict(x, b, routed);
        CHECK(routed == plain);
    }
    const double loss = c.net.gradient(In<float>(x).first(c.d), b, expected);
    CHECK(c.objective({}, Moves::tied).gradient(x, b, out) == loss);
    CHECK(std::vector<float>(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(c.d)) == expected);
    CHECK(out.back() == 77.0f);
}

TEST_CASE("the global step after the router's step uses what is left of it, and gets the same bits") {
    const Case<float> c;
    const auto steps = [&](bool reuses, bool stale) {
        nn::Reuse<float> reuse;
        auto x = c.x();
        std::vector<float> g(x.size());
        const auto router = c.objective({.gamma = 0.1}, Moves::router, reuses ? &reuse : nullptr);
        const auto global = c.objective({.gamma = 0.1}, Moves::global, reuses ? &reuse : nullptr);
        for (int s = 0; s < 3; ++s)
            for (const auto* step : {&router, &global}) {
                const Batch<float> b = c.batch().part(s == 0 ? 0 : 2, 6);
                step->gradient(x, b, g);
                step->on().each(x.size(), [&](Range r) {
                    for (std::size_t j = r.begin; j < r.end; ++j) x[j] -= 0.1f * g[j];
                });
                if (step == &router && reuses) CHECK(reuse.kept.holds);
                if (step == &global && reuses) CHECK_FALSE(reuse.kept.holds);
                if (step == &global && stale) reuse.kept.holds = true;  // as if the branches had not moved
            }
        return x;
    };
    CHECK(steps(true, false) == steps(false, false));
    CHECK(steps(true, true) != steps(false, false));
}

TEST_CASE("shares are the gate's; hard and soft inference differ where q0 is no corner") {
    const Case<float> c;
    const auto x = c.x();
    const Batch<float> b = c.batch().evaluated();
    const auto objective = c.objective({.inference = nn::Inference::soft});
    std::vector<float> q0(8 * 2), soft(8 * 3), hard(8 * 3);
    objective.shares(x, b, q0);
    for (const float q : q0) CHECK((q > 0 && q < 1));
    CHECK(q0[0] != q0[1]);
    objective.predict(x, b, soft);
    c.objective({}).predict(x, b, hard);
    CHECK(soft != hard);
    const nn::RoutedPredictor<Net<float>, Router> served(c.net, c.gate, {}, Vec<float>(x.begin(), x.end()));
    std::vector<float> again(hard.size()), shown(q0.size());
    served(b, again);
    served.shares(b, shown);
    CHECK(again == hard);
    CHECK(shown == q0);
    CHECK(served.blocks() == 2);
}

TEST_CASE("layout: the model's, the router's, the local copy's; wrong terms are refused") {
    const Case<float> c;
    const auto objective = c.objective({});
    const Layout layout = objective.layout();
    CHECK(layout.front().name.view() == "global.0.weight");
    CHECK(layout[4].name.view() == "router.0.weight");
    CHECK(layout[4].part == Part::router);
    CHECK(layout[4].offset == c.d);
    CHECK(layout.back().name.view() == "local.2.bias");
    CHECK(layout.back().end() == 2 * c.d + objective.router_size());
    const auto start = objective.start(Vec<float>(c.d, 2.0f), Key{1});
    CHECK(start.size() == c.d + objective.router_size());
    CHECK(start[0] == 2.0f);
    CHECK(start.back() != objective.start(Vec<float>(c.d, 2.0f), Key{2}).back());
    CHECK_THROWS_WITH_AS((nn::RoutingTerms{.gamma = -1}.validate()), "gamma must be 0 or more, and finite, not -1.000000",
                         ConfigError);
    CHECK_THROWS_AS((nn::RoutingTerms{.gamma = std::numeric_limits<double>::infinity()}.validate()), ConfigError);
    CHECK_THROWS_AS((nn::RoutingTerms{.eps = -1}.validate()), ConfigError);
}

}  // namespace routed_test
