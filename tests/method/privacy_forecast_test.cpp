// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/privacy_forecast.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/bytes.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/poisson.hpp>
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

// Small clients pay more a visit: 0 and 3 have 17 examples, 1 and 4 have 22, 2 and 5 have 27.
TEST_CASE("whose budget a visit would pass is left out, and a run stops when nobody has anything left") {
    const auto free = ditto(1.2);
    const auto ahead = privacy_forecast(free, sample::Everyone{}, 10);
    const double budget = (ahead.dearest(1e-5, 3).epsilon + ahead.dearest(1e-5, 4).epsilon) / 2;
    REQUIRE(ahead.rounds_within(budget, 1e-5) == 3);
    auto run = ditto(1.2, budget), wired = ditto(1.2, budget);
    wired.over_the_wire();
    for (int r = 0; r < 3; ++r) {
        CHECK(run.round(sample::Everyone{}).over_budget == 0);
        wired.round(sample::Everyone{});
    }
    const auto spent = run.client(0).ledger[0].steps, of_another = run.client(2).ledger[0].steps;
    const auto fourth = run.round(sample::Everyone{});
    CHECK(fourth.over_budget == 2);
    CHECK(fourth.trained == 4);
    CHECK(fourth.outcome.merged == 4);
    CHECK(fourth.outcome.counted);
    CHECK(run.client(0).ledger[0].steps == spent);
    CHECK(run.client(2).ledger[0].steps > of_another);
    CHECK(wired.round(sample::Everyone{}).state == fourth.state);
    CHECK(privacy_forecast(run, sample::Everyone{}, 5).rounds_within(budget, 1e-5) == 0);
    // From a checkpoint on, as if never stopped.
    Bytes saved;
    run.save(saved);
    auto again = ditto(1.2, budget);
    Reader reader(saved);
    again.restore(reader);
    std::size_t rounds = 4;
    try {
        for (; rounds < 100; ++rounds) {
            const auto report = run.round(sample::Everyone{});
            CHECK(again.round(sample::Everyone{}).state == report.state);
        }
        FAIL("went on");
    } catch (const BudgetError& e) {
        CHECK(e.epsilon > budget);
    }
    CHECK(rounds > 4);
    CHECK(run.rounds_done() == rounds);
    const auto before = run.fingerprint();
    CHECK_THROWS_AS(run.round(sample::Everyone{}), BudgetError);
    CHECK(run.fingerprint() == before);
    CHECK(dearest(run) <= budget);
    for (Id k = 0; k < run.size(); ++k) CHECK(run.setup().method.over_budget(run.client(k), k));
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

TEST_CASE("a budget that not one visit keeps to: nothing is spent, and a forecast says so") {
    auto run = ditto(1.2, 0.01);
    const auto before = run.server().w;
    CHECK(privacy_forecast(run, sample::Everyone{}, 5).rounds_within(0.01, 1e-5) == 0);
    CHECK_THROWS_AS(run.round(sample::Everyone{}), BudgetError);
    // Two of six a round: they are found out two by two, the rounds have nobody, and the last of them ends it.
    std::size_t rounds = 0;
    try {
        for (; rounds < 200; ++rounds) {
            const auto report = run.round(sample::Uniform{2});
            CHECK(report.over_budget == 2);
            CHECK_FALSE(report.outcome.counted);
        }
        FAIL("went on");
    } catch (const BudgetError&) {
    }
    CHECK(rounds >= 2);
    CHECK(same_bits(run.server().w, before));
    for (Id k = 0; k < run.size(); ++k) CHECK(run.client(k).ledger.empty());
}

TEST_CASE("a quorum is of those who may still come") {
    const auto ahead = privacy_forecast(ditto(1.2), sample::Everyone{}, 4);
    const double budget = (ahead.dearest(1e-5, 3).epsilon + ahead.dearest(1e-5, 4).epsilon) / 2;
    const Noisy rule{.rate = 0.1, .clip = 1, .noise = 1.2};
    auto all = usual;
    all.quorum = 1;
    Run run{{}, toy_data(), {.inner = {.local = rule, .personal = rule}, .epsilon = budget}, all};
    for (int r = 0; r < 3; ++r) run.round(sample::Everyone{});
    const auto fourth = run.round(sample::Everyone{});
    CHECK(fourth.over_budget == 2);
    CHECK(fourth.outcome.counted);
}

// A model that fails on the examples of one client, once it is told to.
namespace {
struct Fragile : Net {
    const bool* fails = nullptr;
    const Index* first = nullptr;
    double clipped_sum(In<float> w, const Batch<float>& b, const Clip<float>& clip, Out<float> out) const {
        if (fails && *fails && b.ids()[0] >= *first) throw Error("out of memory, say");
        return Net::clipped_sum(w, b, clip, out);
    }
};
}  // namespace

TEST_CASE("what others had sent is paid for, also where somebody's visit fails") {
    const auto data = toy_data();
    const Index last = data[5].train[0];
    bool fails = false;
    Fragile model;
    model.fails = &fails;
    model.first = &last;
    Federation<Private<FedAvg<Noisy>>, Fragile> run{model, data, {.inner = {.local = {.clip = 1, .noise = 1}}}, usual};
    run.round(sample::Everyone{});
    const auto w = run.server().w;
    std::vector<std::uint64_t> before;
    for (Id k = 0; k < 6; ++k) before.push_back(run.client(k).ledger[0].steps);
    fails = true;
    CHECK_THROWS_AS(run.round(sample::Everyone{}), Error);
    CHECK(same_bits(run.server().w, w));
    CHECK(run.client(5).ledger[0].steps == before[5]);
    std::size_t paid = 0;
    for (Id k = 0; k < 5; ++k) {
        const auto now = run.client(k).ledger[0].steps;
        CHECK((now == before[k] || now == 2 * before[k]));
        paid += now > before[k];
    }
    CHECK(paid > 0);  // visited before the one that failed
}

namespace {
struct Ahead {
    double forecast, spent, everybody;
};
// Six rounds under a plan of half of the clients, of which a private fold also hides who they were.
template <class Source>
Ahead under_a_secret_plan(Source source) {
    using Me = Private<FedAvg<Noisy, fold::ServerMomentum<fold::PrivateMean<Source>>>>;
    Me me{.inner = {.local = {.rate = 0.1, .clip = 1, .noise = 1.2}}};
    me.inner.fold.inner.clients = 3;
    me.inner.fold.inner.source = source;
    Federation<Me, Net> run{{}, toy_data(), me, usual};
    const sample::Poisson half{.rate = 0.5};
    const double forecast = privacy_forecast(run, half, 6).dearest(1e-5).epsilon;
    const double everybody = privacy_forecast(run, sample::Everyone{}, 6).dearest(1e-5).epsilon;
    for (int r = 0; r < 6; ++r) run.round(half);
    double most = 0;
    for (Id k = 0; k < run.size(); ++k) most = std::max(most, me.spent(run.client(k)).epsilon);
    return {forecast, most, everybody};
}
}  // namespace

TEST_CASE("who comes into a secret cohort is not known ahead: the forecast is never below what is spent") {
    for (int run = 0; run < 5; ++run) {  // each has a plan of its own
        const auto secret = under_a_secret_plan(privacy::Noise{});
        CHECK(secret.forecast >= secret.spent);
        CHECK(secret.forecast == secret.everybody);
    }
    const auto of_the_seed = under_a_secret_plan(support::KeyedNoise{});
    CHECK(of_the_seed.forecast == of_the_seed.spent);
    CHECK(of_the_seed.forecast < of_the_seed.everybody);
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
