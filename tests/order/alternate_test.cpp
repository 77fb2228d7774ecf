// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/order/alternate.hpp>

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/rule/sgd.hpp>

#include <support/bench.hpp>

namespace alternate_test {

using namespace tessera;
using support::Coupled;
using support::QuadraticVisit;

namespace {
using Order = order::Alternate<rule::Sgd>;
const Coordinates u = Coordinates::range(0, 1), v = Coordinates::range(1, 2);
}  // namespace

TEST_CASE("v moves first with u fixed, then u with the new v fixed") {
    QuadraticVisit<Coupled> bench({{1, 4}});
    Vec<double> w{1, 2};  // residual -1
    Order{.v = {.rate = 0.5}, .u = {.rate = 0.25}}(bench.context(), w, v, u);
    CHECK(w == Vec<double>{1.125, 2.5});  // v += 0.5; the residual is then -0.5 and u += 0.125
    CHECK(bench.steps() == 2);
}

TEST_CASE("each phase has its own budget in epochs and in steps") {
    const std::vector<support::Parabola> ten(10, {1, 0});
    const auto steps = [&](Order order) {
        QuadraticVisit<Coupled> bench(ten, 2);  // five batches an epoch
        Vec<double> w{1, 1};
        order(bench.context(), w, v, u);
        return bench.steps();
    };
    CHECK(steps({}) == 10);
    CHECK(steps({.epochs_v = 2, .epochs_u = 3}) == 25);
    CHECK(steps({.epochs_v = 0, .epochs_u = 0}) == 0);
    CHECK(steps({.epochs_v = 2, .cap_v = 7}) == 12);
    CHECK(steps({.cap_u = 1}) == 6);
    CHECK(steps({.epochs_v = 300}) == 1000 + 5);  // the personal phase ends at 1000 steps unless told otherwise
    CHECK(steps({.epochs_v = 300, .cap_v = 0}) == 1500 + 5);
}

TEST_CASE("a block that is empty costs nothing") {
    QuadraticVisit<Coupled> bench({{1, 4}});
    Vec<double> w{1, 2};
    Order{}(bench.context(), w, Coordinates::none(), Coordinates::none());
    CHECK(w == Vec<double>{1, 2});
    CHECK(bench.steps() == 0);
}

TEST_CASE("the phases read different shuffles") {
    const std::vector<support::Parabola> many{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}};
    const auto after = [&](const Coordinates& first, const Coordinates& second) {
        QuadraticVisit<Coupled> bench(many, 1);
        Vec<double> w{0, 0};
        Order{.v = {.rate = 0.5}, .u = {.rate = 0.5}}(bench.context(), w, first, second);
        return w[0] + w[1];
    };
    // The same steps on one number, once in the personal and once in the shared phase: other batches come last.
    CHECK(after(v, Coordinates::none()) != after(Coordinates::none(), v));
}

TEST_CASE("the penalty acts on v and has no factor 1/2") {
    QuadraticVisit<Coupled> bench({{1, 4}}, 0, {1, 3});
    Vec<double> w{1, 2};
    Order order{.v = {.rate = 0.5}, .u = {.rate = 0.25}, .penalty = {.strength = 0.25}};
    order(bench.context(), w, v, u);
    CHECK(w == Vec<double>{1 + 0.25 * 0.25, 2.75});  // v -= 0.5 (-1 + 0.5 (2 - 3)); u sees the residual -0.25 alone
    w = {1, 2};
    order.penalty.anchor = order::Anchor::zero;
    order(bench.context(), w, v, u);
    CHECK(w[1] == 2);  // v -= 0.5 (-1 + 0.5 * 2)
    CHECK(w[0] == 1.25);
}

TEST_CASE("clipping sees the block that moves, not the other") {
    QuadraticVisit<Coupled> bench({{1, 4}});
    Vec<double> w{-6, 0};  // residual -10
    Order{.v = {.rate = 1, .clip = 1}, .u = {.rate = 1, .clip = 1}}(bench.context(), w, v, u);
    CHECK(w[1] == doctest::Approx(1).epsilon(1e-6));  // clip/(norm + 1e-6)
    CHECK(w[0] == doctest::Approx(-5).epsilon(1e-6));
}

}  // namespace alternate_test
