// SPDX-License-Identifier: BSD-3-Clause
// The limit identities that FedAvg, FedProx, Local, FedAvg + FT and the server optimizers
// take part in. "Same" means every bit after every round, unless a tolerance and its reason stand beside the check.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/core/denormals.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/checkpoint.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>
#include <support/two_models.hpp>
#include <support/unfused.hpp>

namespace identities_test {

using namespace tessera;
using support::distance;
using support::restore;
using support::same_bits;
using support::saved;
using support::Toy;
using support::toy_data;

namespace {

template <class R>
using Net = nn::Dnn<Toy::width, 6, Toy::classes, R>;

constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};
const rule::Sgd lively{.rate = 0.1, .momentum = 0.5, .weight_decay = 0.01, .clip = 2};

// The server's vector is the same after every one of `rounds` rounds.
template <class A, class B, class S = sample::Everyone>
bool same_server(A& a, B& b, std::size_t rounds, const S& sampler = {}) {
    for (std::size_t r = 0; r < rounds; ++r) {
        a.round(sampler);
        b.round(sampler);
        if (!same_bits(a.server().w, b.server().w)) return false;
    }
    return true;
}

std::vector<Candidate> candidates_of(const data::FederatedDataset& data) {
    std::vector<Candidate> all;
    for (std::size_t k = 0; k < data.size(); ++k) all.push_back({static_cast<Id>(k), data[k].key});
    return all;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------ generic

TEST_CASE_TEMPLATE("L-GEN-1 one client: FedAvg is plain SGD", R, float, double) {
    const support::PortableKernels without_fma;
    const auto gap = [](auto model, Pass pass, std::size_t clients) {
        const double rate = 0.1;
        Federation<FedAvg<>, decltype(model)> fed{
            model, toy_data({.clients = clients}), {.local = {.rate = rate}, .epochs = 2}, usual};
        Vec<R> w = fed.setup().initial, g(w.size());
        bool same = true;
        for (std::size_t r = 0; r < 5; ++r) {
            fed.round(sample::Everyone{});
            const FlushDenormals flush;
            Workspace<R> workspace;
            const auto at = fed.setup().context(fed.data()[0], 0, r, workspace);
            for (const auto b : at.epochs(2, pass)) {
                at.gradient(w, b, g);
                for (std::size_t j = 0; j < w.size(); ++j) w[j] -= R(rate) * g[j];
            }
            same = same && same_bits(fed.server().w, w);
        }
        return same ? 0 : distance(fed.server().w, w);
    };
    const support::Unfused<Net<R>> plain;
    CHECK(gap(plain, Pass::shared, 1) == 0);
    CHECK(gap(plain, Pass::own, 1) > 1e-3);     // other batches
    CHECK(gap(plain, Pass::shared, 2) > 1e-3);  // another client in the mean
    // A network may take gradient and step in one pass, and then rounds in its own way.
    CHECK(gap(Net<R>{}, Pass::shared, 1) < (std::is_same_v<R, float> ? 1e-5 : 1e-12));
}

TEST_CASE("L-GEN-2 equal data and equal streams: FedAvg is Local") {
    // A federation refuses equal keys, so the ends are driven by hand.
    const auto run = [](bool equal_keys, bool equal_data) {
        const Setup<FedAvg<>, Net<float>> average({}, {.local = lively, .epochs = 2}, usual);
        const Setup<Local<>, Net<float>> local({}, {.local = lively, .epochs = 2, .pass = Pass::shared}, usual);
        const auto data = toy_data();
        Server<FedAvg<>, Net<float>> server(average, 5);
        std::vector<Client<FedAvg<>, Net<float>>> visitors;
        std::vector<Client<Local<>, Net<float>>> loners;
        for (Id k = 0; k < 5; ++k) {
            auto share = data[equal_data ? 0 : k];
            share.key = equal_keys ? 42 : k;
            visitors.emplace_back(average, k, share);
            loners.emplace_back(local, k, share);
        }
        Workspace<float> workspace;
        for (std::size_t r = 0; r < 5; ++r) {
            server.open_round({{0}, {1}, {2}, {3}, {4}});
            for (Id k = 0; k < 5; ++k) server.accept(k, visitors[k].visit(server.send(k), r, workspace));
            server.close_round();
            for (auto& loner : loners) {
                loner.visit({}, r, workspace);
                if (!same_bits(server.state().w, loner.state().w)) return false;
            }
        }
        return true;
    };
    CHECK(run(true, true));
    CHECK_FALSE(run(false, true));
    CHECK_FALSE(run(true, false));
}

TEST_CASE("L-GEN-3 one full-batch step: FedAvg is gradient descent on the pooled loss") {
    // Two orders of summing the same gradients: 1e-12 relative in double.
    const auto distance_to_pooled = [](Weigh weights, std::size_t epochs) {
        const auto data = toy_data();
        Federation<FedAvg<>, Net<double>> fed{
            {}, data, {.local = {.rate = 0.2}, .epochs = epochs, .weights = weights}, {.seed = 3, .batch = 0}};
        std::vector<Index> everything;
        for (const auto& share : data.split().clients)
            everything.insert(everything.end(), share.train.begin(), share.train.end());
        Vec<double> w = fed.setup().initial, g(w.size());
        for (int r = 0; r < 6; ++r) {
            fed.round(sample::Everyone{});
            fed.setup().model.gradient(w, Batch<double>(data.pool().examples(), everything), g);
            for (std::size_t j = 0; j < w.size(); ++j) w[j] -= 0.2 * g[j];
        }
        return distance(fed.server().w, w);
    };
    CHECK(distance_to_pooled(Weigh::samples, 1) < 1e-12);
    CHECK(distance_to_pooled(Weigh::uniform, 1) > 1e-6);  // sizes differ
    CHECK(distance_to_pooled(Weigh::samples, 2) > 1e-6);  // client drift
}

TEST_CASE_TEMPLATE("L-GEN-3 one full-batch step: FedProx is FedAvg", R, float, double) {
    const auto same = [](std::size_t epochs) {
        const Settings settings{.seed = 3, .batch = 0};
        Federation<FedAvg<>, Net<R>> average{{}, toy_data(), {.epochs = epochs}, settings};
        Federation<FedProx<>, Net<R>> prox{{}, toy_data(), {.epochs = epochs, .mu = 3}, settings};
        return same_server(average, prox, 5);
    };
    CHECK(same(1));
    CHECK_FALSE(same(2));  // the second step is pulled
}

namespace {
// Largest distance that anything moved in three rounds.
template <class R, class Me>
double moved(Me method, Settings settings = usual) {
    Federation<Me, Net<R>> fed{{}, toy_data(), std::move(method), settings};
    fed.run(3, sample::Uniform{4});
    const auto& initial = fed.setup().initial;
    double most = 0;
    if constexpr (requires { fed.server().w; }) {
        most = distance(fed.server().w, initial);
        if (std::is_same_v<R, float> && most == 0) CHECK(same_bits(fed.server().w, initial));
    }
    for (Id k = 0; k < fed.size(); ++k) {
        const auto state = fed.client(k);
        if constexpr (requires { state.w; })
            if (!state.w.empty()) most = std::max(most, distance(state.w, initial));
        if constexpr (requires { state.v; })
            if (!state.v.empty()) most = std::max(most, distance(state.v, initial));
    }
    return most;
}
}  // namespace

TEST_CASE("L-GEN-4 rate 0: nothing changes anywhere") {
    const rule::Sgd still{.rate = 0, .momentum = 0.9, .weight_decay = 0.1, .clip = 1};
    const rule::Sgd moving{.rate = 0.01};
    const auto both = [&](auto method) {
        method.local = still;
        // Bitwise in float: sums are kept in double, so the mean of equal floats is that float.
        CHECK(moved<float>(method) == 0);
        method.local = moving;
        CHECK(moved<float>(method) > 1e-4);
    };
    both(FedAvg<>{});
    both(FedProx<>{});
    both(Local<>{});
    both(support::TwoModels<>{});
    both(FedAvg<rule::Sgd, fold::ServerMomentum<>>{});
    both(FedAvg<rule::Sgd, fold::Relax<>>{.fold = {.beta = 2}});

    // In double the weighted mean of equal numbers may round: 1e-12 relative.
    CHECK(moved<double>(FedAvg<>{.local = still}) < 1e-12);

    // An adaptive server divides by |D|, so in double it would blow the mean's rounding up; in float D is 0.
    CHECK(moved<float>(FedAvg<rule::Sgd, fold::ServerAdam<>>{.local = still}) == 0);
    CHECK(moved<float>(FedAvg<rule::Sgd, fold::ServerYogi<>>{.local = still}) == 0);
    CHECK(moved<float>(FedAvg<rule::Sgd, fold::ServerAdagrad<>>{.local = still}) == 0);
}

TEST_CASE("L-GEN-5 relabelling clients permutes personal states and leaves the server") {
    const auto data = toy_data({.clients = 7});
    const std::vector<std::size_t> to{4, 2, 6, 0, 1, 5, 3};
    const auto permuted = support::relabelled(data, to);
    auto keys_stayed = permuted.split();  // the control: data moves, random keys do not
    for (std::size_t k = 0; k < to.size(); ++k) keys_stayed.clients[k].key = data.split().clients[k].key;
    const data::FederatedDataset other{data.pool(), keys_stayed};

    const auto check = [&](auto method, const auto& sampler) {
        using Fed = Federation<decltype(method), Net<float>>;
        Fed a{{}, data, method, usual}, b{{}, permuted, method, usual}, c{{}, other, method, usual};
        for (int r = 0; r < 6; ++r) {
            a.round(sampler);
            b.round(sampler);
            c.round(sampler);
            if constexpr (requires { a.server().w; }) CHECK(same_bits(a.server().w, b.server().w));
            for (Id k = 0; k < 7; ++k) {
                const auto here = a.client(k), there = b.client(static_cast<Id>(to[k]));
                if constexpr (requires { here.w; }) CHECK(same_bits(here.w, there.w));
                if constexpr (requires { here.v; }) CHECK(same_bits(here.v, there.v));
            }
        }
        if constexpr (requires { a.server().w; }) CHECK_FALSE(same_bits(a.server().w, c.server().w));
        if constexpr (requires { a.client(0).w; }) CHECK_FALSE(same_bits(a.client(0).w, a.client(4).w));
        CHECK(a.fingerprint() != c.fingerprint());
    };
    check(FedAvg<>{.local = lively}, sample::Uniform{4});
    check(FedAvg<rule::Sgd, fold::ServerAdam<>>{}, sample::Uniform{4});
    check(Local<>{.local = lively}, sample::Uniform{4});
    check(support::TwoModels<>{.local = lively}, sample::Uniform{4});
    check(support::TwoModels<>{}, sample::Uniform{.count = 3, .everyone_trains = true});
}

namespace {
// FedAvg whose weights are n_k times something.
struct Scaled {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};
    double factor = 1;
    bool by_client = false;  // the control: not a common factor

    auto visit(const auto& at, auto w, Nothing&) const {
        descend(at, w, at.epochs(1), local);
        auto upload = up(at, std::move(w));
        upload.weight *= factor * (by_client ? 1.0 + at.id : 1.0);
        return upload;
    }
};
}  // namespace

TEST_CASE_TEMPLATE("L-GEN-6 a common factor of the weights drops out", R, float, double) {
    const auto same = [](double factor, bool by_client) {
        Federation<FedAvg<>, Net<R>> plain{{}, toy_data(), {}, usual};
        Federation<Scaled, Net<R>> scaled{{}, toy_data(), {.factor = factor, .by_client = by_client}, usual};
        return same_server(plain, scaled, 4, sample::Uniform{5});
    };
    for (const double factor : {1.0, 3.0, 1000.0, 0x1p-40}) CHECK(same(factor, false));  // n_k * factor is exact
    CHECK_FALSE(same(1, true));
}

TEST_CASE("L-GEN-6 every example held three times changes nothing") {
    // Other sums of the same numbers: 1e-12 relative in double.
    const auto end = [](std::size_t times, std::size_t times_of_first) {
        std::vector<std::vector<support::Parabola>> clients{{{1, 0}, {2, 1}}, {{3, 4}}, {{0.5, -1}, {1, 2}, {2, 3}}};
        for (std::size_t k = 0; k < clients.size(); ++k) {
            const auto once = clients[k];
            for (std::size_t t = 1; t < (k == 0 ? times_of_first : times); ++t)
                clients[k].insert(clients[k].end(), once.begin(), once.end());
        }
        Federation<FedAvg<>, support::Quadratic<>> fed{
            {}, support::quadratic_data(clients), {.epochs = 3}, {.batch = 0}, Vec<double>{7}};
        fed.run(10, sample::Everyone{});
        return fed.server().w;
    };
    CHECK(distance(end(3, 3), end(1, 1)) < 1e-12);
    CHECK(distance(end(1, 3), end(1, 1)) > 1e-3);
}

TEST_CASE_TEMPLATE("L-GEN-6 equal sizes: samples, uniform and batches are the same", R, float, double) {
    const auto same = [](Weigh a, Weigh b, std::size_t extra) {
        const auto data = toy_data({.extra = extra});
        Federation<FedAvg<>, Net<R>> first{{}, data, {.weights = a}, usual};
        Federation<FedAvg<>, Net<R>> second{{}, data, {.weights = b}, usual};
        return same_server(first, second, 4, sample::Uniform{5});
    };
    CHECK(same(Weigh::samples, Weigh::uniform, 0));
    CHECK(same(Weigh::samples, Weigh::batches, 0));
    CHECK_FALSE(same(Weigh::samples, Weigh::uniform, 5));
    CHECK_FALSE(same(Weigh::samples, Weigh::batches, 4));
    CHECK_FALSE(same(Weigh::uniform, Weigh::batches, 5));
}

TEST_CASE("L-GEN-7 the personal state of a client that is not visited keeps every bit") {
    const auto check = [](auto method, auto personal) {
        const auto data = toy_data();
        Federation<decltype(method), Net<float>> fed{{}, data, method, usual};
        const sample::Uniform sampler{2};
        std::size_t visits = 0, others = 0;
        for (std::size_t r = 0; r < 8; ++r) {
            std::vector<Vec<float>> before;
            for (Id k = 0; k < fed.size(); ++k) before.push_back(personal(fed.client(k)));
            std::vector<bool> visited(fed.size());
            for (const auto& seat : sampler.plan(Key{usual.seed}, r, candidates_of(data))) visited[seat.client] = true;
            fed.round(sampler);
            for (Id k = 0; k < fed.size(); ++k) {
                CHECK(same_bits(before[k], personal(fed.client(k))) == !visited[k]);
                ++(visited[k] ? visits : others);
            }
        }
        CHECK(visits == 16);
        CHECK(others == 32);
    };
    check(Local<>{}, [](const auto& state) { return state.w; });
    check(support::TwoModels<>{}, [](const auto& state) { return state.v; });
}

TEST_CASE("L-GEN-8 translation equivariance on quadratics") {
    // w and w + s round differently; after 30 contracting rounds the difference stays below 1e-12.
    const auto gap = [](auto method) {
        constexpr double s = 2.75;
        const auto run = [&](double shift) {
            std::vector<std::vector<support::Parabola>> clients{
                {{1, 0}, {2, 1}, {1, 3}}, {{3, 4}, {1, 2}}, {{0.5, -1}}};
            for (auto& examples : clients)
                for (auto& example : examples) example.c += shift;
            Federation<decltype(method), support::Quadratic<>> fed{{},
                                                                   support::quadratic_data(clients),
                                                                   method,
                                                                   {.seed = 9, .batch = 1, .rounds = 30},
                                                                   Vec<double>{5 + shift}};
            Vec<double> path;
            for (int r = 0; r < 30; ++r) {
                fed.round(sample::Uniform{2});
                if constexpr (requires { fed.server().w; }) path.push_back(fed.server().w[0] - shift);
                for (Id k = 0; k < 3; ++k) {
                    const auto state = fed.client(k);
                    if constexpr (requires { state.w; }) path.push_back(state.w.empty() ? 0 : state.w[0] - shift);
                    if constexpr (requires { state.v; }) path.push_back(state.v.empty() ? 0 : state.v[0] - shift);
                }
            }
            return path;
        };
        const auto here = run(0), there = run(s);
        CHECK(distance(here, Vec<double>(here.size(), here.front())) > 1e-3);  // it does move
        return distance(there, here);
    };
    const rule::Sgd momentum{.rate = 0.05, .momentum = 0.5};
    CHECK(gap(FedAvg<>{.epochs = 2}) < 1e-12);
    CHECK(gap(FedAvg<>{.local = momentum}) < 1e-12);
    CHECK(gap(FedAvg<>{.local = {.clip = 0.7}}) < 1e-12);
    CHECK(gap(FedProx<>{.epochs = 2, .mu = 0.7}) < 1e-12);
    CHECK(gap(Local<>{.local = momentum}) < 1e-12);
    CHECK(gap(support::TwoModels<>{.local = momentum}) < 1e-12);
    CHECK(gap(FedAvg<rule::Sgd, fold::ServerMomentum<>>{.fold = {.server_rate = 0.3}}) < 1e-12);
    CHECK(gap(FedAvg<rule::Sgd, fold::ServerAdam<>>{}) < 1e-12);
    CHECK(gap(FedAvg<rule::Sgd, fold::Relax<>>{.fold = {.beta = 0.5}}) < 1e-12);
    CHECK(gap(FedAvg<>{.local = {.weight_decay = 0.1}}) > 1e-3);  // decay pulls toward 0, which does not shift
}

// ---------------------------------------------------------------------------------------------------------- checkpoint

namespace {
// Rounds 0..6 in one go, against 0..2, a checkpoint changed by `edit`, and 3..6 elsewhere.
template <class Me>
bool resumes(const Me& method, auto edit) {
    using Fed = Federation<Me, Net<float>>;
    const sample::Uniform sampler{4};
    Fed straight{{}, toy_data(), method, usual}, first{{}, toy_data(), method, usual},
        second{{}, toy_data(), method, usual};
    straight.run(7, sampler);
    first.run(3, sampler);
    Bytes bytes = saved(first);
    edit(bytes);
    second.run(1, sampler);  // whatever it holds, restore replaces
    restore(second, bytes);
    CHECK(same_bits(saved(second), bytes));
    second.run(4, sampler);
    return second.fingerprint() == straight.fingerprint() && same_bits(saved(second), saved(straight));
}
constexpr auto as_is = [](Bytes&) {};

// Rewrites the server's part of a checkpoint.
template <class Me>
auto editing_server(auto change) {
    return [change](Bytes& bytes) {
        Reader in(bytes);
        std::uint64_t round = 0;
        server_t<Me, float> server;
        get(in, round);
        get(in, server);
        change(round, server);
        Bytes out;
        put(out, round);
        put(out, server);
        put_raw(out, in.rest().data(), in.rest().size());
        bytes = out;
    };
}
}  // namespace

TEST_CASE("L-GEN-9 T1 rounds, a checkpoint and T2 rounds are T1 + T2 rounds") {
    using Momentum = FedAvg<rule::Sgd, fold::ServerMomentum<>>;
    using Adam = FedAvg<rule::Sgd, fold::ServerAdam<>>;
    CHECK(resumes(FedAvg<>{.local = lively}, as_is));
    CHECK(resumes(FedAvg<>{.steps = 3}, as_is));
    CHECK(resumes(FedProx<>{.steps = 3}, as_is));
    CHECK(resumes(Local<>{.local = lively}, as_is));
    CHECK(resumes(support::TwoModels<>{}, as_is));
    CHECK(resumes(Momentum{}, as_is));
    CHECK(resumes(Adam{}, as_is));
    CHECK(resumes(Adam{.fold = {.b2 = 0.999, .tau = 1e-8, .bias_corrected = true}}, as_is));
    CHECK(resumes(FedAvg<rule::Sgd, fold::Relax<fold::ServerYogi<>>>{.fold = {.beta = 0.5}}, as_is));

    SUBCASE("what is left out is missed") {
        // The client part: how many states, then each client's number and state.
        CHECK_FALSE(resumes(FedAvg<>{.steps = 3}, [](Bytes& bytes) {  // places in the streams
            Reader in(bytes);
            std::uint64_t round = 0, kept = 0;
            server_t<FedAvg<>, float> server;
            get(in, round);
            get(in, server);
            const std::size_t begin = bytes.size() - in.left();
            get(in, kept);
            CHECK(in.left() == kept * (sizeof(Id) + sizeof(Cursor)));
            for (std::uint64_t i = 0; i < kept; ++i)
                std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin + 8 + i * 20 + 4), 16, std::byte{0});
        }));
        CHECK_FALSE(resumes(Momentum{}, editing_server<Momentum>([](auto&, auto& s) { s.fold.m.clear(); })));
        CHECK_FALSE(resumes(Adam{}, editing_server<Adam>([](auto&, auto& s) { s.fold.m.clear(); })));
        CHECK_FALSE(resumes(Adam{}, editing_server<Adam>([](auto&, auto& s) { s.fold.v.clear(); })));
        const Adam corrected{.fold = {.b2 = 0.999, .tau = 1e-8, .bias_corrected = true}};
        CHECK_FALSE(resumes(corrected, editing_server<Adam>([](auto&, auto& s) { s.fold.steps = 0; })));
        CHECK_FALSE(resumes(FedAvg<>{}, editing_server<FedAvg<>>([](auto& round, auto&) { round = 2; })));
        CHECK_FALSE(resumes(support::TwoModels<>{}, [](Bytes& bytes) {  // personal states
            Reader in(bytes);
            std::uint64_t round = 0;
            server_t<support::TwoModels<>, float> server;
            get(in, round);
            get(in, server);
            bytes.resize(bytes.size() - in.left());
            put(bytes, std::uint64_t{0});
        }));
    }
    SUBCASE("bytes that end early are refused and change nothing") {
        Federation<support::TwoModels<>, Net<float>> fed{{}, toy_data(), {}, usual};
        fed.run(2, sample::Uniform{3});
        const auto bytes = saved(fed);
        fed.run(1, sample::Uniform{3});
        const auto before = fed.fingerprint();
        for (std::size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 500) {
            Reader in{std::span<const std::byte>(bytes).first(cut)};
            CHECK_THROWS_AS(fed.restore(in), WireError);
        }
        CHECK(fed.fingerprint() == before);
        CHECK(fed.rounds_done() == 3);
    }
}

