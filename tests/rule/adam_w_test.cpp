// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/rule/adam_w.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include <support/bits.hpp>
#include <support/complaint.hpp>
#include <support/slope.hpp>

namespace adam_w_test {

using namespace tessera;
using support::distance;
using support::OneSlope;
using support::same_bits;

namespace {

template <class Rule, class R, std::size_t D>
Vec<R> walked(OneSlope<R, D>& slope, const Rule& rule, Vec<R> x, std::size_t steps, const Terms<R>& terms = {},
              std::size_t round = 0, std::size_t rounds = 1) {
    const auto at = slope.context(round, rounds);
    auto step = walk(at, rule, terms);
    for (std::size_t i = 0; i < steps; ++i) step(x, at.everything());
    return x;
}

}  // namespace

TEST_CASE_TEMPLATE("AdamW by hand: decay is of x before the step and never reaches the moments", R, float, double) {
    static_assert(Rule<rule::AdamW, support::Slope<R, 1>>);
    constexpr double rounding = std::is_same_v<R, float> ? 3e-6 : 1e-14;  // some twenty operations a step, two steps
    OneSlope<R, 1> slope({2});
    const Vec<R> prox_center{3}, linear{R(0.5)};
    const rule::AdamW rule{.rate = 0.1, .b1 = 0.5, .b2 = 0.75, .eps = 0.25, .weight_decay = 0.4};
    const Terms<R> terms{.prox_center = prox_center, .prox_weight = 0.5, .linear = linear};
    // As Adam's hand computation (adam_test), with rate * weight_decay * x = 0.04 x taken off besides.
    const double first = 1 - 0.1 * 1.5 / (1.5 + 0.25) - 0.04 * 1;
    CHECK(distance(walked(slope, rule, {1}, 1, terms), {static_cast<R>(first)}) < rounding);
    const double d = 2.5 + 0.5 * (first - 3), m = 0.5 * 0.75 + 0.5 * d, v = 0.75 * 0.5625 + 0.25 * d * d;
    const double second = first - 0.1 * (m / (1 - 0.25)) / (std::sqrt(v / (1 - 0.5625)) + 0.25) - 0.04 * first;
    CHECK(distance(walked(slope, rule, {1}, 2, terms), {static_cast<R>(second)}) < rounding);
    // A decay that went through the moments, as Sgd's does, would give another second step.
    const rule::Adam coupled{.rate = 0.1, .b1 = 0.5, .b2 = 0.75, .eps = 0.25};
    const Vec<R> origin{0};
    CHECK(distance(walked(slope, coupled, {1}, 2, {.prox_center = origin, .prox_weight = 0.4, .linear = linear}),
                   walked(slope, rule, {1}, 2, {.linear = linear})) > 1e-3);
}

TEST_CASE("without decay it is Adam, bit for bit; with any it is not") {
    OneSlope<double, 3> slope({1, -2, 0.5});
    const Vec<double> x{0.1, -0.2, 0.3}, home{1, 1, 1};
    const Terms<double> terms{.prox_center = home, .prox_weight = 0.3};
    const rule::Adam adam{.rate = 0.05};
    CHECK(same_bits(walked(slope, rule::AdamW{.rate = 0.05, .weight_decay = 0}, x, 4, terms),
                    walked(slope, adam, x, 4, terms)));
    CHECK_FALSE(same_bits(walked(slope, rule::AdamW{.rate = 0.05, .weight_decay = 1e-3}, x, 4, terms),
                          walked(slope, adam, x, 4, terms)));
}

TEST_CASE("frozen and absent coordinates do not decay; the rate's schedule scales the decay too") {
    OneSlope<double, 4> slope({0, 0, 0, 0});
    const Vec<double> x{1, 2, 3, 4};
    const rule::AdamW rule{.rate = 0.1, .weight_decay = 0.5};
    Mask mask(4, true);
    mask.set(1, false);
    const auto after = walked(slope, rule, x, 1, {.on = Coordinates::range(0, 3), .active = &mask});
    CHECK(after[0] == doctest::Approx(0.95));
    CHECK(after[1] == 2);
    CHECK(after[2] == doctest::Approx(2.85));
    CHECK(after[3] == 4);
    CHECK(same_bits(walked(slope, rule::AdamW{.rate = 0}, x, 3), x));
    auto warm = rule;
    warm.schedule = {.decay = rule::Decay::linear, .warm_up = 0.5};
    CHECK(same_bits(walked(slope, warm, x, 1, {}, 0, 8), x));  // round 0 has rate 0
    CHECK(walked(slope, warm, x, 1, {}, 2, 8)[0] == doctest::Approx(0.975));
}

TEST_CASE("settings outside their range are refused with the name of the field") {
    const auto complaint = support::complaint<rule::AdamW>;
    CHECK(complaint({}) == "");
    CHECK(complaint({.rate = -1}).find("rate") == 0);
    CHECK(complaint({.b1 = 1}).find("b1") == 0);
    CHECK(complaint({.weight_decay = -1}).find("weight_decay") == 0);
}

}  // namespace adam_w_test
