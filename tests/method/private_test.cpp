// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/private.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <tessera/core/bytes.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fallback.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/local.hpp>
#include <tessera/method/perada.hpp>
#include <tessera/method/privacy_statement.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/rule/sgd.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>
#ifdef _OPENMP
#include <tessera/exec/openmp.hpp>
#endif

#include <support/bits.hpp>
#include <support/keyed_noise.hpp>
#include <support/toy_data.hpp>

namespace private_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
struct Broken {  // a server that fails when everybody has sent
    static constexpr Offers offers{};
    void fold(const auto&, auto&, auto, auto&) const { throw Error("the fold failed"); }
};
using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
using Noisy = rule::DpSgd<support::KeyedNoise>;
constexpr Settings usual{.seed = 3, .batch = 5};
const Noisy noisy{.rate = 0.1, .clip = 1, .noise = 1.2};
// Clients have 17, 22, 27, 17, 22, 27 examples: 4, 5, 6 batches of 5 a pass.
constexpr std::size_t batches(std::size_t k) { return 4 + k % 3; }
constexpr double examples(std::size_t k) { return 17 + 5 * static_cast<double>(k % 3); }
}  // namespace

TEST_CASE("the ledger counts every noisy step of every visit, client by client") {
    Federation<Private<FedAvg<Noisy>>, Net> run{{}, toy_data(), {.inner = {.local = noisy, .epochs = 2}}, usual};
    for (int r = 0; r < 3; ++r) run.round(sample::Everyone{});
    for (Id k = 0; k < 6; ++k) {
        const auto& ledger = run.client(k).ledger;
        REQUIRE(ledger.size() == 1);
        CHECK(ledger[0].rate == 5 / examples(k));
        CHECK(ledger[0].noise == 1.2);
        CHECK(ledger[0].steps == 3 * 2 * batches(k));
        const Spent by_hand{5 / examples(k), 1.2, 6 * batches(k)};
        CHECK(run.setup().method.spent(run.client(k)).epsilon ==
              privacy::guarantee(std::span(&by_hand, 1), 1e-5).epsilon);
    }
    // Clients that stay away pay nothing: two of six a round.
    Federation<Private<FedAvg<Noisy>>, Net> part{{}, toy_data(), {.inner = {.local = noisy}}, usual};
    part.round(sample::Uniform{2});
    std::size_t paid = 0;
    for (Id k = 0; k < 6; ++k) paid += part.client(k).ledger.empty() ? 0 : 1;
    CHECK(paid == 2);
}

TEST_CASE("the wrapper changes no bit of the method inside") {
    Federation<Private<Ditto<Noisy>>, Net> wrapped{
        {}, toy_data(), {.inner = {.local = noisy, .personal = noisy, .lambda = 0.5}}, usual};
    Federation<Ditto<Noisy>, Net> bare{{}, toy_data(), {.local = noisy, .personal = noisy, .lambda = 0.5}, usual};
    for (int r = 0; r < 3; ++r) {
        wrapped.round(sample::Everyone{});
        bare.round(sample::Everyone{});
    }
    CHECK(same_bits(wrapped.server().w, bare.server().w));
    for (Id k = 0; k < 6; ++k) CHECK(same_bits(wrapped.client(k).own.v, bare.client(k).v));
    CHECK(evaluate<report::Which::global>(wrapped).counts().size() == 6);
}

TEST_CASE("both models of Ditto are paid for from one ledger; w reads nothing of v") {
    using Both = Ditto<Noisy>;
    using One = Ditto<Noisy, fold::Mean, rule::Sgd>;
    Federation<Private<Both>, Net> both{{}, toy_data(), {.inner = {.local = noisy, .personal = noisy}}, usual};
    Federation<Private<One>, Net> one{{}, toy_data(), {.inner = {.local = noisy}}, usual};
    Federation<Private<FedAvg<Noisy>>, Net> average{{}, toy_data(), {.inner = {.local = noisy}}, usual};
    for (int r = 0; r < 2; ++r) {
        both.round(sample::Everyone{});
        one.round(sample::Everyone{});
        average.round(sample::Everyone{});
    }
    CHECK(both.client(0).ledger[0].steps == 2 * one.client(0).ledger[0].steps);
    CHECK(same_bits(both.server().w, average.server().w));
    CHECK(same_bits(one.server().w, average.server().w));
    CHECK_FALSE(same_bits(both.client(0).own.v, one.client(0).own.v));
    CHECK(detail::kept_in_words<One>().find("must never leave") != std::string_view::npos);
    CHECK(detail::kept_in_words<Both>() == "personal models are covered");
    CHECK(detail::kept_in_words<FedAvg<Noisy>>() == "nothing personal is kept");
}

