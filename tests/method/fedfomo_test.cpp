// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/fedfomo.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/method/local.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/complaint.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>

namespace fedfomo_test {

using namespace tessera;
using support::complaint;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
using Line = support::Quadratic<>;
constexpr Settings usual{.seed = 3, .batch = 5};

// Clients with five times the example (w - c)^2 / 2: one of them is held out, and it does not matter which.
data::FederatedDataset around(const std::vector<double>& centres) {
    std::vector<std::vector<support::Parabola>> clients;
    for (const double c : centres) clients.emplace_back(5, support::Parabola{1, c});
    return support::quadratic_data(clients);
}
Federation<FedFomo<>, Line> federation(const std::vector<double>& centres, const FedFomo<>& method) {
    return {{}, around(centres), method, {.seed = 3, .batch = 0}, Vec<double>{1}};
}

// The same clients with what FedFomo trains on as all their data.
data::FederatedDataset without_held_out(const data::FederatedDataset& data, const Settings& settings, double share) {
    const Setup<Local<>, Net> setup({}, {}, settings);
    Workspace<float> workspace;
    auto split = data.split();
    for (Id k = 0; k < data.size(); ++k) {
        const auto at = setup.context(data[k], k, 0, workspace);
        const detail::HoldOut parts(at, share);
        const auto rest = parts.rest(at).ids;
        split.clients[k].train.assign(rest.begin(), rest.end());
    }
    return {data.pool(), std::move(split)};
}
template <class A, class B>
bool same_models(const A& a, const B& b) {
    bool same = true;
    for (Id k = 0; k < a.size(); ++k) same = same && same_bits(a.client(k).w, b.client(k).w);
    return same;
}

// A parabola whose answers are no numbers beyond a point.
struct Broken : Line {
    double beyond = 1.25;
    void predict(In<double> w, const Batch<double>& batch, Out<double> out) const {
        for (std::size_t i = 0; i < batch.size(); ++i)
            out[i] = w[0] > beyond ? std::numeric_limits<double>::quiet_NaN() : w[0];
    }
};

// Lots by a client's number: what a method must not do.
struct ByNumber {
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::no_global;
    FedFomo<> inner{};
    template <class R> using Server = FedFomo<>::Server<R>;
    template <class R> using Client = FedFomo<>::Client<R>;

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>& context, const Vec<R>& w, std::size_t n) const {
        return inner.open(context, w, n);
    }
    auto send(const auto& server, Id k) const { return inner.send(server, k); }
    template <class M, class R = real<M>>
    FedFomo<>::Upload<R> visit(const Context<M>& at, FedFomo<>::Down<R> peers, Client<R>& me) const {
        auto upload = inner.visit(at, std::move(peers), me);
        upload.name = at.id;
        return upload;
    }
    void merge(const auto& context, auto& server, auto ups) const { inner.merge(context, server, ups); }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, FedFomo<>::Down<R> peers, Client<R> me) const {
        return inner.serve(at, std::move(peers), std::move(me));
    }
};
}  // namespace

TEST_CASE("two rounds by hand, around 0, 4, 2 and 3 from 1 at rate 0.1") {
    auto run = federation({0, 4, 2, 3}, {.local = {.rate = 0.1}});
    run.round(sample::Everyone{});  // alone: 0.9, 1.3, 1.1, 1.2
    CHECK(std::fabs(run.client(1).w[0] - 1.3) < 1e-15);
    run.round(sample::Everyone{});
    const auto& p = run.server().all;
    // Client 2 loses 0.405 on its own, 0.605, 0.245 and 0.32 with the others' models.
    CHECK(std::fabs(p[2].affinity[0] + 1) < 1e-12);
    CHECK(std::fabs(p[2].affinity[1] - 0.8) < 1e-12);
    CHECK(p[2].affinity[2] == 0);
    CHECK(std::fabs(p[2].affinity[3] - 0.85) < 1e-12);
    const double mixed = 1.1 + (0.8 * 0.2 + 0.85 * 0.1) / 1.65;
    CHECK(std::fabs(run.client(2).w[0] - (mixed + 0.1 * (2 - mixed))) < 1e-12);
    CHECK(p[2].w[0] == run.client(2).w[0]);
    // Nobody helps 0 and 4: they keep their own.
    CHECK(std::fabs(p[0].affinity[1] + 1.1) < 1e-12);
    CHECK(std::fabs(run.client(0).w[0] - 0.81) < 1e-15);
    CHECK(std::fabs(run.client(1).w[0] - 1.57) < 1e-15);
}

