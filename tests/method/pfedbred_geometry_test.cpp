// SPDX-License-Identifier: BSD-3-Clause
// pFedBreD with a general divergence against the Euclidean path, and the limits that are seen on quadratics. Bounded
// domains are in tests/divergence.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include <tessera/divergence/gaussian.hpp>
#include <tessera/divergence/general.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/per_fedavg.hpp>
#include <tessera/method/pfedbred.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/prior/hybrid.hpp>
#include <tessera/prior/loss_gradient.hpp>
#include <tessera/prior/memorized.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace pfedbred_geometry_test {

using namespace tessera;
using prior::Hybrid;
using prior::Identity;
using prior::LossGradient;
using prior::Memorized;
using support::distance;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
// Half the square, taken the long way round.
struct HalfSquare {
    static constexpr Offers offers{};
    static constexpr std::string_view name = "HalfSquare";
    static constexpr double low = -std::numeric_limits<double>::infinity(), high = -low;
    static auto value(auto x) { return x * x / 2; }
    static auto slope(auto x) { return x; }
    static auto curvature(auto x) { return x * 0 + 1; }
    static auto mean(auto s) { return s; }
};
using Long = nn::Mclr<Toy::width, Toy::classes, double>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};
const sample::Uniform all_train{.count = 3, .everyone_trains = true};
}  // namespace

TEST_CASE("L-BRED-13 the general geometry with half the square is the Euclidean path") {
    const auto gap = [](auto divergence, auto prior, double clip = 0) {
        FedBreD<decltype(prior), decltype(divergence)> general{.prior = prior,
                                                               .divergence = divergence,
                                                               .local = {.rate = 0.03, .clip = clip},
                                                               .alpha_m = 0.02,
                                                               .steps = 4,
                                                               .inner_steps = 3};
        FedBreD<decltype(prior)> plain{
            .prior = prior, .local = {.rate = 0.03, .clip = clip}, .alpha_m = 0.02, .steps = 4, .inner_steps = 3};
        Federation<decltype(general), Long> a{{}, toy_data(), general, usual};
        Federation<decltype(plain), Long> b{{}, toy_data(), plain, usual};
        a.run(4, all_train);
        b.run(4, all_train);
        CHECK(distance(b.server().w, b.setup().initial) > 1e-3);
        return std::max(distance(a.server().w, b.server().w), distance(a.client(0).theta, b.client(0).theta));
    };
    const Vec<double> ones(Long::parameters, 1), twos(Long::parameters, 2);
    // The same sums in another order of additions: 1e-12 relative in double.
    CHECK(gap(divergence::General<HalfSquare>{}, Identity{}) < 1e-12);
    CHECK(gap(divergence::General<HalfSquare>{}, Hybrid{}) < 1e-12);
    CHECK(gap(divergence::DiagonalGaussian{ones}, Hybrid{}) < 1e-12);
    for (const double clip : {0.5, 0.1}) CHECK(gap(divergence::General<HalfSquare>{}, Hybrid{}, clip) < 1e-12);
    CHECK(gap(divergence::DiagonalGaussian{twos}, Hybrid{}) > 1e-4);
}

// ------------------------------------------------------------------------------------------- limits on quadratics

TEST_CASE("L-BRED-7 exact prox and lambda -> infinity: pFedMe -> FedAvg, lg -> Per-FedAvg") {
    const std::vector<std::vector<support::Parabola>> clients{{{1, 0}, {2, 1}, {1, 3}}, {{3, 4}, {1, 2}}, {{0.5, -1}}};
    const auto end = [&](auto method, std::size_t batch) {
        Federation<decltype(method), support::Quadratic<>> run{
            {}, support::quadratic_data(clients), method, {.seed = 9, .batch = batch}, Vec<double>{5}};
        run.run(12, sample::Everyone{});
        return run.server().w[0];
    };
    // rate 1/lambda: each inner step contracts by a/lambda, so six of them are exact. What is left is of order
    // a/lambda.
    const auto bred = [&](auto prior, double lambda, std::size_t batch) {
        const FedBreD<decltype(prior)> method{.prior = prior,
                                              .local = {.rate = 1 / lambda},
                                              .alpha_m = 0.1,
                                              .lambda = lambda,
                                              .steps = 4,
                                              .inner_steps = 6};
        return end(method, batch);
    };
    const double average = end(FedAvg<>{.local = {.rate = 0.1}, .steps = 4}, 1);
    CHECK(std::fabs(bred(Identity{}, 1e6, 1) - average) < 1e-5);
    CHECK(std::fabs(bred(Identity{}, 1e2, 1) - average) > 1e-3);
    const double meta = end(PerFedAvg<>{.local = {.rate = 0.1}, .alpha = 0.2, .steps = 4}, 0);  // full batches: b1 = b2
    // First order: lg pulls theta's gradient at mu = w - eta_a g(w), which is Per-FedAvg's look-ahead.
    CHECK(std::fabs(bred(LossGradient{.eta_a = 0.2}, 1e6, 0) - meta) < 1e-5);
    CHECK(std::fabs(bred(LossGradient{.eta_a = 0.2}, 1e2, 0) - meta) > 1e-3);
    CHECK(std::fabs(bred(Identity{}, 1e6, 0) - meta) > 1e-2);
}

TEST_CASE("L-BRED-12 alpha times s, and f and lambda divided by s: the same iterates") {
    // s = 4 is a power of two, so every product is exact and the bits are the same. alpha_m takes the factor as well.
    const auto path = [](double s, double alpha_s) {
        const auto data = support::quadratic_data({{{2 / s, 1}, {3 / s, -1}}, {{1 / s, 4}}});
        const FedBreD<Memorized> method{.local = {.rate = 0.01 * alpha_s}, .alpha_m = 0.01 * s, .lambda = 15 / s};
        Federation<FedBreD<Memorized>, support::Quadratic<>> run{{}, data, method, {.batch = 1}, Vec<double>{0.25}};
        Vec<double> points;
        for (int r = 0; r < 4; ++r) {
            run.round(sample::Everyone{});
            points.insert(points.end(), {run.server().w[0], run.client(0).theta[0], run.client(1).theta[0]});
        }
        return points;
    };
    CHECK(same_bits(path(4, 4), path(1, 1)));
    CHECK_FALSE(same_bits(path(4, 3), path(1, 1)));
}

}  // namespace pfedbred_geometry_test