TEST_CASE("two models never share their noise, also where they share their batches") {
    // lambda = 0 and the same stream of batches: without noise v would be w at the first visit; with it they part.
    const auto apart = [](double noise) {
        auto rule = noisy;
        rule.noise = noise;
        rule.sampling_rate = 1;
        Federation<Private<Ditto<Noisy>>, Net> run{
            {},
            toy_data({.clients = 1}),
            {.inner = {.local = rule, .personal = rule, .steps = 3, .own_steps = 3, .lambda = 0}},
            usual};
        run.round(sample::Everyone{});
        return support::distance(run.client(0).own.v, run.server().w);
    };
    CHECK(apart(0) == 0);
    CHECK(apart(1) > 0.01);
}

TEST_CASE("other methods: FedProx, Local, PerAda without distillation, FedAlt with noise in both parts") {
    const auto first_ledger = [](auto&& run) {
        run.round(sample::Everyone{});
        REQUIRE(run.client(1).ledger.size() == 1);
        return run.client(1).ledger[0].steps;
    };
    CHECK(first_ledger(Federation<Private<FedProx<Noisy>>, Net>{{}, toy_data(), {.inner = {.local = noisy}}, usual}) ==
          5);
    CHECK(first_ledger(Federation<Private<Local<Noisy>>, Net>{{}, toy_data(), {.inner = {.local = noisy}}, usual}) ==
          5);
    CHECK(first_ledger(Federation<Private<PerAda<Noisy, fold::Mean>>, Net>{
              {}, toy_data(), {.inner = {.local = noisy, .personal = noisy}}, usual}) == 10);
    using Alt = FedAlt<scope::Head, Noisy>;
    CHECK(first_ledger(Federation<Private<Alt>, Net>{
              {}, toy_data(), {.inner = {.order = {.v = noisy, .u = noisy}}}, usual}) == 10);
}

TEST_CASE("a ledger survives a checkpoint, and a run is the same for any number of threads") {
    using Run = Federation<Private<FedAvg<Noisy>>, Net>;
    const auto fresh = [] { return Run{{}, toy_data(), {.inner = {.local = noisy}}, usual}; };
    auto run = fresh();
    for (int r = 0; r < 2; ++r) run.round(sample::Everyone{});
    auto again = fresh();
    Bytes saved;
    run.save(saved);
    Reader reader(saved);
    again.restore(reader);
    CHECK(again.client(3).ledger[0].steps == 2 * batches(3));
    CHECK(same_bits(again.server().w, run.server().w));
#ifdef _OPENMP
    auto threads = fresh();
    for (int r = 0; r < 2; ++r) threads.round(sample::Everyone{}, exec::OpenMp{3});
    CHECK(same_bits(threads.server().w, run.server().w));
#endif
    auto secret = fresh().setup().method;
    secret.inner.local.source.source = privacy::Source::system;
    Run hidden{{}, toy_data(), secret, usual};
    for (int r = 0; r < 2; ++r) hidden.round(sample::Everyone{});
    CHECK_FALSE(same_bits(hidden.server().w, run.server().w));
    CHECK(hidden.client(3).ledger[0].steps == run.client(3).ledger[0].steps);
}

TEST_CASE("a run states what it hides from whom, and under what") {
    using One = Ditto<rule::DpSgd<privacy::Noise, sampling::Epochs>, fold::Mean, rule::Sgd>;
    Federation<Private<FedAvg<Noisy>>, Net> run{{}, toy_data(), {.inner = {.local = noisy}, .delta = 1e-4}, usual};
    Federation<Private<One>, Net> other{{}, toy_data(), {}, usual};
    run.round(sample::Uniform{2});
    other.round(sample::Everyone{});
    const auto said = privacy_statement(run);
    REQUIRE(said.epsilon.size() == 6);
    CHECK(std::count(said.epsilon.begin(), said.epsilon.end(), 0) == 4);  // who was not asked has said nothing
    for (Id k = 0; k < 6; ++k) CHECK(said.epsilon[k] == privacy::guarantee(run.client(k).ledger, 1e-4).epsilon);
    CHECK(said.delta == 1e-4);
    CHECK(said.adjacency == "one example added or removed");
    CHECK(said.noise.find("NOT PRIVATE") != std::string::npos);
    CHECK(privacy_statement(other).adjacency == "one example replaced");
    CHECK(privacy_statement(other).sampling == "shuffled passes, no amplification");
    CHECK(privacy_statement(other).personal.find("must never leave") != std::string::npos);
    CHECK(privacy_statement(other).epsilon[0] > said.epsilon[0]);
    CHECK_NOTHROW(report::analysis::privacy_table(said).validate());
}