// ----------------------------------------------------------------------------------------------------------- baselines

TEST_CASE_TEMPLATE("L-BASE-1 FedProx with mu = 0 is FedAvg", R, float, double) {
    const auto same = [](double mu) {
        Federation<FedAvg<>, Net<R>> average{{}, toy_data(), {.local = lively, .epochs = 2}, usual};
        Federation<FedProx<>, Net<R>> prox{{}, toy_data(), {.local = lively, .epochs = 2, .mu = mu}, usual};
        return same_server(average, prox, 5, sample::Uniform{4});
    };
    CHECK(same(0));
    CHECK_FALSE(same(1e-3));
}

TEST_CASE_TEMPLATE("L-BASE-4 FedAvg + FT with no tuning predicts as FedAvg", R, float, double) {
    const auto data = toy_data({.unseen = 2});
    const auto predictions = [&](const auto& fed) {
        Vec<R> all;
        Workspace<R> workspace;
        const auto take = [&](const ClientData& share) {
            return [&all, &share, round = fed.rounds_done()](const auto& client, auto received, auto& space) {
                const auto predict = client.serve(std::move(received), round, space);
                Vec<R> out(share.test.size() * Toy::classes);
                predict(Batch<R>(*share.examples, share.test), out);
                all.insert(all.end(), out.begin(), out.end());
            };
        };
        for (Id k = 0; k < fed.size(); ++k) fed.at_client(k, workspace, take(data[k]));
        for (Id k = 0; k < data.unseen(); ++k) fed.at_unseen(k, workspace, take(data.unseen(k)));
        return all;
    };
    Federation<FedAvg<>, Net<R>> average{{}, data, {.local = lively}, usual};
    Federation<FedAvgFt<>, Net<R>> none{{}, data, {.local = lively, .tune_epochs = 0}, usual};
    Federation<FedAvgFt<>, Net<R>> tuned{{}, data, {.local = lively, .tune_epochs = 1}, usual};
    CHECK(predictions(average).size() == 8 * 6 * Toy::classes);
    for (int r = 0; r < 4; ++r) {
        average.round(sample::Uniform{4});
        none.round(sample::Uniform{4});
        tuned.round(sample::Uniform{4});
        CHECK(same_bits(average.server().w, none.server().w));
        CHECK(same_bits(average.server().w, tuned.server().w));  // tuning never reaches the server
        CHECK(same_bits(predictions(average), predictions(none)));
        CHECK_FALSE(same_bits(predictions(average), predictions(tuned)));
    }
}

