// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/feddyn.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>

#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>

namespace feddyn_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
using Line = support::Quadratic<>;
constexpr Settings usual{.seed = 3, .batch = 5};

template <class Me>
Federation<Me, Line> on_two(const Me& method) {
    return {{}, support::quadratic_data({{{1, 0}}, {{3, 4}}}), method, {.batch = 0}, Vec<double>{0}};
}
}  // namespace

TEST_CASE("V-BASE-1, L-BASE-10 the fixed point is the optimum, however long clients train; FedProx's is not") {
    for (const std::size_t epochs : {1u, 2u, 10u, 200u}) {  // the last is an exact solution
        CAPTURE(epochs);
        auto run = on_two(FedDyn<>{.local = {.rate = 0.1}, .epochs = epochs, .alpha = 1});
        run.run(600, sample::Everyone{});
        CHECK(std::fabs(run.server().w[0] - 3) < 1e-9);
        CHECK(std::fabs(run.server().h[0]) < 1e-9);
        // Clients stand still where their memory is their slope: 1 (3 - 0) and 3 (3 - 4).
        CHECK(std::fabs(run.client(0).h[0] - 3) < 1e-9);
        CHECK(std::fabs(run.client(1).h[0] + 3) < 1e-9);
    }
    auto prox = on_two(FedProx<>{.local = {.rate = 0.1}, .epochs = 200, .mu = 1});
    prox.run(600, sample::Everyone{});
    CHECK(std::fabs(prox.server().w[0] - 2.4) < 1e-9);
}

TEST_CASE("one round by hand: a step each from 1, alpha = 0.5") {
    // Slopes at 1 are 1 and -9, so w_k = 0.9 and 1.9: h_k = 0.05 and -0.45, h = their mean, w = 1.4 - h / alpha.
    Federation<FedDyn<>, Line> run{{}, support::quadratic_data({{{1, 0}}, {{3, 4}}}),
                                   {.local = {.rate = 0.1}, .alpha = 0.5}, {.batch = 0}, Vec<double>{1}};
    run.round(sample::Everyone{});
    CHECK(std::fabs(run.client(0).h[0] - 0.05) < 1e-15);
    CHECK(std::fabs(run.client(1).h[0] + 0.45) < 1e-15);
    CHECK(std::fabs(run.server().h[0] + 0.2) < 1e-15);
    CHECK(std::fabs(run.server().w[0] - 1.8) < 1e-15);
}

TEST_CASE("the server's h is the mean of all clients', also of those who stay away") {
    Federation<FedDyn<>, Line> run{{}, support::quadratic_data({{{1, 0}}, {{3, 4}}, {{2, 1}}, {{1, 5}}}),
                                   {.local = {.rate = 0.1}, .epochs = 3, .alpha = 0.5}, {.seed = 3, .batch = 0},
                                   Vec<double>{1}};
    for (int r = 0; r < 12; ++r) {
        run.round(sample::Uniform{2});
        double sum = 0;
        for (Id k = 0; k < 4; ++k) sum += run.client(k).h.empty() ? 0 : run.client(k).h[0];
        CHECK(std::fabs(run.server().h[0] - sum / 4) < 1e-12);
    }
}

TEST_CASE("clients of the first round are FedProx's with mu = alpha, and w goes twice as far as their mean") {
    Federation<FedDyn<>, Net> run{{}, toy_data(), {.alpha = 0.3}, usual};
    Federation<FedProx<>, Net> prox{{}, toy_data(), {.mu = 0.3, .weights = Weigh::uniform}, usual};
    Federation<FedAvg<>, Net> plain{{}, toy_data(), {.weights = Weigh::uniform}, usual};
    run.round(sample::Everyone{});
    prox.round(sample::Everyone{});
    plain.round(sample::Everyone{});
    // w = mean - h / alpha with h = -alpha (mean - w_0): twice as far as the mean.
    for (std::size_t j = 0; j < run.server().w.size(); ++j) {
        const float start = run.setup().initial[j], mean = prox.server().w[j];
        CHECK(std::fabs(run.server().w[j] - (2 * mean - start)) < 1e-6f);
    }
    CHECK_FALSE(same_bits(prox.server().w, plain.server().w));
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws(FedDyn<>{}) == "");
    CHECK(support::broken_laws(FedDyn<>{.steps = 3, .alpha = 0.5}) == "");
}

TEST_CASE("wrong settings are refused") {
    for (const double alpha : {0.0, -1.0, std::numeric_limits<double>::infinity()})
        CHECK_THROWS_WITH_AS((Federation<FedDyn<>, Net>{{}, toy_data(), {.alpha = alpha}}),
                             doctest::Contains("alpha must be positive, and finite"), ConfigError);
}

}  // namespace feddyn_test
