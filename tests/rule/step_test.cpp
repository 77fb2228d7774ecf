// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/rule/step.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <support/bits.hpp>
#include <support/kernel_sets.hpp>
#include <support/slope.hpp>

namespace step_test {

using namespace tessera;
using support::distance;
using support::OneSlope;
using support::same_bits;

namespace {
template <class R>
constexpr double rounding = std::is_same_v<R, float> ? 1e-6 : 1e-15;  // a few operations on numbers near 1

template <class R, std::size_t D>
Vec<R> stepped(OneSlope<R, D>& slope, Vec<R> x, const Step<R>& s) {
    const auto at = slope.context();
    take_step(at, x, at.everything(), s);
    return x;
}
}  // namespace

TEST_CASE_TEMPLATE("d = g + decay x + prox_weight (x - prox_center) + linear; v = momentum v + d; x -= rate v, by hand",
                   R, float, double) {
    OneSlope<R, 2> slope({1, -2});
    const Vec<R> x{1, 3}, prox_center{R(0.5), 5}, linear{10, 20};
    CHECK(distance(stepped(slope, x, Step<R>{.rate = 0.1}), {R(0.9), R(3.2)}) < rounding<R>);
    // pull 2: 2 (0.5, -2) = (1, -4)
    CHECK(distance(stepped(slope, x, Step<R>{.terms = {.prox_center = prox_center, .prox_weight = 2}, .rate = 0.1}),
                   {R(0.8), R(3.6)}) < rounding<R>);
    CHECK(distance(stepped(slope, x, Step<R>{.terms = {.linear = linear}, .rate = 0.1}), {R(-0.1), R(1.2)}) <
          rounding<R>);
    Vec<R> velocity{2, 4};
    const Step<R> all{.terms = {.prox_center = prox_center, .prox_weight = 2, .linear = linear},
                      .rate = 0.1,
                      .decay = 0.5,
                      .momentum = 0.5,
                      .velocity = &velocity};
    // d = (1 + 0.5 + 1 + 10, -2 + 1.5 - 4 + 20) = (12.5, 15.5); v = (13.5, 17.5)
    CHECK(distance(stepped(slope, x, all), {R(-0.35), R(1.25)}) < rounding<R>);
    CHECK(distance(velocity, {R(13.5), R(17.5)}) < rounding<R>);
}

TEST_CASE_TEMPLATE("terms that are off change no bit", R, float, double) {
    OneSlope<R, 3> slope({0.3, -0.7, 0.11});
    const Vec<R> x{R(0.1), R(0.2), R(0.3)}, prox_center{9, 9, 9};
    const auto plain = stepped(slope, x, Step<R>{.rate = 0.1});
    CHECK(same_bits(stepped(slope, x, Step<R>{.terms = {.prox_center = prox_center, .prox_weight = 0}, .rate = 0.1}),
                    plain));
    CHECK(same_bits(stepped(slope, x, Step<R>{.terms = {.prox_center = x, .prox_weight = 4}, .rate = 0.1}),
                    plain));  // already there
    const Mask all(3, true);
    CHECK(distance(stepped(slope, x, Step<R>{.terms = {.active = &all}, .rate = 0.1}), plain) < rounding<R>);
    CHECK_FALSE(same_bits(
        stepped(slope, x, Step<R>{.terms = {.prox_center = prox_center, .prox_weight = 0.1}, .rate = 0.1}), plain));
    CHECK(same_bits(stepped(slope, x, Step<R>{.rate = 0}), x));
}

TEST_CASE("clipping scales the gradient only, not the prox term, the linear one or decay") {
    OneSlope<double, 2> slope({30, 40});
    const Vec<double> x{1, 1}, prox_center{0, 0}, linear{7, 8};
    const double k = 5 / (50 + 1e-6);
    const auto got = stepped(slope, x,
                             Step<double>{.terms = {.prox_center = prox_center, .prox_weight = 2, .linear = linear},
                                          .rate = 0.1,
                                          .decay = 1,
                                          .clip = 5});
    CHECK(distance(got, {1 - 0.1 * (30 * k + 1 + 2 + 7), 1 - 0.1 * (40 * k + 1 + 2 + 8)}) < 1e-15);
}

TEST_CASE("with a scope, the prox and the linear term act inside it only") {
    OneSlope<double, 4> slope({1, 1, 1, 1});
    const Vec<double> x{1, 2, 3, 4}, prox_center{0, 0, 0, 0}, linear{1, 1, 1, 1};
    Mask mask(4, true);
    mask.set(2, false);
    const auto got = stepped(slope, x,
                             Step<double>{.terms = {.on = Coordinates::range(1, 4),
                                                    .active = &mask,
                                                    .prox_center = prox_center,
                                                    .prox_weight = 1,
                                                    .linear = linear},
                                          .rate = 0.5});
    CHECK(got == Vec<double>{1, 0, 3, 1});
}

TEST_CASE("every kernel set makes the same step, up to its rounding") {
    std::vector<double> gradient(70);
    for (std::size_t j = 0; j < 70; ++j) gradient[j] = 0.01 * static_cast<double>(j) - 0.3;
    OneSlope<float, 70> slope(gradient);
    const Vec<float> x(70, 0.5f), prox_center(70, -0.25f), linear(70, 0.125f);
    Vec<float> expected;
    support::for_each_kernel_set([&](auto) {
        Vec<float> velocity(70, 0.75f);
        const auto got =
            stepped(slope, x,
                    Step<float>{.terms = {.prox_center = prox_center, .prox_weight = 0.3, .linear = linear},
                                .rate = 0.1,
                                .decay = 0.2,
                                .clip = 1,
                                .momentum = 0.9,
                                .velocity = &velocity});
        if (expected.empty()) expected = got;
        CHECK(distance(got, expected) < 1e-6);  // fused multiply-adds round once instead of twice
        CHECK(distance(got, x) > 1e-3);
    });
}

TEST_CASE("a mask's runs of ones move as its coordinates do one by one, across words and at both ends") {
    constexpr std::size_t d = 200;
    std::vector<double> gradient(d);
    for (std::size_t j = 0; j < d; ++j) gradient[j] = 0.01 * static_cast<double>(j) - 0.3;
    OneSlope<double, d> slope(gradient);
    Mask mask(d, true);
    for (const std::size_t j : {0u, 5u, 6u, 63u, 64u, 100u, 128u, 190u}) mask.set(j, false);
    const Vec<double> x(d, 0.5);
    const auto got =
        stepped(slope, x, Step<double>{.terms = {.on = Coordinates::range(3, 197), .active = &mask}, .rate = 0.5});
    for (std::size_t j = 0; j < d; ++j) {
        const bool moves = j >= 3 && j < 197 && mask[j];
        CHECK(got[j] == (moves ? 0.5 - 0.5 * gradient[j] : 0.5));
    }
    const Mask none(d);
    CHECK(same_bits(stepped(slope, x, Step<double>{.terms = {.active = &none}, .rate = 0.5}), x));
    const auto clipped = stepped(slope, x, Step<double>{.terms = {.active = &mask}, .rate = 1, .clip = 1});
    double squares = 0;
    for (std::size_t j = 0; j < d; ++j) squares += (clipped[j] - 0.5) * (clipped[j] - 0.5);
    CHECK(squares == doctest::Approx(1).epsilon(1e-6));  // the clipped gradient's norm, up to the 1e-6 of its formula
}

namespace {
// A model that fuses when there is no clipping, and says so.
struct Fusing : support::Slope<double, 2> {
    mutable int fused = 0;
    bool fuses(const Step<double>& s) const { return s.clip == 0; }
    double fused_step(Out<double> x, const Batch<double>&, const Step<double>& s) const {
        ++fused;
        for (double& v : x) v = s.rate;
        return 42;
    }
};
}  // namespace

TEST_CASE("a model that fuses is asked first, and used when it says yes") {
    static_assert(FusedModel<Fusing> && !FusedModel<support::Slope<double, 2>>);
    const Fusing model;
    const auto pool = data::Dataset::regression({1, 1}, {0});
    const std::array<Index, 1> ids{0};
    Workspace<double> workspace;
    const Context<Fusing> at{.model = &model, .examples = &pool.examples(), .ids = ids, .workspace = &workspace};
    Vec<double> x{1, 1};
    CHECK(take_step(at, x, at.everything(), {.rate = 0.25}) == 42);
    CHECK(x == Vec<double>{0.25, 0.25});
    CHECK(model.fused == 1);
    CHECK(take_step(at, x, at.everything(), {.rate = 0.25, .clip = 9}) == 0.5);
    CHECK(x == Vec<double>{0, 0});
    CHECK(model.fused == 1);
}

}  // namespace step_test
