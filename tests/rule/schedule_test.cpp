// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/rule/schedule.hpp>

#include <cstddef>

#include <doctest/doctest.h>

namespace schedule_test {

using doctest::Approx;
using tessera::ConfigError;
using tessera::rule::Decay;
using tessera::rule::Schedule;

TEST_CASE("linear warm-up (L-ALT-12): round 0 is a no-op, round aT has multiplier 1, s(T) = 0") {
    for (const std::size_t rounds : {10u, 20u, 100u, 500u, 1000u}) {
        const Schedule s{.decay = Decay::linear, .warm_up = 0.1};
        CHECK(s(0, rounds) == 0);
        CHECK(s(rounds / 10, rounds) == Approx(1).epsilon(1e-15));
        CHECK(s(rounds, rounds) == 0);
        CHECK(s(rounds + 3, rounds) == 0);  // a run that goes on does not climb again
        CHECK(s(rounds - 1, rounds) > 0);
    }
    const Schedule s{.decay = Decay::linear, .warm_up = 0.1};
    CHECK(s(5, 100) == Approx(0.5));
    CHECK(s(9, 100) == Approx(0.9));
    CHECK(s(55, 100) == Approx(0.5));
    CHECK(s(99, 100) == Approx(1.0 / 90));
    const Schedule half{.decay = Decay::linear, .warm_up = 0.5};
    CHECK(half(25, 100) == Approx(0.5));
    CHECK(half(5, 100) != Approx(0.5));
}

TEST_CASE("step decay: 0.5 ^ floor(t / 500)") {
    const Schedule s{.decay = Decay::step};
    CHECK(s(0, 2000) == 1);
    CHECK(s(499, 2000) == 1);
    CHECK(s(500, 2000) == 0.5);
    CHECK(s(999, 2000) == 0.5);
    CHECK(s(1500, 2000) == 0.125);
    const Schedule often{.decay = Decay::step, .factor = 0.1, .every = 10};
    CHECK(often(9, 100) == 1);
    CHECK(often(25, 100) == Approx(0.01));
}

TEST_CASE("constant, exponential and cosine") {
    const Schedule constant, exponential{.decay = Decay::exponential, .factor = 0.99}, cosine{.decay = Decay::cosine};
    for (const std::size_t t : {0u, 1u, 77u, 100u, 1000u}) CHECK(constant(t, 100) == 1);
    CHECK(exponential(0, 100) == 1);
    CHECK(exponential(1, 100) == Approx(0.99));
    CHECK(exponential(50, 100) == Approx(0.6050060671));
    CHECK(cosine(0, 100) == 1);
    CHECK(cosine(25, 100) == Approx(0.8535533906));
    CHECK(cosine(50, 100) == Approx(0.5));
    CHECK(cosine(100, 100) == 0);
    CHECK(cosine(130, 100) == 0);
}

TEST_CASE("a model that is served is tuned at the full rate") {
    struct {
        std::size_t round = 75, rounds = 100;
        bool serving = false;
    } context;
    for (const auto decay : {Decay::linear, Decay::step, Decay::exponential, Decay::cosine}) {
        const Schedule schedule{.decay = decay, .every = 10};
        context.serving = false;
        CHECK(schedule.at(context) == schedule(75, 100));
        CHECK(schedule.at(context) < 1);
        context.serving = true;
        CHECK(schedule.at(context) == 1);
    }
}

TEST_CASE("settings outside their range are refused") {
    CHECK_NOTHROW(Schedule{}.validate());
    CHECK_NOTHROW((Schedule{.factor = 1}.validate()));
    CHECK_THROWS_AS((Schedule{.warm_up = 0}.validate()), ConfigError);
    CHECK_THROWS_AS((Schedule{.warm_up = 1}.validate()), ConfigError);
    CHECK_THROWS_AS((Schedule{.factor = 0}.validate()), ConfigError);
    CHECK_THROWS_AS((Schedule{.factor = 1.1}.validate()), ConfigError);
    CHECK_THROWS_AS((Schedule{.every = 0}.validate()), ConfigError);
}

}  // namespace schedule_test