TEST_CASE("P adds up what clients say, and the top of a row is what its client gets") {
    auto run = federation({0, 4, 2, 3}, {.local = {.rate = 0.1}, .others = 1});
    auto server = run.server();
    CHECK(run.setup().method.send(server, 2).empty());  // nobody came yet
    using Upload = FedFomo<>::Upload<double>;
    const auto say = [&](Id from, Vec<detail::Affinity> what) {
        const std::vector<Upload> ups{{{double(from)}, std::move(what), from, 100 + from}};
        server.take(std::span<const Upload>(ups), Key{from});
    };
    for (Id k = 0; k < 4; ++k) say(k, {});
    const auto top = [&](Id k, std::size_t others) {
        std::vector<Id> ids;
        for (const auto& peer : FedFomo<>{.others = others}.send(server, k)) {
            CHECK(peer.w[0] == peer.id);
            ids.push_back(peer.id);
        }
        return ids;
    };
    say(2, {{0, -1}, {1, 0.8}, {3, 0.85}});
    CHECK(top(2, 1) == std::vector<Id>{3});
    CHECK(top(2, 2) == std::vector<Id>{3, 1});
    CHECK(top(2, 9) == std::vector<Id>{3, 1, 0});
    say(2, {{1, 0.1}, {0, 3}});
    CHECK(top(2, 3) == std::vector<Id>{0, 1, 3});  // 2, 0.9 and 0.85
    say(2, {{0, -9}});
    CHECK(top(2, 3) == std::vector<Id>{1, 3, 0});
    CHECK(top(0, 0).empty());
}

TEST_CASE("equal affinities are drawn anew every round, and explore draws lists whatever P says") {
    FedFomo<>::Server<double> server{Vec<detail::Known<double>>(5), 1, 0};
    using Upload = FedFomo<>::Upload<double>;
    for (Id k = 0; k < 5; ++k) {
        const std::vector<Upload> ups{{{double(k)}, {{(k + 1) % 5, 1.0}}, k, 100 + k}};
        server.take(std::span<const Upload>(ups), Key{1});
    }
    // How often client 0 gets each of the others in 400 rounds.
    const auto counts = [&](const FedFomo<>& method, double affinity) {
        server.all[0].affinity[1] = affinity;
        std::vector<int> seen(5);
        for (server.draw = 0; server.draw < 400; ++server.draw) seen[method.send(server, 0)[0].id]++;
        return seen;
    };
    const auto chosen = counts({.others = 1, .explore = 0}, 1), drawn = counts({.others = 1, .explore = 1}, 1),
               half = counts({.others = 1, .explore = 0.5}, 1), tied = counts({.others = 1}, 0);
    CHECK(chosen == std::vector<int>{0, 400, 0, 0, 0});
    for (const auto& even : {drawn, tied}) {
        CHECK(even[0] == 0);
        for (std::size_t j = 1; j < 5; ++j) CHECK(std::abs(even[j] - 100) < 35);  // 4 deviations of 8.7
    }
    CHECK(std::abs(half[1] - 250) < 40);  // 1/2 + 1/2 * 1/4, 4 deviations of 9.7

    auto run = federation({0, 4, 2}, {}), other = federation({0, 4, 2}, {});
    run.round(sample::Everyone{}), other.round(sample::Everyone{});
    const auto first = run.server().draw;
    CHECK(other.server().draw == first);
    run.round(sample::Everyone{});
    CHECK(run.server().draw != first);
}

