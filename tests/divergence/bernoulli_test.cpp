// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/divergence/bernoulli.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <support/geometry.hpp>

namespace bernoulli_test {

using namespace tessera;
using divergence::Bernoulli;

namespace {
double D(double x, double y) { return bregman(Bernoulli{}, Vec<double>{x}, Vec<double>{y}); }
double printed(double x, double natural) { return std::log1p(std::exp((1 - 2 * x) * natural)); }
}  // namespace

TEST_CASE("D from its definition is the divergence of two coins") {
    for (const double x : {0.01, 0.5, 0.9})
        for (const double y : {0.02, 0.5, 0.99}) {
            const double coins = x * std::log(x / y) + (1 - x) * std::log((1 - x) / (1 - y));
            CHECK(std::fabs(D(x, y) - coins) < 1e-14);  // differences of numbers below 5
            CHECK((x == y ? D(x, y) == 0 : D(x, y) > 1e-3));
        }
}

TEST_CASE("the form the paper prints is D at the ends of the interval only") {
    const double natural = 0.8, y = 1 / (1 + std::exp(-natural));
    // Near an end D differs from its limit by x ln x, 4e-11 at x = 1e-12.
    CHECK(std::fabs(D(1e-12, y) - printed(0, natural)) < 1e-10);
    CHECK(std::fabs(D(1 - 1e-12, y) - printed(1, natural)) < 1e-10);
    CHECK(std::fabs(D(0.5, y) - printed(0.5, natural)) > 0.1);
}

TEST_CASE("one local step by hand") {
    const auto slope = [](double x) { return std::log(x / (1 - x)); };
    const auto by_hand = support::geometry_step_by_hand(slope, [](double x) { return 1 / (x * (1 - x)); });
    CHECK(support::apart(support::geometry_step(Bernoulli{}), by_hand) < 1e-15);
    const auto flat = support::geometry_step_by_hand(slope, [](double) { return 1.0; });
    CHECK(support::apart(support::geometry_step(Bernoulli{}), flat) > 1e-3);
}

TEST_CASE("iterates stay between 0 and 1, also in float") {
    for (const double target : {-2.0, 0.5, 3.0}) {
        const auto run = support::confined(Bernoulli{}, 0, 1, target);
        CHECK(run.inside);
        if (target < 0) CHECK(run.end < 1e-3);
        if (target > 1) CHECK(run.end > 1 - 1e-3);
    }
    CHECK_FALSE(support::confined(divergence::Gaussian{}, 0, 1, 3).inside);

    Vec<float> x{-1, 0, 1e-9F, 0.5F, 1, 7};
    Bernoulli{.margin = 1e-12}.project(Out<float>(x));  // closer to 1 than any float: the last one below is taken
    for (const float v : x) CHECK((v > 0 && v < 1));
    CHECK(x[3] == 0.5F);
    CHECK(x[5] == std::nextafter(1.0F, 0.0F));
}

TEST_CASE("a start outside is refused, and so is a margin that leaves nothing") {
    using Method = FedBreD<prior::Identity, Bernoulli>;
    CHECK_THROWS_WITH_AS(support::geometry_run(Method{}, {0.5, 1}), doctest::Contains("parameter 1 starts at 1.0"),
                         ConfigError);
    CHECK_THROWS_AS(support::geometry_run(Method{.divergence = {.margin = 0.5}}, {0.5, 0.5}), ConfigError);
    CHECK_NOTHROW(support::geometry_run(Method{}, {0.5, 0.99}));
}

}  // namespace bernoulli_test