TEST_CASE_TEMPLATE("L-BASE-14 FedAvgM with beta = 0 and rate 1 is FedAvg", R, float, double) {
    const auto same = [](fold::ServerMomentum<> fold) {
        Federation<FedAvg<>, Net<R>> plain{{}, toy_data(), {}, usual};
        Federation<FedAvg<rule::Sgd, fold::ServerMomentum<>>, Net<R>> momentum{{}, toy_data(), {.fold = fold}, usual};
        return same_server(plain, momentum, 6, sample::Uniform{4});
    };
    CHECK(same({.server_rate = 1, .server_momentum = 0}));
    CHECK(same({.server_rate = 1, .server_momentum = 0, .nesterov = true}));
    CHECK_FALSE(same({.server_rate = 1, .server_momentum = 0.1}));
    CHECK_FALSE(same({.server_rate = 0.9, .server_momentum = 0}));
}

TEST_CASE_TEMPLATE("L-BASE-14 the first steps of Adam and Yogi from v = 0 coincide", R, float, double) {
    const auto same_rounds = [](double v0) {
        Federation<FedAvg<rule::Sgd, fold::ServerAdam<>>, Net<R>> adam{{}, toy_data(), {.fold = {.v0 = v0}}, usual};
        Federation<FedAvg<rule::Sgd, fold::ServerYogi<>>, Net<R>> yogi{{}, toy_data(), {.fold = {.v0 = v0}}, usual};
        std::size_t rounds = 0;
        while (rounds < 3 && same_server(adam, yogi, 1)) ++rounds;
        return rounds;
    };
    CHECK(same_rounds(0) == 1);
    CHECK(same_rounds(1e-2) == 0);
}

