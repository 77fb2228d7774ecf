// SPDX-License-Identifier: BSD-3-Clause
// The three steps of partial personalization: (a) a common model, (b) personal training, (c) tuning when served.
#include <doctest/doctest.h>

#include <cstddef>
#include <utility>

#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/ft_part.hpp>
#include <tessera/method/pfedme.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace pipeline_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 4};

const Vec<float>& common_model() {  // (a)
    static const auto w = [] {
        Federation<FedAvg<>, Net> run{{}, toy_data(), {.local = {.rate = 0.2}}, usual};
        run.run(4, sample::Everyone{});
        return run.server().w;
    }();
    return w;
}
template <class Fed>
Vec<float> served(const Fed& run, Id k) {
    Workspace<float> workspace;
    return run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
        return client.serve(std::move(received), run.rounds_done(), space).parameters;
    });
}

}  // namespace

TEST_CASE("(b) starts where (a) ended, u on the server and v on every client") {
    const Coordinates v = on<scope::Head>(Net{}), u = off(scope::Head{}, Net{});
    Federation<FedAlt<>, Net> run{{}, toy_data(), {}, usual, common_model()};
    CHECK(same_bits(run.server().w, gather(common_model(), u)));
    for (Id k = 0; k < 6; ++k) CHECK(same_bits(served(run, k), common_model()));
    Federation<FedAlt<>, Net> cold{{}, toy_data(), {}, usual};
    CHECK_FALSE(same_bits(served(cold, 0), common_model()));

    run.round(sample::Everyone{});
    Workspace<float> workspace;
    for (Id k = 0; k < 6; ++k) {  // the first visit's v-phase walked from (a)'s head, with (a)'s body
        auto w = common_model();
        const auto at = run.setup().context(run.data()[k], k, 0, workspace);
        descend(at, w, at.epochs(1, Pass::own), rule::Sgd{}, {.on = v});
        CHECK(same_bits(run.client(k).v, gather(w, v)));
    }
}

TEST_CASE("(c) tunes v alone for the epochs asked, at a constant rate, and keeps nothing") {
    const Coordinates v = on<scope::Head>(Net{}), u = off(scope::Head{}, Net{});
    const auto run_with = [](std::size_t tune_epochs) {
        FedAlt<> method{.tune_epochs = tune_epochs, .tune = {.rate = 0.05}};
        method.order.v.schedule.decay = method.order.u.schedule.decay = rule::Decay::linear;  // 0 at the end
        Federation<FedAlt<>, Net> run{{}, toy_data(), method, usual, common_model()};
        run.run(4, sample::Everyone{});
        return run;
    };
    const auto run = run_with(5), without = run_with(0);
    CHECK(run.fingerprint() == without.fingerprint());
    Workspace<float> workspace;
    for (Id k = 0; k < 6; ++k) {
        const auto own = served(run, k);
        CHECK(same_bits(gather(own, u), run.server().w));
        CHECK_FALSE(same_bits(gather(own, v), run.client(k).v));
        CHECK(same_bits(gather(served(without, k), v), run.client(k).v));
        auto w = served(without, k);
        const auto at = run.setup().context(run.data()[k], k, 4, workspace);
        descend(at, w, at.epochs(5, Pass::own), rule::Sgd{.rate = 0.05}, {.on = v});
        CHECK(same_bits(own, w));
    }
    const auto before = run.fingerprint();
    CHECK(evaluate<Which::personal, SplitOf::train>(run).loss(Average::pooled).value.get() <
          evaluate<Which::personal, SplitOf::train>(without).loss(Average::pooled).value.get());
    CHECK(run.fingerprint() == before);
}

TEST_CASE("(c) runs at a constant rate also where its rule has a schedule that ends at 0") {
    const Coordinates v = on<scope::Head>(Net{});
    const auto after = [](auto method) {
        Federation<decltype(method), Net> run{{}, toy_data(), method, usual};
        run.run(4, sample::Everyone{});
        return run;
    };
    // What a client is served is the model it would have without tuning, walked on by the rule without its schedule.
    const auto tunes_fully = [](const auto& run, const auto& untuned, const Terms<float>& terms, auto&& batches) {
        Workspace<float> workspace;
        for (Id k = 0; k < 6; ++k) {
            auto w = served(untuned, k);
            CHECK_FALSE(same_bits(served(run, k), w));
            const auto at = run.setup().context(run.data()[k], k, 4, workspace);
            descend(at, w, batches(at, k), rule::Sgd{.rate = 0.2}, terms);
            CHECK(same_bits(served(run, k), w));
        }
    };
    const auto two_epochs = [](const auto& at, Id) { return at.epochs(2, Pass::own); };
    for (const auto decay : {rule::Decay::linear, rule::Decay::cosine, rule::Decay::step}) {
        const rule::Sgd falling{.rate = 0.2, .schedule = {.decay = decay, .every = 1}};
        const auto alt = [&](std::size_t n) { return after(FedAlt<>{.tune_epochs = n, .tune = falling}); };
        tunes_fully(alt(2), alt(0), {.on = v}, two_epochs);
        const auto part = [&](std::size_t n) {
            return after(FtPart<>{.local = falling, .tune_epochs = n, .tune = falling});
        };
        tunes_fully(part(2), part(0), {.on = v}, two_epochs);
        const auto whole = [&](std::size_t n) { return after(FedAvgFt<>{.local = falling, .tune_epochs = n}); };
        tunes_fully(whole(2), whole(0), {}, two_epochs);
        const auto me = [&](std::size_t n) { return after(PFedMe<>{.local = falling, .lambda = 1, .tune_steps = n}); };
        const auto run = me(3);
        tunes_fully(run, me(0), {}, [&](const auto& at, Id k) {
            auto cursor = run.client(k).cursor;
            return at.stream(cursor, 3);
        });
    }
}

