// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/privacy_forecast.hpp>

#include <algorithm>
#include <cstddef>

#include <doctest/doctest.h>

#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/keyed_noise.hpp>
#include <support/toy_data.hpp>

namespace privacy_forecast_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
using Noisy = rule::DpSgd<support::KeyedNoise>;
using Run = Federation<Private<Ditto<Noisy>>, Net>;
constexpr Settings usual{.seed = 3, .batch = 5};

Run ditto(double noise, double epsilon = 0) {
    const Noisy rule{.rate = 0.1, .clip = 1, .noise = noise};
    return Run{{}, toy_data(), {.inner = {.local = rule, .personal = rule}, .epsilon = epsilon}, usual};
}
double dearest(const Run& run) {
    double most = 0;
    for (Id k = 0; k < run.size(); ++k) most = std::max(most, run.setup().method.spent(run.client(k)).epsilon);
    return most;
}
}  // namespace

TEST_CASE("a forecast is what the run then costs, bit for bit, and changes nothing of it") {
    auto run = ditto(1.2), other = ditto(1.2);
    const sample::Uniform two{2};
    const auto ahead = privacy_forecast(run, two, 7);
    for (int r = 0; r < 7; ++r) run.round(two), other.round(two);
    CHECK(ahead.dearest(1e-5).epsilon == dearest(run));
    CHECK(same_bits(run.server().w, other.server().w));
    // From the middle of a run, with what is spent already.
    const auto more = privacy_forecast(run, sample::Everyone{}, 3);
    for (int r = 0; r < 3; ++r) run.round(sample::Everyone{});
    CHECK(more.dearest(1e-5).epsilon == dearest(run));
    CHECK(more.dearest(1e-5).epsilon > ahead.dearest(1e-5).epsilon);
}

TEST_CASE("a run stops before the round that would pass its budget, with everything as it was") {
    const auto free = ditto(1.2);
    const auto ahead = privacy_forecast(free, sample::Everyone{}, 10);
    const double budget = (ahead.dearest(1e-5, 3).epsilon + ahead.dearest(1e-5, 4).epsilon) / 2;
    REQUIRE(ahead.rounds_within(budget, 1e-5) == 3);
    auto run = ditto(1.2, budget);
    for (int r = 0; r < 3; ++r) CHECK_NOTHROW(run.round(sample::Everyone{}));
    const auto before = run.fingerprint();
    CHECK_THROWS_AS(run.round(sample::Everyone{}), BudgetError);
    CHECK(run.fingerprint() == before);
    CHECK(run.rounds_done() == 3);
    CHECK(dearest(run) <= budget);
    // A device of its own: nothing is sent, so nothing is spent.
    Workspace<float> workspace;
    Client<Private<Ditto<Noisy>>, Net> device(run.setup(), 0, run.data()[0], run.client(0));
    CHECK_THROWS_AS(device.visit(run.server().w, 3, workspace), BudgetError);
    CHECK(device.state().ledger[0].steps == run.client(0).ledger[0].steps);
    // Without a budget it goes on.
    auto on = ditto(1.2);
    for (int r = 0; r < 4; ++r) on.round(sample::Everyone{});
    CHECK(dearest(on) > budget);
}

TEST_CASE("noise by forecast: the whole run keeps to the budget it was made for") {
    const double noise = 0.9 * privacy_forecast(ditto(0.9), sample::Uniform{3}, 5).scale_within(4, 1e-5);
    auto run = ditto(noise, 4);
    for (int r = 0; r < 5; ++r) CHECK_NOTHROW(run.round(sample::Uniform{3}));
    CHECK(dearest(run) <= 4);
    CHECK(dearest(run) > 3.9999);  // the search ends within 1e-6 of the noise
    CHECK_THROWS_WITH_AS(ditto(1, -1), "epsilon must be positive, or 0 for no budget", ConfigError);
}

}  // namespace privacy_forecast_test