TEST_CASE("L-BASE-13 identical models: all affinities are 0, and it is Local, bit for bit") {
    // A federation refuses equal keys, so the ends are driven by hand.
    const auto run = [](bool equal_keys) {
        const Setup<FedFomo<>, Net> fomo({}, {.epochs = 2}, usual);
        const Setup<Local<>, Net> local({}, {.epochs = 2}, usual);
        const auto data = toy_data();
        Server<FedFomo<>, Net> server(fomo, 4);
        std::vector<Client<FedFomo<>, Net>> visitors;
        for (Id k = 0; k < 4; ++k) {
            auto share = data[0];
            share.key = equal_keys ? 42 : k;
            visitors.emplace_back(fomo, k, share);
        }
        auto share = data[0];
        share.key = 42;
        Workspace<float> workspace;
        const auto at = fomo.context(share, 0, 0, workspace);
        const detail::HoldOut parts(at, 0.2);
        share.train = parts.rest(at).ids;
        Client<Local<>, Net> loner(local, 0, share);
        bool same = true;
        for (std::size_t r = 0; r < 5; ++r) {
            server.open_round({{0}, {1}, {2}, {3}});
            for (Id k = 0; k < 4; ++k) {
                auto upload = visitors[k].visit(server.send(k), r, workspace);
                same = same && upload.affinities.size() == (r == 0 ? 0u : 3u);
                for (const auto& a : upload.affinities) same = same && a.value == 0;
                server.accept(k, std::move(upload));
            }
            server.close_round();
            loner.visit({}, r, workspace);
            for (const auto& visitor : visitors) same = same && same_bits(visitor.state().w, loner.state().w);
        }
        return same;
    };
    CHECK(run(true));
    CHECK_FALSE(run(false));
}

TEST_CASE("with nobody to hear of it is Local on what is not held out, bit for bit") {
    const auto data = toy_data();
    Federation<FedFomo<>, Net> alone{{}, data, {.others = 0}, usual}, among{{}, data, {}, usual},
        stream{{}, data, {.steps = 4, .others = 0}, usual};
    Federation<Local<>, Net> local{{}, without_held_out(data, usual, 0.2), {}, usual},
        local_stream{{}, without_held_out(data, usual, 0.2), {.steps = 4}, usual}, all{{}, data, {}, usual};
    for (int r = 0; r < 4; ++r) {
        alone.round(sample::Uniform{4}), among.round(sample::Uniform{4}), stream.round(sample::Uniform{4});
        local.round(sample::Uniform{4}), local_stream.round(sample::Uniform{4}), all.round(sample::Uniform{4});
    }
    CHECK(same_models(alone, local));
    CHECK(same_models(stream, local_stream));
    CHECK_FALSE(same_models(among, local));
    CHECK_FALSE(same_models(alone, all));
}

TEST_CASE("a client of fewer than five examples holds nothing out: it trains on all of them and hears nobody") {
    const auto data = toy_data({.train = 4, .extra = 0});
    Federation<FedFomo<>, Net> run{{}, data, {}, usual}, half{{}, data, {.held_out = 0.5}, usual};
    Federation<Local<>, Net> local{{}, without_held_out(data, usual, 0.2), {}, usual};
    CHECK(without_held_out(data, usual, 0.2)[0].train.size() == 4);
    for (int r = 0; r < 3; ++r)
        run.round(sample::Everyone{}), half.round(sample::Everyone{}), local.round(sample::Everyone{});
    CHECK(same_models(run, local));
    CHECK_FALSE(same_models(half, local));
    for (const auto& one : run.server().all) CHECK(one.affinity == Vec<double>(6));
}

TEST_CASE("a loss that is no number tells nothing, of whoever's model") {
    const auto data = around({2, 4, 3});
    const Setup<FedFomo<>, Broken> setup({}, {.local = {.rate = 0}}, {.batch = 0}, Vec<double>{1.1});
    Workspace<double> workspace;
    const auto visited = [&](double own, const FedFomo<>::Down<double>& peers) {
        Client<FedFomo<>, Broken> client(setup, 0, data[0], {.w = {own}, .cursor = {}});
        auto upload = client.visit(peers, 1, workspace);
        CHECK(client.sound());
        return upload;
    };
    const auto one_broken = visited(1.1, {{1, {1.3}}, {2, {1.2}}});
    CHECK(one_broken.affinities[0].value == 0);
    CHECK(std::fabs(one_broken.affinities[1].value - 0.85) < 1e-12);
    CHECK(std::fabs(one_broken.w[0] - 1.2) < 1e-15);
    const auto own_broken = visited(1.4, {{1, {1.3}}, {2, {1.2}}});
    for (const auto& a : own_broken.affinities) CHECK(a.value == 0);
    CHECK(own_broken.w[0] == 1.4);
    CHECK(std::fabs(visited(1.1, {{1, {1.24}}}).w[0] - 1.24) < 1e-15);
}