TEST_CASE("a wrong delta, or a wrong rule inside, is refused before round one") {
    const auto forgetful = [](bool stateless) {
        Federation<Private<FedAvg<Noisy>>, Net> run{
            {}, toy_data(), {.inner = {.local = noisy}}, {.seed = 3, .batch = 5, .stateless = stateless}};
    };
    CHECK_NOTHROW(forgetful(false));
    CHECK_THROWS_AS(forgetful(true), ConfigError);  // clients that forget their ledgers
    using Around = Fallback<Private<FedAvg<Noisy>>>;  // and so inside another method
    CHECK_NOTHROW((Federation<Around, Net>{{}, toy_data(), Around{}, usual}));
    CHECK_THROWS_AS((Federation<Around, Net>{{}, toy_data(), Around{}, {.seed = 3, .batch = 5, .stateless = true}}),
                    ConfigError);
    // A personal part that serving would train without noise.
    using Alt = Private<FedAlt<scope::Head, Noisy>>;
    const auto tuned = [](std::size_t epochs) {
        Federation<Alt, Net> run{{}, toy_data(), Alt{.inner = {.tune_epochs = epochs}}, usual};
    };
    CHECK_NOTHROW(tuned(0));
    CHECK_THROWS_WITH_AS(tuned(1),
                         "a private method must not train when a model is served (tune_epochs must be 0): that is on "
                         "data without noise, and no epsilon covers it",
                         ConfigError);
    using Run = Federation<Private<FedAvg<Noisy>>, Net>;
    CHECK_THROWS_WITH_AS((Run{{}, toy_data(), {.delta = 0}, usual}), "delta must lie in (0, 1)", ConfigError);
    CHECK_THROWS_AS((Run{{}, toy_data(), {.inner = {.local = {.clip = -1}}}, usual}), ConfigError);
}

TEST_CASE("a budget holds inside another method too") {
    using Around = Fallback<Private<FedAvg<Noisy>>>;
    Federation<Around, Net> run{{}, toy_data(), {.inner = {.inner = {.local = noisy}, .epsilon = 12}}, usual};
    std::size_t rounds = 0, left_out = 0;
    try {
        for (; rounds < 100; ++rounds) left_out += run.round(sample::Everyone{}).over_budget;
        FAIL("went on");
    } catch (const BudgetError&) {
    }
    CHECK(rounds > 0);
    CHECK(left_out > 0);  // small clients pay more a visit
    for (Id k = 0; k < 6; ++k) CHECK(run.setup().method.inner.spent(run.client(k)).epsilon <= 12);
}

TEST_CASE("what was sent is spent, also where the round or the visit did not count") {
    using Me = Private<FedAvg<Noisy>>;
    const auto steps = [](const auto& run, Id k) {
        const auto& ledger = run.client(k).ledger;
        return ledger.empty() ? 0 : ledger[0].steps;
    };
    // A rate that takes every visit out of the floats: nothing is merged, and nobody's steps are forgotten.
    Federation<Me, Net> wild{{}, toy_data(), {.inner = {.local = {.rate = 1e39, .clip = 1, .noise = 1}}}, usual};
    const auto before = wild.server().w;
    const auto report = wild.round(sample::Everyone{});
    REQUIRE(report.diverged == 6);
    CHECK(same_bits(wild.server().w, before));
    for (Id k = 0; k < 6; ++k) CHECK(steps(wild, k) == batches(k));
    Federation<Private<FedAvg<Noisy, Broken>>, Net> broken{{}, toy_data(), {.inner = {.local = noisy}}, usual};
    CHECK_THROWS_WITH_AS(broken.round(sample::Everyone{}), "the fold failed", Error);
    for (Id k = 0; k < 6; ++k) CHECK(steps(broken, k) == batches(k));
    // On a device, over bytes.
    Workspace<float> workspace;
    Client<Me, Net> device(wild.setup(), 0, wild.data()[0]);
    device.visit(wild.server().w, 0, workspace);
    CHECK_FALSE(device.sound());
    REQUIRE(device.state().ledger.size() == 1);
    CHECK(device.state().ledger[0].steps == batches(0));
}

