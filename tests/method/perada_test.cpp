// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/perada.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/conformance.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fallback.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/feddf.hpp>
#include <tessera/method/fedsim.hpp>
#include <tessera/method/knn_per.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/tuned.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace perada_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

template <class R = float>
using Net = nn::AdaptedDnn<Toy::width, 6, Toy::classes, 3, R>;
template <class R = float>
using Adapters = nn::Tuned<Net<R>>;
template <class R = float>
Adapters<R> adapters() {
    return {Net<R>{}, initial_parameters(Net<R>{}, Key{8})};
}

using NoKd = PerAda<rule::Sgd, fold::Mean>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};
const rule::Sgd lively{.rate = 0.1, .momentum = 0.5, .weight_decay = 0.01};
const fold::Distill<> lesson{.kd_steps = 8, .kd_batch = 10, .kd_rate = 0.01};

// The toy population, with two clients' examples set aside for the server.
data::FederatedDataset with_public(std::size_t clients = 6) {
    const auto all = toy_data({.clients = clients + 2});
    data::Split split;
    for (std::size_t k = 0; k < clients; ++k) split.clients.push_back(all.split().clients[k]);
    for (std::size_t k = clients; k < clients + 2; ++k)
        for (const Index id : all.split().clients[k].train) split.server.push_back(id);
    return {all.pool(), split};
}

// Every client's personal model has the same bits in both runs.
template <class A, class B>
bool same_personal(const A& a, const B& b) {
    for (Id k = 0; k < a.size(); ++k) {
        const auto one = a.client(k);
        const auto two = b.client(k);
        if constexpr (requires { two.v; }) {
            if (!same_bits(one.v, two.v)) return false;
        } else if (!same_bits(one.v, two.w)) {
            return false;
        }
    }
    return true;
}
template <class A, class B>
struct Agreement {  // after every round
    bool server = true, personal = true;
    Agreement(A a, B b, std::size_t rounds = 4) {
        for (std::size_t r = 0; r < rounds; ++r) {
            a.round(sample::Everyone{});
            b.round(sample::Everyone{});
            if constexpr (requires { b.server().w; }) server = server && same_bits(a.server().w, b.server().w);
            if constexpr (requires { b.client(0).v; } || requires { b.client(0).w; })
                personal = personal && same_personal(a, b);
        }
    }
};

}  // namespace

TEST_CASE("V-ADA-3, L-ADA-10 the fixed point of v is (a c + lambda w) / (a + lambda); the authors' form has 2 lambda") {
    // a = (1, 3), c = (0, 4) with one step a visit: w stays at its fixed point 3.
    const auto fixed_points = [](double scale) {
        Federation<NoKd, support::Quadratic<>> run{{},
                                                   support::quadratic_data({{{1, 0}}, {{3, 4}}}),
                                                   {.lambda = 1, .lambda_scale = scale},
                                                   {.batch = 0},
                                                   Vec<double>{3}};
        run.run(300, sample::Everyone{});
        return std::pair(run.client(0).v[0], run.client(1).v[0]);
    };
    const auto paper = fixed_points(1), program = fixed_points(2);
    CHECK(std::fabs(paper.first - 1.5) < 1e-12);  // contracts by 0.8 a round
    CHECK(std::fabs(paper.second - 3.75) < 1e-12);
    CHECK(std::fabs(program.first - 2.0) < 1e-12);
    CHECK(std::fabs(program.second - 3.6) < 1e-12);
}

TEST_CASE("L-ADA-10 eta_p lambda = 1 and f constant: v is w after one step") {
    const auto after_one = [](double lambda) {
        Federation<NoKd, support::Quadratic<>> run{
            {}, support::quadratic_data({{{0, 0}}}), {.personal = {.rate = 0.5}, .lambda = lambda}, {.batch = 0},
            Vec<double>{3}};
        run.round(sample::Everyone{});
        Bytes bytes;  // the same client, with w moved under it
        run.save(bytes);
        Reader in(bytes);
        std::uint64_t round = 0;
        server_t<NoKd, double> server;
        get(in, round);
        get(in, server);
        server.w[0] = -7.25;
        Bytes moved;
        put(moved, round);
        put(moved, server);
        put_raw(moved, in.rest().data(), in.rest().size());
        Reader again(moved);
        run.restore(again);
        run.round(sample::Everyone{});
        return run.client(0).v[0];
    };
    CHECK(after_one(2) == -7.25);
    CHECK(after_one(1) == (3 - 7.25) / 2);
}