TEST_CASE("clients alike think better of each other than of the rest") {
    auto run = federation({0, 0.5, 10, 10.5}, {.local = {.rate = 0.1}});
    run.run(20, sample::Everyone{});
    for (Id k = 0; k < 4; ++k)
        for (Id j = 0; j < 4; ++j)
            if (j / 2 != k / 2) CHECK(run.server().all[k].affinity[k ^ 1u] > run.server().all[k].affinity[j]);
}

TEST_CASE("who never came is served the start of a first visit, its own model who did") {
    const auto data = around({2, 4, 3});
    const Setup<FedFomo<>, Line> setup({}, {}, {.batch = 0}, Vec<double>{1.1});
    Workspace<double> workspace;
    const auto served = [&](Vec<double> own) {
        const Client<FedFomo<>, Line> client(setup, 9, data[0], {.w = std::move(own), .cursor = {}});
        const auto predict = client.serve({{1, {1.3}}, {2, {0.9}}}, 1, workspace);
        Vec<double> out(1);
        predict(Batch<double>(*data[0].examples, data[0].train.first(1)), Out<double>(out));
        return out[0];
    };
    CHECK(std::fabs(served({}) - 1.3) < 1e-15);
    CHECK(served({1.05}) == 1.05);
}

TEST_CASE("M' models travel down, one up, beside a few numbers") {
    Federation<FedFomo<>, Net> run{{}, toy_data(), {.others = 3}, usual};
    const double d = Net::parameters;
    const auto first = run.round(sample::Everyone{}), second = run.round(sample::Everyone{});
    CHECK(first.formula_bytes_down == 0);  // nobody came yet
    CHECK(first.formula_bytes_up == 6 * (4 * d + 8 + 8));  // its number and name
    CHECK(second.formula_bytes_down == 6 * 3 * (4 * d + 8));
    CHECK(second.formula_bytes_up == 6 * (4 * d + 8 + 8 + 3 * 16));
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws(FedFomo<>{}) == "");
    CHECK(support::broken_laws(FedFomo<>{.steps = 3, .explore = 0.5}) == "");
    // At a rate at which the kit's clients, who have little in common, do help each other.
    const FedFomo<> lively{.local = {.rate = 2}, .others = 1};
    CHECK(support::broken_laws(lively, {.rounds = 8}) == "");
    CHECK(support::broken_laws(ByNumber{lively}, {.rounds = 8}).find("exchanging the numbers of clients") !=
          std::string::npos);
}

TEST_CASE("wrong settings, uploads and downloads are refused") {
    CHECK(complaint(FedFomo<>{}).empty());
    CHECK(complaint(FedFomo<>{.explore = 1.5}) == "explore must lie in [0, 1], not 1.500000");
    CHECK(complaint(FedFomo<>{.explore = std::numeric_limits<double>::quiet_NaN()}) != "");
    for (const double share : {0.0, 1.0, -0.2})
        CHECK(complaint(FedFomo<>{.held_out = share}).find("held_out must lie in (0, 1)") == 0);
    CHECK_THROWS_AS((Federation<FedFomo<>, Net>{{}, toy_data(), {.held_out = 1}}), ConfigError);

    const FedFomo<> method{.others = 2};
    const FedFomo<>::Server<double> server{Vec<detail::Known<double>>(3), 2, 0};
    using Upload = FedFomo<>::Upload<double>;
    const Vec<double> w(2);
    CHECK(method.admits(server, 0, Upload{w, {{1, 0.5}, {2, -1}}, 0, 7}));
    CHECK_FALSE(method.admits(server, 0, Upload{Vec<double>(1), {}, 0, 7}));
    CHECK_FALSE(method.admits(server, 0, Upload{w, {}, 3, 7}));
    CHECK_FALSE(method.admits(server, 0, Upload{w, {{3, 0.5}}, 0, 7}));
    CHECK_FALSE(method.admits(server, 0, Upload{w, {{1, 0.5}, {2, 1}, {1, 1}}, 0, 7}));

    const auto data = around({2, 4});
    const Setup<FedFomo<>, Line> setup({}, {}, {.batch = 0}, Vec<double>{1});
    Client<FedFomo<>, Line> client(setup, 0, data[0]);
    Workspace<double> workspace;
    CHECK_THROWS_WITH_AS(client.visit({{1, {1, 2}}}, 0, workspace),
                         doctest::Contains("its lengths are not those of what it sends"), WireError);
    CHECK_NOTHROW(client.visit({{1, {2}}}, 0, workspace));
}

}  // namespace fedfomo_test
