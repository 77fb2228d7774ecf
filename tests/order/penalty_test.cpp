// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/order/penalty.hpp>

#include <doctest/doctest.h>

#include <tessera/core/by_name.hpp>

#include <support/slope.hpp>

namespace penalty_test {

using namespace tessera;
using order::Anchor;
using order::Penalty;

TEST_CASE("the gradient of strength |v - anchor|^2 is twice the strength times the distance") {
    support::OneSlope<double, 3> place({0, 0, 0});
    const Vec<double> initial{1, 2, 3};
    auto at = place.context();
    at.initial = &initial;
    Vec<double> zeros;
    const auto from_initial = Penalty{.strength = 0.25}.terms(at, Coordinates::range(1, 2), zeros);
    CHECK(from_initial.prox_weight == 0.5);
    CHECK(from_initial.prox_center.data() == initial.data());
    CHECK(from_initial.on.size(3) == 1);
    CHECK(zeros.empty());
    const auto from_zero = Penalty{.strength = 0.25, .anchor = Anchor::zero}.terms(at, Coordinates{}, zeros);
    CHECK(from_zero.prox_weight == 0.5);
    CHECK(Vec<double>(from_zero.prox_center.begin(), from_zero.prox_center.end()) == Vec<double>{0, 0, 0});
    const auto off = Penalty{}.terms(at, Coordinates::range(1, 2), zeros);
    CHECK(off.prox_weight == 0);
    CHECK(off.prox_center.empty());
    CHECK(off.on.size(3) == 1);
}

TEST_CASE("a penalty is set by name, and a wrong one is refused") {
    Penalty penalty;
    CHECK(set_by_name(penalty, "anchor", "zero"));
    CHECK(penalty.anchor == Anchor::zero);
    CHECK_THROWS_AS(set_by_name(penalty, "anchor", "w"), ConfigError);
    CHECK_NOTHROW(penalty.validate());
    CHECK_THROWS_WITH_AS(Penalty{.strength = -1}.validate(), doctest::Contains("0 (off) or more"), ConfigError);
    CHECK_THROWS_AS(Penalty{.strength = 1.0 / 0.0}.validate(), ConfigError);
}

}  // namespace penalty_test