TEST_CASE("L-ADA-1 without distillation: w is the uniform FedAvg of adapters, v is Ditto's on them") {
    Federation<NoKd, Adapters<>> perada{adapters(),
                                        toy_data(),
                                        {.local = lively,
                                         .personal = lively,
                                         .epochs = 2,
                                         .own_epochs = 2,
                                         .lambda = 0.5},
                                        usual};
    const auto ditto = [](Weigh weights, double lambda) {
        return Federation<Ditto<>, Adapters<>>{adapters(),
                                               toy_data(),
                                               {.local = lively,
                                                .personal = lively,
                                                .epochs = 2,
                                                .own_epochs = 2,
                                                .lambda = lambda,
                                                .weights = weights},
                                               usual};
    };
    const auto average = [](Weigh weights) {
        return Federation<FedAvg<>, Adapters<>>{
            adapters(), toy_data(), {.local = lively, .epochs = 2, .weights = weights}, usual};
    };
    const auto perada_of = [&](std::size_t kd_rounds) {
        auto fold = lesson;
        fold.kd_rounds = kd_rounds;
        return Federation<PerAda<>, Adapters<>>{
            adapters(),
            with_public(),
            {.local = lively, .personal = lively, .fold = fold, .epochs = 2, .own_epochs = 2, .lambda = 0.5},
            usual};
    };
    Federation<NoKd, Adapters<>> beside{adapters(),
                                        with_public(),
                                        {.local = lively,
                                         .personal = lively,
                                         .epochs = 2,
                                         .own_epochs = 2,
                                         .lambda = 0.5},
                                        usual};
    CHECK(Agreement(perada_of(0), std::move(beside)).server);
    bool same_w = true, same_v = true;
    auto with_ditto = ditto(Weigh::uniform, 0.5);
    auto with_average = average(Weigh::uniform), by_samples = average(Weigh::samples);
    for (int r = 0; r < 4; ++r) {
        perada.round(sample::Everyone{});
        with_ditto.round(sample::Everyone{});
        with_average.round(sample::Everyone{});
        by_samples.round(sample::Everyone{});
        same_w = same_w && same_bits(perada.server().w, with_average.server().w) &&
                 same_bits(perada.server().w, with_ditto.server().w);
        same_v = same_v && same_personal(perada, with_ditto);
    }
    CHECK(same_w);
    CHECK(same_v);
    CHECK_FALSE(same_bits(perada.server().w, by_samples.server().w));
    auto loose = ditto(Weigh::uniform, 0.4);
    loose.run(4, sample::Everyone{});
    CHECK_FALSE(same_personal(perada, loose));
}

TEST_CASE("v begins at the first w received, or at v^0 of Algorithm 1: where the run began") {
    // Own steps of rate 0 leave v where it began; one client a round, so that most come when w has moved.
    const auto begun = [](OwnInit where) {
        Federation<NoKd, Adapters<>> run{
            adapters(), toy_data(), {.local = lively, .personal = {.rate = 0}, .own_init = where}, usual};
        run.run(8, sample::Uniform{1});
        std::size_t came = 0, at_start = 0;
        for (Id k = 0; k < run.size(); ++k) {
            const auto v = run.client(k).v;
            came += !v.empty();
            at_start += same_bits(v, run.setup().initial);
        }
        CHECK(came > 2);
        return std::pair{at_start, came};
    };
    const auto [given, all] = begun(OwnInit::initial);
    CHECK(given == all);
    const auto [received, as_many] = begun(OwnInit::received);
    CHECK(received == 1);  // whoever came first
    CHECK(as_many == all);
}

