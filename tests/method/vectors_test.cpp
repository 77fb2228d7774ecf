// SPDX-License-Identifier: BSD-3-Clause
// The numeric vectors that FedAvg, FedProx and the server optimizers take part in.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/quadratic.hpp>

namespace vectors_test {

using namespace tessera;

namespace {

// Two quadratics a = (1, 3), c = (0, 4), rate 0.1, full participation, full batches: an epoch is a step.
template <class Me>
double fixed_point(Me method, std::size_t rounds,
                   std::vector<std::vector<support::Parabola>> clients = {{{1, 0}}, {{3, 4}}}) {
    Federation<Me, support::Quadratic<>> fed{{}, support::quadratic_data(clients), std::move(method), {.batch = 0}};
    fed.run(rounds, sample::Everyone{});
    const double w = fed.server().w[0];
    fed.round(sample::Everyone{});
    CHECK(std::fabs(fed.server().w[0] - w) < 1e-14);  // it has converged
    return w;
}

}  // namespace

TEST_CASE("V-BASE-1 FedAvg with K local steps") {
    // 1e-9: the vectors have ten digits. The formula is met to 1e-12, which is what converged rounding leaves.
    const auto formula = [](double steps) {
        const double one = 1 - std::pow(1 - 0.1, steps), three = 1 - std::pow(1 - 0.3, steps);
        return (one * 0 + three * 4) / (one + three);
    };
    for (const auto& [steps, expected] : {std::pair(1, 3.0), std::pair(2, 2.914285714), std::pair(10, 2.394844484)}) {
        const double w = fixed_point(FedAvg<>{.epochs = static_cast<std::size_t>(steps)}, 300);
        CHECK(std::fabs(w - expected) < 1e-9);
        CHECK(std::fabs(w - formula(steps)) < 1e-12);
        const double streamed = fixed_point(FedAvg<>{.steps = static_cast<std::size_t>(steps)}, 300);
        CHECK(std::fabs(streamed - expected) < 1e-9);
    }
    CHECK(std::fabs(fixed_point(FedAvg<>{.epochs = 3}, 300) - 2.914285714) > 1e-3);
    // Weights count: the second client twice as heavy, by holding its example twice.
    CHECK(std::fabs(fixed_point(FedAvg<>{}, 300, {{{1, 0}}, {{3, 4}, {3, 4}}}) - 24.0 / 7) < 1e-9);
    CHECK(std::fabs(fixed_point(FedAvg<>{.weights = Weigh::uniform}, 300, {{{1, 0}}, {{3, 4}, {3, 4}}}) - 3) < 1e-9);
}

TEST_CASE("V-BASE-1 FedProx with an exact local solve") {
    // 300 local steps contract by at least 0.8 each: the local solve is exact to rounding.
    CHECK(std::fabs(fixed_point(FedProx<>{.epochs = 300, .mu = 1}, 80) - 2.4) < 1e-12);
    CHECK(std::fabs(fixed_point(FedProx<>{.epochs = 300, .mu = 0}, 80) - 2) <
          1e-12);                                                                    // FedAvg solved exactly: mean of c
    CHECK(std::fabs(fixed_point(FedProx<>{.epochs = 1, .mu = 1}, 300) - 3) < 1e-9);  // one step: gradient descent
}

namespace {
// A client that always asks for 0.1 more.
template <class Fold>
struct Drift {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    Fold fold{};

    auto visit(const auto& at, auto w, Nothing&) const {
        for (auto& x : w) x += 0.1;
        return up(at, std::move(w));
    }
};

template <class Fold>
std::pair<double, double> increments(Fold fold) {
    Federation<Drift<Fold>, support::Quadratic<>> fed{{}, support::quadratic_data({{{1, 0}}, {{1, 0}}}), {fold}};
    fed.round(sample::Everyone{});
    const double first = fed.server().w[0];
    fed.round(sample::Everyone{});
    return {first / fold.server_rate, (fed.server().w[0] - first) / fold.server_rate};
}

bool near(std::pair<double, double> got, double first, double second) {
    return std::fabs(got.first - first) < 1e-9 && std::fabs(got.second - second) < 1e-9;  // ten digits are given
}
}  // namespace

TEST_CASE("V-BASE-2 server optimizers, constant D = 0.1") {
    using fold::ServerAdam;
    CHECK(near(increments(fold::ServerMomentum<>{}), 0.1, 0.19));
    CHECK(near(increments(ServerAdam<>{.v0 = 0}), 0.9090909091, 1.2577170890));
    CHECK(near(increments(ServerAdam<>{.b2 = 0.999, .v0 = 0}), 2.4025307335, 3.4728455947));
    // tau = 1e-8 beside sqrt(v) = 0.1 moves the torch increments by 1e-7.
    const auto torch = increments(ServerAdam<>{.b2 = 0.999, .tau = 1e-8, .v0 = 0, .bias_corrected = true});
    CHECK(std::fabs(torch.first - 1) < 2e-7);
    CHECK(std::fabs(torch.second - 1) < 2e-7);
    CHECK(near(torch, 1 / (1 + 1e-7), 1 / (1 + 1e-7)));

    const auto yogi = increments(fold::ServerYogi<>{.v0 = 0});
    CHECK(std::fabs(yogi.first - 0.9090909091) < 1e-9);
    CHECK_FALSE(near(yogi, 0.9090909091, 1.2577170890));                        // the second differs
    CHECK_FALSE(near(increments(ServerAdam<>{}), 0.9090909091, 1.2577170890));  // v0 = tau^2 shows in the sixth digit
    CHECK_FALSE(near(increments(fold::ServerMomentum<>{.server_momentum = 0.8}), 0.1, 0.19));
}

}  // namespace vectors_test
