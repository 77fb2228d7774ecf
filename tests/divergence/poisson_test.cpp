// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/divergence/poisson.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <support/geometry.hpp>

namespace poisson_test {

using namespace tessera;
using divergence::Poisson;

TEST_CASE("D from its definition is x ln(x/y) - x + y, and the paper's form with the natural parameter") {
    for (const double x : {0.01, 0.7, 3.0})
        for (const double y : {0.02, 0.7, 5.0}) {
            const double d = bregman(Poisson{}, Vec<double>{x}, Vec<double>{y});
            CHECK(std::fabs(d - (x * std::log(x / y) - x + y)) < 1e-14);  // differences of numbers below 10
            const double natural = std::log(y);
            CHECK(std::fabs(d - (std::exp(natural) + x * std::log(x) - x * (natural + 1))) < 1e-14);
            CHECK((x == y ? d == 0 : d > 1e-6));
        }
    CHECK(std::fabs(bregman(Poisson{}, Vec<double>{3}, Vec<double>{5}) -
                    bregman(Poisson{}, Vec<double>{5}, Vec<double>{3})) > 0.05);  // it is no distance
}

TEST_CASE("one local step by hand") {
    const auto slope = [](double x) { return std::log(x); };
    const auto by_hand = support::geometry_step_by_hand(slope, [](double x) { return 1 / x; });
    CHECK(support::apart(support::geometry_step(Poisson{}), by_hand) < 1e-15);
    const auto flat = support::geometry_step_by_hand(slope, [](double) { return 1.0; });
    CHECK(support::apart(support::geometry_step(Poisson{}), flat) > 1e-3);  // the Hessian is there
}

TEST_CASE("iterates stay positive") {
    const double inf = std::numeric_limits<double>::infinity();
    const auto outside = support::confined(Poisson{}, 0, inf, -2), inside = support::confined(Poisson{}, 0, inf, 3);
    CHECK(outside.inside);
    CHECK(outside.end < 1e-3);  // pressed against the end
    CHECK(inside.inside);
    CHECK(inside.end > 1);
    CHECK_FALSE(support::confined(divergence::Gaussian{}, 0, inf, -2).inside);
}

TEST_CASE("a start that is not positive is refused before round one") {
    using Method = FedBreD<prior::Identity, Poisson>;
    CHECK_THROWS_WITH_AS(support::geometry_run(Method{}, {0.5, -0.1}),
                         "parameter 1 starts at -0.100000, but a Poisson prior lives on (0.000000, inf); give the "
                         "federation a warm start inside, or take divergence::Gaussian",
                         ConfigError);
    CHECK_THROWS_AS(support::geometry_run(Method{}, {0, 1}), ConfigError);
    CHECK_THROWS_AS(support::geometry_run(Method{.divergence = {.margin = 0}}, {1, 1}), ConfigError);
    CHECK_NOTHROW(support::geometry_run(Method{}, {0.1, 1}));
}

}  // namespace poisson_test
