// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/rule/sam.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include <tessera/order/together.hpp>
#include <tessera/rule/adam.hpp>

#include <support/bits.hpp>
#include <support/complaint.hpp>
#include <support/one_client.hpp>

namespace sam_test {

using namespace tessera;
using support::distance;
using support::same_bits;

namespace {

// f = (x0^2 + x1^2 + x0 x1) / 2 beside a running statistic, whose step is 1/4 of x0.
struct Bowl {
    using Real = double;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 2> segments{
        Segment{.name = "w", .shape = {2, 1, 1, 1}}, Segment{.name = "seen", .part = Part::buffer, .offset = 2}};

    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<double> x, const Batch<double>&, Out<double> out) const {
        out[0] = x[0] + x[1] / 2, out[1] = x[1] + x[0] / 2, out[2] = x[0] / 4;
        return (x[0] * x[0] + x[1] * x[1] + x[0] * x[1]) / 2;
    }
    void predict(In<double>, const Batch<double>&, Out<double>) const {}
};

template <class F>
Vec<double> on_bowl(Vec<double> x, F&& f) {
    static const Bowl model;
    static const auto pool = data::Dataset::regression({0}, {0});
    static const std::array<Index, 1> ids{0};
    Workspace<double> workspace;
    f(Context<Bowl>{.model = &model, .examples = &pool.examples(), .ids = ids, .workspace = &workspace}, x);
    return x;
}
template <class Rule>
Vec<double> walked(const Rule& rule, Vec<double> x, std::size_t steps, const Terms<double>& terms = {}) {
    return on_bowl(std::move(x), [&](const auto& at, auto& y) {
        auto step = walk(at, rule, terms);
        for (std::size_t k = 0; k < steps; ++k) step(y, at.everything());
    });
}
constexpr double rounding = 1e-14;  // a few operations in double on numbers of size 1

}  // namespace

TEST_CASE("SAM by hand: the slope is that of x + radius g / |g|, statistics and the pull stay at x") {
    const Vec<double> x{1, -2, 8};
    const double g0 = 0, g1 = -1.5, n = 1.5;  // at x
    const double y0 = 1 + 0.2 * g0 / n, y1 = -2 + 0.2 * g1 / n;
    const auto after = walked(rule::Sam<>{.base = {.rate = 0.1}, .radius = 0.2}, x, 1);
    CHECK(distance(after, {1 - 0.1 * (y0 + y1 / 2), -2 - 0.1 * (y1 + y0 / 2), 8 - 0.25}) < rounding);
    CHECK(distance(after, walked(rule::Sgd{.rate = 0.1}, x, 1)) > 0.01);
    const Vec<double> home{5, 5, 5}, linear{1, 1, 1};
    const auto pulled = walked(rule::Sam<>{.base = {.rate = 0.1}, .radius = 0.2}, x, 1,
                               {.prox_center = home, .prox_weight = 0.5, .linear = linear});
    CHECK(pulled[0] == doctest::Approx(after[0] - 0.1 * (0.5 * (1 - 5) + 1)));
    CHECK(pulled[1] == doctest::Approx(after[1] - 0.1 * (0.5 * (-2 - 5) + 1)));
}

TEST_CASE("it climbs where the step moves, and nowhere else") {
    const Vec<double> x{1, -2, 8};
    Mask mask(3, true);
    mask.set(0, false);
    for (const Terms<double>& terms : {Terms<double>{.on = Coordinates::range(1, 2)}, Terms<double>{.active = &mask}}) {
        const auto after = walked(rule::Sam<>{.base = {.rate = 0.1}, .radius = 0.2}, x, 1, terms);
        CHECK(after[0] == 1);
        CHECK(after[1] == doctest::Approx(-2 - 0.1 * (-2.2 + 0.5)));  // x0 was not moved for it
    }
}

TEST_CASE("radius 0 is its rule, bit for bit; any other is not") {
    const Vec<double> x{1, -2, 8};
    const rule::Sgd sgd{.rate = 0.1, .momentum = 0.9, .weight_decay = 0.1};
    const rule::Adam adam{.rate = 0.1};
    CHECK(same_bits(walked(rule::Sam<>{sgd, 0}, x, 3), walked(sgd, x, 3)));
    CHECK(same_bits(walked(rule::Sam<rule::Adam>{adam, 0}, x, 3), walked(adam, x, 3)));
    CHECK_FALSE(same_bits(walked(rule::Sam<>{sgd, 0.1}, x, 3), walked(sgd, x, 3)));
    CHECK_FALSE(same_bits(walked(rule::Sam<rule::Adam>{adam, 0.1}, x, 3), walked(adam, x, 3)));
}

TEST_CASE("where there is no slope it stays; it returns the loss at x") {
    CHECK(same_bits(walked(rule::Sam<>{}, {0, 0, 3}, 2), {0, 0, 3}));
    on_bowl({1, -2, 0}, [](const auto& at, auto& x) {
        typename rule::Sam<>::Memory<double> memory{};
        CHECK(rule::Sam<>{}.step(at, x, at.everything(), {}, memory) == doctest::Approx(1.5));
    });
}

TEST_CASE("both blocks at one batch: each climbs along its own slope, both from where the batch found them") {
    // FedSim's order takes the gradient once for both blocks; a rule that asks for another one gets the right one.
    const Vec<double> x{1, -2, 8};
    const order::Together<rule::Sam<>> order{
        .v = {.base = {.rate = 0.1}, .radius = 0.2}, .u = {.base = {.rate = 0.3}, .radius = 0.2}};
    const auto after = on_bowl(x, [&](auto at, auto& w) {
        at.batch = 1;
        order(at, w, Coordinates::range(0, 1), Coordinates::range(1, 3));
    });
    CHECK(after[0] == 1);  // its slope is 0 there: nothing to climb
    CHECK(after[1] == doctest::Approx(-2 - 0.3 * (-2.2 + 0.5)));
    CHECK(after[2] == 7.75);
}

TEST_CASE("settings outside their range are refused with the name of the field") {
    const auto complaint = support::complaint<rule::Sam<>>;
    CHECK(complaint({}) == "");
    CHECK(complaint({.radius = 0}) == "");
    CHECK(complaint({.radius = -1}).find("radius") == 0);
}

}  // namespace sam_test