TEST_CASE("the phases of a visit see different batches, counted in epochs and in steps") {
    const auto apart = [](std::size_t steps) {  // v and theta differ in nothing but their batches
        Federation<NoKd, Adapters<>> run{
            adapters(), toy_data({.clients = 1}), {.steps = steps, .own_steps = steps, .lambda = 0}, usual};
        run.round(sample::Everyone{});
        return !same_bits(run.server().w, run.client(0).v);
    };
    CHECK(apart(0));
    CHECK(apart(4));
}

TEST_CASE("L-ADA-5 w does not depend on lambda, v and the personal phase; lambda = 0, everybody comes: v is Local's") {
    const auto run = [](double lambda, double own_rate, std::size_t own_epochs) {
        return Federation<PerAda<>, Adapters<>>{adapters(),
                                                with_public(),
                                                {.local = lively,
                                                 .personal = {.rate = own_rate},
                                                 .fold = lesson,
                                                 .own_epochs = own_epochs,
                                                 .lambda = lambda},
                                                usual};
    };
    const auto other = Agreement(run(0, 0.05, 1), run(1, 0.2, 3));
    CHECK(other.server);
    CHECK_FALSE(other.personal);
    const auto local = [](std::size_t epochs) {
        return Federation<Local<>, Adapters<>>{
            adapters(), with_public(), {.local = {.rate = 0.05}, .epochs = epochs}, usual};
    };
    CHECK(Agreement(run(0, 0.05, 2), local(2)).personal);
    const auto in_steps = [](auto method) {
        return Federation<decltype(method), Adapters<>>{adapters(), with_public(), method, usual};
    };
    CHECK(Agreement(in_steps(PerAda<>{.personal = {.rate = 0.05}, .fold = lesson, .own_steps = 5, .lambda = 0}),
                    in_steps(Local<>{.local = {.rate = 0.05}, .steps = 5})).personal);
    CHECK_FALSE(Agreement(run(0.1, 0.05, 2), local(2)).personal);
}

TEST_CASE("L-ADA-6 on all parameters: w is FedDF's with distillation, (w, v) Ditto's without") {
    const auto perada = [](std::size_t kd_rounds) {
        auto fold = lesson;
        fold.kd_rounds = kd_rounds;
        return Federation<PerAda<>, Net<>>{
            {}, with_public(), {.local = lively, .personal = lively, .fold = fold, .lambda = 0.5}, usual};
    };
    const auto feddf = [] {
        return Federation<FedDf<>, Net<>>{
            {}, with_public(), {.local = lively, .fold = lesson, .weights = Weigh::uniform}, usual};
    };
    const auto ditto = [] {
        return Federation<Ditto<>, Net<>>{
            {},
            with_public(),
            {.local = lively, .personal = lively, .lambda = 0.5, .weights = Weigh::uniform},
            usual};
    };
    CHECK(Agreement(perada(8), feddf()).server);
    CHECK_FALSE(Agreement(perada(0), feddf()).server);
    const auto off = Agreement(perada(0), ditto());
    CHECK(off.server);
    CHECK(off.personal);
    CHECK_FALSE(Agreement(perada(8), ditto()).server);
}

TEST_CASE("L-ADA-8 with distillation too, nothing but the adapters is kept, sent or moved") {
    const auto model = adapters();
    const Coordinates frozen = off(scope::Tunable{}, Net<>{});
    const auto before = gather(model.backbone(), frozen);
    Federation<PerAda<>, Adapters<>> run{model, with_public(), {.fold = lesson}, usual};
    run.over_the_wire();
    const auto report = run.round(sample::Everyone{});
    run.run(3, sample::Everyone{});
    const auto sent = static_cast<double>(4 * dimension(model));
    CHECK(report.formula_bytes_down == 6 * sent);
    CHECK(report.formula_bytes_up == 6 * (sent + 8));  // and a weight each
    CHECK(run.client(0).v.size() == dimension(model));
    CHECK(dimension(model) < Net<>::parameters);
    CHECK(same_bits(gather(model.assembled(run.server().w), frozen), before));
    CHECK_FALSE(same_bits(run.server().w, run.setup().initial));
    Federation<PerAda<>, Net<>> all{{}, with_public(), {.fold = lesson}, usual, model.backbone()};
    all.run(1, sample::Everyone{});
    CHECK_FALSE(same_bits(gather(all.server().w, frozen), before));
}