TEST_CASE("serving with noise does not depend on who was served before") {
    using Me = FedAvgFt<Noisy>;
    Federation<Me, Net> run{{}, toy_data(), Me{.local = noisy, .tune_epochs = 1}, usual};
    run.round(sample::Everyone{});
    const auto parameters = [&](Id k, Workspace<float>& workspace) {
        return run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
            return client.serve(std::move(received), 1, space).parameters;
        });
    };
    Workspace<float> fresh, used;
    parameters(0, used);
    CHECK(same_bits(parameters(1, used), parameters(1, fresh)));
    CHECK_FALSE(same_bits(parameters(1, used), parameters(2, used)));
}

TEST_CASE("a statement names the weakest of a method's noises") {
    using Me = Private<Ditto<Noisy>>;
    const auto words = [](privacy::Source local, privacy::Source personal) {
        auto one = noisy, two = noisy;
        one.source.source = local, two.source.source = personal;
        Federation<Me, Net> run{{}, toy_data(), Me{.inner = {.local = one, .personal = two}}, usual};
        return std::string(privacy_statement(run).noise);
    };
    using enum privacy::Source;
    CHECK(words(system, system) == privacy::Noise{system}.words());
    CHECK(words(system, keyed) == privacy::Noise{keyed}.words());
    CHECK(words(keyed, system) == privacy::Noise{keyed}.words());
    const auto afresh = [](privacy::Source local, privacy::Source personal) {
        Me method;
        method.inner.local.source.source = local, method.inner.personal.source.source = personal;
        return draws_afresh(method);
    };
    CHECK(afresh(system, keyed));
    CHECK(afresh(keyed, system));
    CHECK_FALSE(afresh(keyed, keyed));
}

TEST_CASE("noise of a fold counts too, also inside another fold, and of any method") {
    using enum privacy::Source;
    using Hidden = fold::PrivateMean<privacy::Noise>;
    using Wrapped = fold::ServerMomentum<Hidden>;
    Private<FedAvg<Noisy, Hidden>> both{.inner = {.local = noisy}};
    CHECK(draws_afresh(both));  // keyed steps in a fold with the system's noise
    both.inner.fold.source.source = keyed;
    CHECK_FALSE(draws_afresh(both));
    Private<FedAvg<Noisy, Wrapped>> inside{.inner = {.local = noisy}};
    CHECK(draws_afresh(inside));
    inside.inner.fold.inner.source.source = keyed;
    CHECK_FALSE(draws_afresh(inside));

    FedAvg<rule::Sgd, Hidden> clients;
    CHECK(draws_afresh(clients));
    CHECK(draws_afresh(Fallback<FedAvg<rule::Sgd, Hidden>>{clients}));
    clients.fold.source.source = keyed;
    CHECK_FALSE(draws_afresh(clients));
    CHECK_FALSE(draws_afresh(FedAvg<>{}));  // no noise at all

    const auto words = [](privacy::Source steps, privacy::Source fold) {
        using Me = Private<FedAvg<Noisy, Wrapped>>;
        Me me{.inner = {.local = noisy}};
        me.inner.local.source.source = steps;
        me.inner.fold.inner.source.source = fold;
        me.inner.fold.inner.clients = 6;
        return std::string(privacy_statement(Federation<Me, Net>{{}, toy_data(), me, usual}).noise);
    };
    CHECK(words(system, system) == privacy::Noise{system}.words());
    CHECK(words(system, keyed) == privacy::Noise{keyed}.words());
    CHECK(words(keyed, system) == privacy::Noise{keyed}.words());
}

TEST_CASE("a method without personal models has none under Private either") {
    static_assert(!detail::serves_own<FedAvg<Noisy>>() && !detail::serves_own<Private<FedAvg<Noisy>>>());
    static_assert(detail::serves_own<Private<Ditto<Noisy>>>() && detail::serves_own<Private<Local<Noisy>>>());
}

}  // namespace private_test
