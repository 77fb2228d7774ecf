// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/divergence/exponential.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <support/geometry.hpp>

namespace exponential_test {

using namespace tessera;
using divergence::Exponential;

TEST_CASE("D from its definition is x/y - ln(x/y) - 1") {
    for (const double x : {0.1, 0.7, 3.0})
        for (const double y : {0.2, 0.7, 5.0}) {
            const double d = bregman(Exponential{}, Vec<double>{x}, Vec<double>{y});
            CHECK(std::fabs(d - (x / y - std::log(x / y) - 1)) < 1e-14);  // differences of numbers below 20
            CHECK((x == y ? d == 0 : d > 1e-3));
            const double scaled = bregman(Exponential{}, Vec<double>{8 * x}, Vec<double>{8 * y});
            CHECK(std::fabs(d - scaled) < 1e-14);  // the unit does not matter
        }
}

TEST_CASE("one local step by hand") {
    const auto slope = [](double x) { return -1 / x; };
    const auto by_hand = support::geometry_step_by_hand(slope, [](double x) { return 1 / (x * x); });
    CHECK(support::apart(support::geometry_step(Exponential{}), by_hand) < 1e-15);
    const auto flat = support::geometry_step_by_hand(slope, [](double) { return 1.0; });
    CHECK(support::apart(support::geometry_step(Exponential{}), flat) > 1e-3);
}

TEST_CASE("iterates stay positive") {
    const double inf = std::numeric_limits<double>::infinity();
    CHECK(support::confined(Exponential{.margin = 0.05}, 0, inf, 3).inside);
    CHECK(support::confined(Exponential{.margin = 0.05}, 0, inf, -2).inside);
    CHECK(support::confined(Exponential{.margin = 0.05}, 0.05, inf, -2).inside == false);  // it reaches the margin
}

TEST_CASE("a start that is not positive is refused") {
    using Method = FedBreD<prior::Identity, Exponential>;
    CHECK_THROWS_WITH_AS(support::geometry_run(Method{}, {0, 1}), doctest::Contains("Exponential prior lives on"),
                         ConfigError);
    CHECK_NOTHROW(support::geometry_run(Method{}, {0.1, 1}));
}

TEST_CASE("the mean of a natural parameter that is not negative does not exist") {
    Vec<double> s{-0.5, 0, 2};
    Exponential{}.mean(Out<double>(s));
    CHECK(s[0] == 2);
    CHECK(std::isinf(s[1]));
    CHECK(std::isinf(s[2]));
}

}  // namespace exponential_test