TEST_CASE("L-ADA-3 one participating client: distillation changes nothing") {
    const auto run = [](std::size_t kd_rounds, std::size_t count) {
        auto fold = lesson;
        fold.kd_rounds = kd_rounds;
        Federation<PerAda<>, Adapters<>> fed{adapters(), with_public(), {.fold = fold}, usual};
        fed.run(5, sample::Uniform{count});
        return fed.server().w;
    };
    CHECK(same_bits(run(8, 1), run(0, 1)));
    CHECK_FALSE(same_bits(run(8, 2), run(0, 2)));
}

TEST_CASE("L-BASE-11 FedDF: no steps is FedAvg; neither does one step move a model that is linear in its parameters") {
    const auto feddf = [](auto model, std::size_t kd_steps, Weigh weights) {
        return Federation<FedDf<>, decltype(model)>{
            model,
            with_public(),
            {.local = lively, .fold = {.kd_steps = kd_steps, .kd_batch = 50, .kd_rate = 0.01}, .weights = weights},
            usual};
    };
    const auto fedavg = [](auto model, Weigh weights) {
        return Federation<FedAvg<>, decltype(model)>{
            model, with_public(), {.local = lively, .weights = weights}, usual};
    };
    CHECK(Agreement(feddf(Net<>{}, 0, Weigh::samples), fedavg(Net<>{}, Weigh::samples)).server);
    CHECK_FALSE(Agreement(feddf(Net<>{}, 1, Weigh::samples), fedavg(Net<>{}, Weigh::samples)).server);

    // In double: the slope is of size 1e-17, and Adam's floor of 1e-8 makes 1e-11 of it at the rate 0.01.
    using Linear = nn::Mclr<Toy::width, Toy::classes, double>;
    const auto gap = [&](Weigh weights) {
        auto one = feddf(Linear{}, 1, weights);
        auto two = fedavg(Linear{}, weights);
        one.run(4, sample::Everyone{});
        two.run(4, sample::Everyone{});
        return support::distance(one.server().w, two.server().w);
    };
    CHECK(gap(Weigh::uniform) < 1e-9);
    CHECK(gap(Weigh::samples) > 1e-4);  // teachers count the same, the mean's rows do not
}

TEST_CASE("L-GEN-10 PerAda's arm: on all parameters, without distillation, w is FedAvg's, FedAlt's and FedSim's") {
    const auto equal = toy_data({.extra = 0});
    const Settings settings{.seed = 3, .batch = 5};
    Federation<NoKd, Net<>> perada{{}, equal, {}, settings};
    Federation<FedAvg<>, Net<>> average{{}, equal, {}, settings};
    Federation<FedAlt<scope::None>, Net<>> alternate{{}, equal, {}, settings};
    Federation<FedSim<scope::None>, Net<>> together{{}, equal, {}, settings};
    Federation<FedAvg<>, Net<>> other{{}, equal, {.epochs = 2}, settings};
    for (int r = 0; r < 4; ++r) {
        perada.round(sample::Everyone{});
        average.round(sample::Everyone{});
        alternate.round(sample::Everyone{});
        together.round(sample::Everyone{});
        other.round(sample::Everyone{});
        CHECK(same_bits(perada.server().w, average.server().w));
        CHECK(same_bits(perada.server().w, alternate.server().w));
        CHECK(same_bits(perada.server().w, together.server().w));
        CHECK_FALSE(same_bits(perada.server().w, other.server().w));
    }
}