TEST_CASE("L-BASE-14 a zero pseudo-gradient moves nothing when m = 0") {
    const auto check = [](auto fold) {
        const support::Quadratic<double, 3> model{};
        const Context<support::Quadratic<double, 3>> context{.model = &model};
        const Vec<double> start{1, -2, 1e-3};
        auto w = start;
        memory_t<decltype(fold), double> memory{};
        const Row<double> still{.x = start};
        for (int round = 0; round < 3; ++round) {
            fold_rows(fold, context, w, Rows<double>(&still, 1), memory);
            CHECK(same_bits(w, start));
        }
        const Vec<double> elsewhere{2, -2, 0};
        const Row<double> away{.x = elsewhere};
        fold_rows(fold, context, w, Rows<double>(&away, 1), memory);
        const auto moved = w;
        const Row<double> here{.x = moved};
        fold_rows(fold, context, w, Rows<double>(&here, 1), memory);
        CHECK_FALSE(same_bits(w, moved));  // now m is not 0
    };
    check(fold::ServerMomentum<>{});
    check(fold::ServerAdam<>{});
    check(fold::ServerYogi<>{});
    check(fold::ServerAdagrad<>{.b1 = 0.9});
    check(fold::ServerAdam<>{.v0 = 0});
}

}  // namespace identities_test