TEST_CASE("the global model of a split run is u with the v that everybody started from") {
    const Coordinates v = on<scope::Head>(Net{}), u = off(scope::Head{}, Net{});
    Federation<FedAlt<>, Net> run{{}, toy_data(), {}, usual};
    run.run(3, sample::Everyone{});
    const auto global = run.setup().method.global(run.server(), run.setup().initial);
    CHECK(same_bits(gather(global, u), run.server().w));
    CHECK(same_bits(gather(global, v), gather(run.setup().initial, v)));
    Federation<FedAvg<>, Net> fixed{{}, toy_data(), {}, usual, global};
    CHECK(evaluate<Which::global>(run).loss(Average::pooled).value.get() ==
          evaluate<Which::global>(fixed).loss(Average::pooled).value.get());
}

TEST_CASE("FT (part.): FedAvg in training, and the scope alone is tuned when served") {
    const Coordinates v = on<scope::Head>(Net{}), u = off(scope::Head{}, Net{});
    const auto after = [](auto method) {
        Federation<decltype(method), Net> run{{}, toy_data(), method, usual};
        run.run(4, sample::Everyone{});
        return run;
    };
    const rule::Sgd local{.rate = 0.2};
    const auto part = after(FtPart<scope::Chosen>{.own = "output", .local = local, .tune = local});
    const auto all = after(FtPart<scope::Chosen>{.own = "all", .local = local, .tune_epochs = 2, .tune = local});
    const auto whole = after(FedAvgFt<>{.local = local, .tune_epochs = 2});
    CHECK(same_bits(part.server().w, common_model()));
    for (Id k = 0; k < 6; ++k) {
        CHECK(same_bits(gather(served(part, k), u), gather(common_model(), u)));
        CHECK_FALSE(same_bits(gather(served(part, k), v), gather(common_model(), v)));
        CHECK(same_bits(served(all, k), served(whole, k)));  // everything tuned is FedAvg + FT
        CHECK_FALSE(same_bits(served(part, k), served(whole, k)));
    }
}

TEST_CASE("a scope that finds nothing is refused before round one") {
    using Alt = FedAlt<scope::Chosen>;
    using Fed = Federation<Alt, Net>;
    CHECK_THROWS_WITH_AS((Fed{{}, toy_data(), {.own = "output+adapter"}, usual}),
                         doctest::Contains("'adapter' in the scope 'output+adapter' selects nothing"), ConfigError);
    CHECK_THROWS_AS((Fed{{}, toy_data(), {.own = "named:7"}, usual}), ConfigError);
    CHECK_NOTHROW((Fed{{}, toy_data(), {.own = "named:2"}, usual}));
    using Late = Federation<FedAlt<scope::Adapter>, nn::AnyModel<float>>;
    CHECK_THROWS_AS((Late{Net{}, toy_data(), {}, usual}), ConfigError);
    using Part = Federation<FtPart<scope::Chosen>, Net>;
    CHECK_THROWS_AS((Part{{}, toy_data(), {.own = "router"}, usual}), ConfigError);
}

TEST_CASE("a download of another split is refused, and the client stays as it was") {
    using Alt = FedAlt<scope::Chosen>;
    const Setup<Alt, Net> input(Net{}, {.own = "input"}, usual), output(Net{}, {.own = "output"}, usual);
    const auto data = toy_data();
    Server<Alt, Net> wrong(input, 6), right(output, 6);
    Client<Alt, Net> client(output, 0, data[0]);
    wrong.open_round({{.client = 0}});
    right.open_round({{.client = 0}});
    CHECK_THROWS_AS(client.visit(wrong.download(0)), WireError);
    CHECK(client.state().v.empty());
    CHECK(right.receive(0, client.visit(right.download(0))) == Verdict::accepted);
    CHECK(client.state().v.size() == 28);
}

}  // namespace pipeline_test