TEST_CASE_TEMPLATE("L-ALT-11 FedAlt and FedSim with personal adapters start as the plain network", Me,
                   FedAlt<scope::Adapter>, FedSim<scope::Adapter>) {
    const nn::Dnn<Toy::width, 6, Toy::classes> plain;
    const auto w = initial_parameters(plain, Key{4});
    const auto data = toy_data();
    Federation<Me, Net<>> run{{}, data, {}, usual, nn::grafted(Net<>{}, Key{5}, plain.layout(), w)};
    const auto served = [&](Id k) {
        Workspace<float> workspace;
        return run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
            Vec<float> out(data[k].test.size() * Toy::classes);
            const auto predict = client.serve(std::move(received), run.rounds_done(), space);
            predict(Batch<float>(*data[k].examples, data[k].test), out);
            return out;
        });
    };
    const auto plainly = [&](Id k) {
        Vec<float> out(data[k].test.size() * Toy::classes);
        plain.predict(w, Batch<float>(*data[k].examples, data[k].test), out);
        return out;
    };
    for (Id k = 0; k < run.size(); ++k) CHECK(same_bits(served(k), plainly(k)));
    run.round(sample::Everyone{});
    CHECK_FALSE(same_bits(served(0), plainly(0)));
    CHECK(run.client(0).v.size() == 6 * 3 + 3 + 3 * 6 + 6);
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    const auto laws = [](const auto& method) {
        std::string all;
        for (const auto& sentence : conformance::method(method, adapters(), with_public())) all += sentence + "; ";
#ifdef _OPENMP
        const auto after = [&](std::size_t threads) {
            Federation<std::remove_cvref_t<decltype(method)>, Adapters<>> run{adapters(), with_public(), method, usual};
            run.run(3, sample::Uniform{3}, exec::OpenMp{threads});
            return run.fingerprint();
        };
        if (after(2) != after(1) || after(3) != after(1)) all += "threads change the state";
#endif
        return all;
    };
    CHECK(laws(PerAda<>{.fold = lesson}) == "");
    CHECK(laws(PerAda<>{.fold = lesson, .steps = 3, .own_steps = 2}) == "");
    CHECK(laws(FedDf<>{.fold = lesson}) == "");
    auto best = lesson;
    best.select = fold::Select::best_val_or_init;
    CHECK(laws(PerAda<>{.fold = best}) == "");
}

TEST_CASE("public data: given, or what the split sets aside; none is refused before round one") {
    CHECK_THROWS_WITH_AS((Federation<PerAda<>, Adapters<>>{adapters(), toy_data(), {.fold = lesson}, usual}),
                         "distillation needs public examples at the server: give the federation `aux`, or split the "
                         "data with a share for the server",
                         ConfigError);
    CHECK_THROWS_WITH_AS((Federation<Fallback<PerAda<>>, Adapters<>>{adapters(), toy_data(), {}, usual}),
                         doctest::Contains("distillation needs public examples"), ConfigError);
    CHECK_THROWS_WITH_AS((Federation<KnnPer<FedDf<>>, Net<>>{{}, toy_data(), {}, usual}),
                         doctest::Contains("distillation needs public examples"), ConfigError);
    const auto data = with_public();
    const auto elsewhere = toy_data({.clients = 1, .train = 30, .seed = 77});
    const auto run = [&](const ClientData& aux) {
        Federation<PerAda<>, Adapters<>> fed{adapters(), data, {.fold = lesson}, usual, {}, aux};
        fed.run(2, sample::Everyone{});
        return fed.server().w;
    };
    const ClientData aside{&data.pool().examples(), data.split().server};
    CHECK(same_bits(run({}), run(aside)));
    CHECK_FALSE(same_bits(run({}), run(elsewhere[0])));
    const auto narrow = data::Dataset::own(std::vector<float>(6), {0, 0}, 1);
    const std::vector<Index> both{0, 1};
    const ClientData too_narrow{&narrow.examples(), both};
    CHECK_THROWS_WITH_AS((Federation<FedDf<>, Net<>>{{}, data, {.fold = lesson}, usual, {}, too_narrow}),
                         "the server has examples of 3 numbers, the model reads 8", ConfigError);
    CHECK_THROWS_WITH_AS((Federation<NoKd, Adapters<>>{adapters(), toy_data(), {.lambda = -1}}),
                         doctest::Contains("lambda must be 0 or more"), ConfigError);
    CHECK_THROWS_WITH_AS(
        (Federation<NoKd, Adapters<>>{adapters(), toy_data(), {.lambda_scale = std::numeric_limits<double>::infinity()}}),
        doctest::Contains("lambda_scale must be 0 or more"), ConfigError);
}

}  // namespace perada_test
