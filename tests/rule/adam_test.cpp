// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/rule/adam.hpp>

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

namespace adam_test {

using namespace tessera;
using support::distance;
using support::OneSlope;
using support::same_bits;

namespace {

// `steps` steps along a constant gradient.
template <class R, std::size_t D>
Vec<R> walked(OneSlope<R, D>& slope, const rule::Adam& rule, Vec<R> x, std::size_t steps, const Terms<R>& terms = {},
              std::size_t round = 0, std::size_t rounds = 1) {
    const auto at = slope.context(round, rounds);
    auto step = walk(at, rule, terms);
    for (std::size_t i = 0; i < steps; ++i) step(x, at.everything());
    return x;
}

template <class R>
constexpr double rounding = std::is_same_v<R, float> ? 3e-6 : 1e-14;  // some twenty operations a step, a few steps

}  // namespace

TEST_CASE_TEMPLATE("Adam by hand: a constant gradient gives steps of the rate, whatever its size", R, float, double) {
    static_assert(Rule<rule::Adam, support::Slope<R, 2>>);
    OneSlope<R, 2> slope({100, -0.01});
    const rule::Adam rule{.rate = 0.1};
    for (const std::size_t steps : {1u, 2u, 5u}) {
        const double moved = 0.1 * static_cast<double>(steps);
        // eps / |g| = 1e-6 for the smaller gradient
        const Vec<R> there{static_cast<R>(1 - moved), static_cast<R>(1 + moved)};
        CHECK(distance(walked<R, 2>(slope, rule, {1, 1}, steps), there) < 1e-5);
    }
    // Without correction the first step would be rate * (1 - b1) / sqrt(1 - b2) = 3.16 rates.
    CHECK(distance(walked<R, 2>(slope, rule, {1, 1}, 1), {R(1 - 0.316), R(1 + 0.316)}) > 0.1);
    // eps = |g|: half a rate
    CHECK(distance(walked<R, 2>(slope, {.rate = 0.1, .eps = 100}, {1, 1}, 1), {R(0.95), R(1.0000100)}) < 1e-5);
}

TEST_CASE_TEMPLATE("Adam by hand: two steps on a line with a pull and a fixed vector", R, float, double) {
    OneSlope<R, 1> slope({2});
    const Vec<R> prox_center{3}, linear{R(0.5)};
    const rule::Adam rule{.rate = 0.1, .b1 = 0.5, .b2 = 0.75, .eps = 0.25};
    const Terms<R> terms{.prox_center = prox_center, .prox_weight = 0.5, .linear = linear};
    // x = 1: d = 2 + 0.5 (1 - 3) + 0.5 = 1.5. m = 0.75, v = 0.5625, both corrected to d and d^2.
    const double first = 1 - 0.1 * 1.5 / (1.5 + 0.25);
    CHECK(distance(walked<R, 1>(slope, rule, {1}, 1, terms), {static_cast<R>(first)}) < rounding<R>);
    const double d = 2.5 + 0.5 * (first - 3), m = 0.5 * 0.75 + 0.5 * d, v = 0.75 * 0.5625 + 0.25 * d * d;
    const double second = first - 0.1 * (m / (1 - 0.25)) / (std::sqrt(v / (1 - 0.5625)) + 0.25);
    CHECK(distance(walked<R, 1>(slope, rule, {1}, 2, terms), {static_cast<R>(second)}) < rounding<R>);
    CHECK(distance(walked<R, 1>(slope, rule, {1}, 2), {static_cast<R>(second)}) > 1e-3);  // the terms count
}

TEST_CASE("an optimizer is created anew at each walk") {
    OneSlope<double, 1> slope({1});
    const Vec<double> prox_center{0};
    const Terms<double> terms{.prox_center = prox_center,
                              .prox_weight = 2};  // so that gradients differ from step to step
    const rule::Adam rule{.rate = 0.3};
    const auto once = walked<double, 1>(slope, rule, {1}, 1, terms);
    const double d = 1 + 2 * once[0];  // a first step does not know what came before: rate * d / (|d| + eps)
    CHECK(distance(walked(slope, rule, once, 1, terms), {once[0] - 0.3 * d / (d + 1e-8)}) < rounding<double>);
    CHECK_FALSE(same_bits(walked(slope, rule, once, 1, terms), walked<double, 1>(slope, rule, {1}, 2, terms)));
}

TEST_CASE_TEMPLATE("frozen coordinates keep every bit, the others do not notice", R, float, double) {
    std::vector<double> gradient(70);
    Vec<R> x(70);
    for (std::size_t j = 0; j < 70; ++j) {
        gradient[j] = 0.1 * static_cast<double>(j) - 3.05;
        x[j] = static_cast<R>(std::sin(static_cast<double>(j)));
    }
    OneSlope<R, 70> slope(gradient);
    const rule::Adam rule{.rate = 0.01};
    Coordinates some = Coordinates::range(3, 9);
    some.add({21, 68});
    Mask mask(70, true);
    for (std::size_t j = 0; j < 70; j += 3) mask.set(j, false);
    for (std::size_t j = 30; j < 50; ++j) mask.set(j, true);
    const auto everywhere = walked(slope, rule, x, 4);
    const auto check = [&](const Terms<R>& terms, auto moves) {
        const auto after = walked(slope, rule, x, 4, terms);
        for (std::size_t j = 0; j < 70; ++j) {
            CHECK(same_bits<R>({after[j]}, {x[j]}) == !moves(j));
            if (moves(j)) CHECK(same_bits<R>({after[j]}, {everywhere[j]}));
        }
    };
    const auto in_some = [](std::size_t j) { return (j >= 3 && j < 9) || (j >= 21 && j < 68); };
    check({}, [](std::size_t) { return true; });
    check({.on = some}, in_some);
    check({.active = &mask}, [&](std::size_t j) { return mask[j]; });
    check({.on = some, .active = &mask}, [&](std::size_t j) { return in_some(j) && mask[j]; });
}

TEST_CASE("rate 0 leaves x bit for bit, and a pull toward the start changes nothing in the first step") {
    OneSlope<double, 3> slope({1, -2, 0.5});
    const Vec<double> x{0.1, 0.2, 0.3};
    CHECK(same_bits(walked(slope, {.rate = 0}, x, 3), x));
    const Terms<double> home{.prox_center = x, .prox_weight = 7};
    CHECK(same_bits(walked(slope, {.rate = 0.1}, x, 1, home), walked(slope, {.rate = 0.1}, x, 1)));
    CHECK_FALSE(same_bits(walked(slope, {.rate = 0.1}, x, 2, home), walked(slope, {.rate = 0.1}, x, 2)));
}

TEST_CASE("the schedule scales the rate of the round") {
    OneSlope<double, 1> slope({1});
    const rule::Adam rule{.rate = 0.4, .schedule = {.decay = rule::Decay::linear, .warm_up = 0.5}};
    const Vec<double> origin{0};
    CHECK(same_bits(walked(slope, rule, origin, 3, {}, 0, 8), origin));  // round 0 changes nothing
    CHECK(distance(walked(slope, rule, origin, 1, {}, 2, 8), {-0.2}) < 1e-8);  // eps
    CHECK(distance(walked(slope, rule, origin, 1, {}, 4, 8), {-0.4}) < 1e-8);
}

TEST_CASE("settings outside their range are refused with the name of the field") {
    const auto complaint = support::complaint<rule::Adam>;
    CHECK(complaint({}) == "");
    CHECK(complaint({.rate = 0}) == "");
    CHECK(complaint({.b1 = 0, .b2 = 0}) == "");
    CHECK(complaint({.rate = -1}).find("rate") == 0);
    CHECK(complaint({.rate = std::numeric_limits<double>::infinity()}).find("rate") == 0);
    CHECK(complaint({.b1 = 1}).find("b1") == 0);
    CHECK(complaint({.b2 = -0.1}).find("b2") == 0);
    CHECK(complaint({.eps = 0}).find("eps") == 0);
    CHECK(complaint({.eps = std::numeric_limits<double>::infinity()}).find("eps") == 0);
    CHECK(complaint({.schedule = {.warm_up = 1}}).find("warm_up") == 0);
}

}  // namespace adam_test
