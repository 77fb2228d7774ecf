// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/rule/sgd.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/runtime/setup.hpp>

#include <support/bits.hpp>
#include <support/complaint.hpp>
#include <support/slope.hpp>

namespace sgd_test {

using namespace tessera;
using support::distance;
using support::OneSlope;
using support::same_bits;

namespace {

// `steps` steps along a constant gradient.
template <class R, std::size_t D>
Vec<R> walked(OneSlope<R, D>& slope, const rule::Sgd& rule, Vec<R> x, std::size_t steps, const Terms<R>& terms = {},
              std::size_t round = 0, std::size_t rounds = 1) {
    const auto at = slope.context(round, rounds);
    auto step = walk(at, rule, terms);
    for (std::size_t i = 0; i < steps; ++i) step(x, at.everything());
    return x;
}

template <class R>
constexpr double rounding = std::is_same_v<R, float> ? 1e-6 : 1e-15;  // a few operations on numbers near 1

}  // namespace

TEST_CASE_TEMPLATE("SGD by hand: plain, momentum, decay, both", R, float, double) {
    static_assert(Rule<rule::Sgd, support::Slope<R, 2>>);
    OneSlope<R, 2> slope({1, -2});
    const Vec<R> x{1, 1};
    CHECK(distance(walked(slope, {.rate = 0.1}, x, 1), {R(0.9), R(1.2)}) < rounding<R>);
    CHECK(distance(walked(slope, {.rate = 0.1}, x, 3), {R(0.7), R(1.6)}) < rounding<R>);

    // m = g, 0.9 g + g, 0.9 (1.9 g) + g: sums 1, 2.9, 5.61. The first step is not damped.
    const rule::Sgd momentum{.rate = 0.1, .momentum = 0.9};
    CHECK(distance(walked(slope, momentum, x, 1), {R(0.9), R(1.2)}) < rounding<R>);
    CHECK(distance(walked(slope, momentum, x, 2), {R(0.71), R(1.58)}) < rounding<R>);
    CHECK(distance(walked(slope, momentum, x, 3), {R(0.439), R(2.122)}) < rounding<R>);

    // g + wd w: 1 + 0.5 = 1.5 and -2 + 0.5 = -1.5.
    const rule::Sgd decay{.rate = 0.1, .weight_decay = 0.5};
    CHECK(distance(walked(slope, decay, x, 1), {R(0.85), R(1.15)}) < rounding<R>);
    // then 1 + 0.425 and -2 + 0.575
    CHECK(distance(walked(slope, decay, x, 2), {R(0.7075), R(1.2925)}) < rounding<R>);

    // decay enters m: m = 1.5, then 0.5 * 1.5 + 1.425 = 2.175
    const rule::Sgd both{.rate = 0.1, .momentum = 0.5, .weight_decay = 0.5};
    CHECK(distance(walked(slope, both, x, 2), {R(0.6325), R(1.3675)}) < rounding<R>);
    CHECK(distance(walked(slope, both, x, 2), walked(slope, decay, x, 2)) > 0.01);
}

TEST_CASE("an optimizer is created anew at each walk") {
    OneSlope<double, 1> slope({1});
    const rule::Sgd momentum{.rate = 0.1, .momentum = 0.9};
    auto x = walked<double, 1>(slope, momentum, {0}, 1);
    x = walked<double, 1>(slope, momentum, x, 1);
    CHECK(distance(x, {-0.2}) < 1e-15);
    CHECK(distance(walked<double, 1>(slope, momentum, {0}, 2), {-0.29}) < 1e-15);
}

TEST_CASE("clipping: min(1, c / (|g| + 1e-6)), before momentum and decay") {
    OneSlope<double, 2> slope({3, 4});
    const Vec<double> origin{0, 0};
    const double scale = 1 / (5 + 1e-6);
    CHECK(distance(walked(slope, {.rate = 1, .clip = 1}, origin, 1), {-3 * scale, -4 * scale}) < 1e-15);
    CHECK(distance(walked(slope, {.rate = 1, .clip = 1}, origin, 1), {-3.0 / 5, -4.0 / 5}) > 1e-8);  // the 1e-6 shows
    CHECK(same_bits(walked(slope, {.rate = 1, .clip = 5.1}, origin, 1), {-3, -4}));  // not scaled up, not touched
    CHECK_FALSE(same_bits(walked(slope, {.rate = 1, .clip = 5}, origin, 1), {-3, -4}));
    CHECK(same_bits(walked(slope, {.rate = 1, .clip = 0}, origin, 1), {-3, -4}));  // 0 is off
    // the decayed part is not clipped
    const double k = 0.5 / (5 + 1e-6);
    CHECK(distance(walked(slope, {.rate = 1, .weight_decay = 2, .clip = 0.5}, {1, 1}, 1),
                   {1 - 3 * k - 2, 1 - 4 * k - 2}) < 1e-15);
    OneSlope<double, 2> flat({0, 0});
    CHECK(same_bits(walked(flat, {.rate = 1, .clip = 1}, origin, 1), origin));
}

TEST_CASE("only the trainable, active group counts for the norm") {
    OneSlope<double, 3> slope({3, 4, 12});
    const rule::Sgd rule{.rate = 1, .clip = 1};
    const Vec<double> origin{0, 0, 0};
    const double of_two = 1 / (5 + 1e-6), of_three = 1 / (13 + 1e-6);
    CHECK(distance(walked(slope, rule, origin, 1), {-3 * of_three, -4 * of_three, -12 * of_three}) < 1e-15);
    CHECK(distance(walked(slope, rule, origin, 1, {.on = Coordinates::range(0, 2)}), {-3 * of_two, -4 * of_two, 0}) <
          1e-15);
    Mask mask(3, true);
    mask.set(2, false);
    CHECK(distance(walked(slope, rule, origin, 1, {.active = &mask}), {-3 * of_two, -4 * of_two, 0}) < 1e-15);
    Coordinates ends = Coordinates::range(0, 1);
    ends.add({2, 3});
    CHECK(distance(walked(slope, rule, origin, 1, {.on = ends, .active = &mask}), {-3 / (3 + 1e-6), 0, 0}) < 1e-15);
}

TEST_CASE_TEMPLATE("frozen coordinates keep every bit under momentum and decay", R, float, double) {
    std::vector<double> gradient(40);
    Vec<R> x(40);
    for (std::size_t j = 0; j < 40; ++j) {
        gradient[j] = 0.1 * static_cast<double>(j) - 1.7;
        x[j] = static_cast<R>(std::sin(static_cast<double>(j)));
    }
    OneSlope<R, 40> slope(gradient);
    const rule::Sgd rule{.rate = 0.1, .momentum = 0.9, .weight_decay = 0.2, .clip = 3};
    Coordinates some = Coordinates::range(3, 9);
    some.add({21, 38});
    Mask mask(40, true);
    for (std::size_t j = 0; j < 40; j += 3) mask.set(j, false);
    const auto check = [&](const Terms<R>& terms, auto moves) {
        const auto after = walked(slope, rule, x, 4, terms);
        for (std::size_t j = 0; j < 40; ++j) CHECK(same_bits<R>({after[j]}, {x[j]}) == !moves(j));
    };
    const auto in_some = [](std::size_t j) { return (j >= 3 && j < 9) || (j >= 21 && j < 38); };
    check({}, [](std::size_t) { return true; });
    check({.on = some}, in_some);
    check({.active = &mask}, [](std::size_t j) { return j % 3 != 0; });
    check({.on = some, .active = &mask}, [&](std::size_t j) { return in_some(j) && j % 3 != 0; });
}

TEST_CASE_TEMPLATE("coordinates move alike whether all move or some", R, float, double) {
    std::vector<double> gradient(19);
    for (std::size_t j = 0; j < 19; ++j) gradient[j] = std::cos(static_cast<double>(j));
    OneSlope<R, 19> slope(gradient);
    const rule::Sgd rule{.rate = 0.1, .momentum = 0.9, .weight_decay = 0.2};
    const Vec<R> x(19, R(0.3));
    const auto all = walked(slope, rule, x, 3),
               some = walked(slope, rule, x, 3, Terms<R>{.on = Coordinates::range(4, 15)});
    for (std::size_t j = 4; j < 15; ++j)
        CHECK(static_cast<double>(some[j]) == doctest::Approx(static_cast<double>(all[j])).epsilon(rounding<R>));
}

TEST_CASE("descend counts steps, examples and losses; an empty scope does not even look") {
    OneSlope<double, 2> slope({1, 1});
    const auto at = slope.context();
    Vec<double> x{2, 1};
    descend(at, x, at.epochs(3), rule::Sgd{.rate = 0.5});
    CHECK(slope.workspace().tally.steps == 3);
    CHECK(slope.workspace().tally.examples == 3);
    CHECK(slope.workspace().tally.loss == doctest::Approx(3 + 2 + 1));  // before each step
    CHECK(x == Vec<double>{0.5, -0.5});
    descend(at, x, at.epochs(3), rule::Sgd{}, Terms<double>{.on = Coordinates::none()});
    CHECK(slope.workspace().tally.steps == 3);
    CHECK(x == Vec<double>{0.5, -0.5});
}

TEST_CASE("the schedule scales the rate of the round") {
    OneSlope<double, 1> slope({1});
    const rule::Sgd rule{.rate = 0.4, .schedule = {.decay = rule::Decay::linear, .warm_up = 0.5}};
    const Vec<double> origin{0};
    CHECK(same_bits(walked(slope, rule, origin, 3, {}, 0, 8), origin));  // round 0 changes nothing
    CHECK(distance(walked(slope, rule, origin, 1, {}, 2, 8), {-0.2}) < 1e-15);
    CHECK(distance(walked(slope, rule, origin, 1, {}, 4, 8), {-0.4}) < 1e-15);
    CHECK(distance(walked(slope, rule, origin, 1, {}, 6, 8), {-0.2}) < 1e-15);
    CHECK(same_bits(walked(slope, rule, origin, 3, {}, 8, 8), origin));
}

TEST_CASE("settings outside their range are refused with the name of the field") {
    const auto complaint = support::complaint<rule::Sgd>;
    CHECK(complaint({}) == "");
    CHECK(complaint({.rate = 0}) == "");
    CHECK(complaint({.rate = -1}).find("rate") == 0);
    CHECK(complaint({.rate = std::numeric_limits<double>::infinity()}).find("rate") == 0);
    CHECK(complaint({.momentum = 1}).find("momentum") == 0);
    CHECK(complaint({.weight_decay = -1}).find("weight_decay") == 0);
    CHECK(complaint({.weight_decay = std::numeric_limits<double>::infinity()}).find("weight_decay") == 0);
    CHECK(complaint({.clip = -1}).find("clip") == 0);
    CHECK(complaint({.clip = std::numeric_limits<double>::quiet_NaN()}).find("clip") == 0);
    CHECK(complaint({.schedule = {.warm_up = 1}}).find("warm_up") == 0);
}

}  // namespace sgd_test
