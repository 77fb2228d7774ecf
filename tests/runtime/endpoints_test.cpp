// SPDX-License-Identifier: BSD-3-Clause
// Server and Client as a transport drives them: bytes in, bytes out, and everything that can be wrong with bytes.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/exec/openmp.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/local.hpp>
#include <tessera/method/pfedme.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/quadratic.hpp>
#include <support/speaker.hpp>
#include <support/toy_data.hpp>
#include <support/two_models.hpp>

namespace endpoints_test {

using namespace tessera;
using support::same_bits;
using support::speaker;
using support::Toy;
using support::toy_data;
using support::TwoModels;

namespace {

using Net = nn::Mclr<Toy::width, Toy::classes>;
using Deep = nn::Dnn<Toy::width, 6, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};

// A server and its clients, each at its own end.
template <class Me, class M = Net>
struct Ends {
    data::FederatedDataset data;
    Setup<Me, M> setup;
    Server<Me, M> server;
    std::vector<Client<Me, M>> clients;
    std::vector<Candidate> candidates;
    std::vector<bool> visited;

    explicit Ends(Me method = {}, Settings settings = usual, std::size_t count = 5)
        : data(toy_data({.clients = count})), setup({}, std::move(method), settings), server(setup, count) {
        for (Id k = 0; k < count; ++k) {
            clients.emplace_back(setup, k, data[k]);
            candidates.push_back({k, data[k].key});
        }
        visited.resize(count);
    }
    Ends(const Ends&) = delete;
    Ends& operator=(const Ends&) = delete;

    Plan open(const auto& sampler) {
        const Plan plan = sampler.plan(Key{setup.settings.seed}, server.round(), candidates);
        server.open_round(plan);
        return plan;
    }
    Plan open() { return open(sample::Everyone{}); }
    Bytes upload(Id k) {
        Bytes bytes = clients[k].visit(server.download(k));
        visited[k] = visited[k] || (clients[k].sound() && !setup.settings.stateless);
        return bytes;
    }
    Outcome round(const auto& sampler) {
        for (const auto& seat : open(sampler)) {
            const Bytes bytes = upload(seat.client);
            if (seat.merged) CHECK(server.receive(seat.client, bytes) == Verdict::accepted);
        }
        return server.close_round();
    }
    // As Federation::fingerprint() counts.
    Fingerprint fingerprint() const {
        Hasher h;
        h.word(server.round());
        hash_into(h, server.state());
        Fingerprint all = h.finish();
        ClientStore<client_t<Me, real<M>>> store(clients.size());
        for (const auto& c : clients)
            if (visited[c.id()]) store.commit(c.id(), c.state());
        return all += store.fingerprint();
    }
};

Bytes frame(const Setup<FedAvg<>, Net>& setup, std::uint64_t round, std::uint64_t client, const Up<float>& up) {
    return io::encode_frame(io::Kind::upload, setup.initial.size(), round, client, up);
}

}  // namespace

TEST_CASE("endpoints over bytes are the federation in memory") {
    const auto check = [](auto method, const auto& sampler) {
        using Me = decltype(method);
        Ends<Me> ends(method);
        Federation<Me, Net> fed{{}, ends.data, method, usual};
        const auto start = fed.fingerprint();
        for (int r = 0; r < 5; ++r) {
            ends.round(sampler);
            const auto report = fed.round(sampler);
            CHECK(ends.fingerprint() == fed.fingerprint());
            CHECK(report.state == fed.fingerprint());
        }
        CHECK(fed.fingerprint() != start);
        auto other = usual;
        other.seed = 4;
        Ends<Me> elsewhere(method, other);
        for (int r = 0; r < 5; ++r) elsewhere.round(sampler);
        CHECK(elsewhere.fingerprint() != fed.fingerprint());
    };
    check(FedAvg<>{}, sample::Everyone{});
    check(FedAvg<>{}, sample::Uniform{3});
    check(FedAvg<rule::Sgd, fold::ServerMomentum<>>{}, sample::Uniform{3});
    check(Local<>{}, sample::Uniform{3});
    check(TwoModels<>{}, sample::Uniform{3});
    check(TwoModels<>{}, sample::Uniform{.count = 2, .everyone_trains = true});
}

TEST_CASE("an upload that is not what was asked for is rejected, counted, and never reaches the fold") {
    for (const bool keep : {false, true}) {
        Settings settings = usual;
        settings.keep_uploads = keep;
        Ends<FedAvg<>> ends({}, settings), undisturbed({}, settings);
        undisturbed.round(sample::Everyone{});
        undisturbed.round(sample::Uniform{4});
        ends.round(sample::Everyone{});  // now round 1 is next

        const Plan plan = ends.open(sample::Uniform{4});
        Id absent = 0;
        for (Id k = 0; k < 5; ++k) {
            bool seated = false;
            for (const auto& seat : plan) seated = seated || seat.client == k;
            if (!seated) absent = k;
        }
        const Id present = plan[0].client;
        const auto good = ends.upload(present);
        const auto fair =
            io::decode_payload<Up<float>>(io::decode_frame(good), io::Kind::upload, ends.setup.initial.size());
        const auto before = ends.fingerprint();
        std::array<std::size_t, verdict_names.size()> expected{};
        const auto rejects = [&](const Bytes& bytes, Verdict verdict) {
            CHECK(ends.server.receive(speaker(bytes), bytes) == verdict);
            ++expected[static_cast<std::size_t>(verdict)];
            CHECK(ends.fingerprint() == before);
        };
        const auto changed = [&](auto change) {
            auto up = fair;
            change(up);
            return frame(ends.setup, 1, present, up);
        };
        constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();

        rejects(frame(ends.setup, 0, present, fair), Verdict::stale);
        for (const std::uint64_t round : {2ull, 3ull, 1ull << 32, ~0ull})
            rejects(frame(ends.setup, round, present, fair), Verdict::stale);  // the future is as wrong as the past
        rejects(frame(ends.setup, 1, absent, fair), Verdict::unexpected);
        for (const std::uint64_t who : {5ull, 1ull << 32 | present, ~0ull})
            rejects(frame(ends.setup, 1, who, fair), Verdict::unexpected);
        for (std::size_t j = 0; j < fair.x.size(); ++j)
            for (const float bad : {nan, inf, -inf})
                rejects(changed([&](auto& up) { up.x[j] = bad; }), Verdict::not_finite);
        rejects(changed([&](auto& up) { up.weight = std::numeric_limits<double>::infinity(); }), Verdict::not_finite);
        rejects(changed([&](auto& up) { up.weight = std::numeric_limits<double>::quiet_NaN(); }), Verdict::not_finite);
        rejects(changed([&](auto& up) { up.weight = -1; }), Verdict::not_admitted);
        rejects(changed([&](auto& up) { up.x.pop_back(); }), Verdict::not_admitted);
        rejects(changed([&](auto& up) { up.x.push_back(0); }), Verdict::not_admitted);
        rejects(changed([&](auto& up) { up.x.clear(); }), Verdict::not_admitted);

        const std::size_t d = ends.setup.initial.size();
        rejects(io::encode_frame(io::Kind::download, d, 1, present, fair), Verdict::malformed);  // the other direction
        rejects(io::encode_frame(io::Kind::upload, d, 1, present, fair.x), Verdict::malformed);  // another declaration
        rejects(io::encode_frame(io::Kind::upload, d, 1, present, Nothing{}), Verdict::malformed);  // as Local sends it
        rejects(io::encode_frame(io::Kind::upload, d, 1, present, Up<double>{Vec<double>(d), 1}), Verdict::malformed);
        rejects(io::encode_frame(io::Kind::upload, d + 1, 1, present, fair), Verdict::malformed);  // another model
        for (std::size_t size = 0; size < good.size(); ++size)
            rejects(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)), Verdict::malformed);
        for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
            auto bytes = good;
            bytes[bit / 8] ^= std::byte{1} << (bit % 8);
            rejects(bytes, Verdict::malformed);
        }
        auto longer = good;
        longer.push_back(std::byte{0});
        rejects(longer, Verdict::malformed);

        for (const auto& seat : plan) {
            const auto bytes = ends.upload(seat.client);
            CHECK(ends.server.receive(seat.client, bytes) == Verdict::accepted);
            rejects(bytes, Verdict::duplicate);
            rejects(frame(ends.setup, 1, seat.client, {Vec<float>(d, 1e6f), 1e6}), Verdict::duplicate);
        }
        expected[0] = plan.size();
        const auto outcome = ends.server.close_round();
        CHECK(outcome.counted);
        CHECK(outcome.merged == 4);
        CHECK(outcome.verdicts == expected);
        CHECK(outcome.rejected() > 1000);
        CHECK(ends.fingerprint() == undisturbed.fingerprint());

        // Between rounds nobody is expected; the next round starts counting at 0.
        CHECK(ends.server.receive(present, frame(ends.setup, 2, present, fair)) == Verdict::unexpected);
        CHECK(ends.fingerprint() == undisturbed.fingerprint());
        CHECK(ends.round(sample::Everyone{}).rejected() == 0);
    }
}

TEST_CASE("a control for the table above: one honest bit of difference changes the merged state") {
    Ends<FedAvg<>> honest, other;
    honest.round(sample::Everyone{});
    for (const auto& seat : other.open()) {
        auto up = io::decode_payload<Up<float>>(io::decode_frame(other.upload(seat.client)), io::Kind::upload,
                                                other.setup.initial.size());
        if (seat.client == 2) up.x[7] += 0.25f;
        CHECK(other.server.receive(seat.client, frame(other.setup, 0, seat.client, up)) == Verdict::accepted);
    }
    other.server.close_round();
    CHECK(other.fingerprint() != honest.fingerprint());
}

TEST_CASE("a download that is not for this client, or not whole, leaves the client as it was") {
    Ends<TwoModels<>> ends;
    ends.round(sample::Everyone{});
    ends.open();
    const auto good = ends.server.download(1);
    const auto before = ends.fingerprint();
    const auto refuses = [&](const Bytes& bytes, const char* why) {
        CHECK_THROWS_WITH_AS(ends.clients[1].visit(bytes), doctest::Contains(why), WireError);
        CHECK(ends.fingerprint() == before);
    };
    const std::size_t d = ends.setup.initial.size();
    const auto& w = ends.server.state().w;
    refuses(ends.server.download(2), "this is client 1");
    refuses(io::encode_frame(io::Kind::upload, d, 1, 1, w), "other direction");
    refuses(io::encode_frame(io::Kind::download, d, 1, 1, Up<float>{w, 1}), "another method");
    refuses(io::encode_frame(io::Kind::download, d - 1, 1, 1, w), "parameters");
    auto poisoned = w;
    poisoned[3] = std::numeric_limits<float>::quiet_NaN();
    refuses(io::encode_frame(io::Kind::download, d, 1, 1, poisoned), "not finite");
    for (std::size_t size = 0; size < good.size(); ++size)
        refuses(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)), "message");
    for (std::size_t bit = 0; bit < 8 * good.size(); bit += 3) {
        auto bytes = good;
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        CHECK_THROWS_AS(ends.clients[1].visit(bytes), WireError);
    }
    CHECK(ends.fingerprint() == before);
    CHECK_NOTHROW(ends.clients[1].visit(good));
    CHECK(ends.fingerprint() != before);
}

// What it opens with is not the whole model.
struct SendsHalf {
    static constexpr auto by_default = verb::send | verb::merge;
    static constexpr Offers offers{};
    fold::Mean fold{};
    template <class M>
    auto open(const Context<M>&, Vec<real<M>> w0, std::size_t) const {
        w0.resize(w0.size() / 2);
        return Shared<fold::Mean, real<M>>{std::move(w0)};
    }
    template <class M>
    auto visit(const Context<M>& at, Vec<real<M>> half, Nothing&) const {
        return up(at, std::move(half));
    }
    template <class M>
    auto serve(const Context<M>& at, const Vec<real<M>>&, Nothing) const {
        return plain(at, *at.initial);
    }
};

TEST_CASE_TEMPLATE("a download of the wrong length is refused", Me, FedAvg<>, SendsHalf) {
    Ends<Me> ends;
    ends.open();
    const std::size_t d = ends.setup.initial.size();
    const std::size_t sent = std::is_same_v<Me, SendsHalf> ? d / 2 : d;
    for (const std::size_t wrong : {std::size_t{0}, sent - 1, sent + 1})
        CHECK_THROWS_AS(ends.clients[0].visit(io::encode_frame(io::Kind::download, d, 0, 0, Vec<float>(wrong))),
                        WireError);
    CHECK_NOTHROW(ends.clients[0].visit(io::encode_frame(io::Kind::download, d, 0, 0, Vec<float>(sent))));
}

TEST_CASE_TEMPLATE("quorum: every subset of five, every quorum, streamed and kept", R, float, double) {
    using M = nn::Mclr<Toy::width, Toy::classes, R>;
    for (unsigned subset = 0; subset < 32; ++subset)
        for (std::size_t fifths = 0; fifths <= 5; ++fifths) {
            Fingerprint merged{};
            for (const bool keep : {false, true}) {
                Settings settings = usual;
                settings.quorum = static_cast<double>(fifths) / 5;
                settings.keep_uploads = keep;
                Ends<FedAvg<>, M> ends({}, settings);
                const auto before = ends.server.state().w;
                std::vector<Row<R>> rows;
                std::vector<Up<R>> ups;
                for (const auto& seat : ends.open())
                    if (subset >> seat.client & 1) {
                        const auto bytes = ends.upload(seat.client);
                        CHECK(ends.server.receive(seat.client, bytes) == Verdict::accepted);
                        ups.push_back(
                            io::decode_payload<Up<R>>(io::decode_frame(bytes), io::Kind::upload, before.size()));
                    }
                const auto outcome = ends.server.close_round();
                CHECK(outcome.merged == ups.size());
                CHECK(outcome.counted == (ups.size() >= fifths && !ups.empty()));
                CHECK(ends.server.round() == 1);
                CHECK(same_bits(ends.server.state().w, before) == !outcome.counted);
                if (outcome.counted) {
                    for (const auto& up : ups) rows.push_back(row_of(up));
                    auto expected = before;
                    Nothing none;
                    fold_rows(fold::Mean{}, ends.server.context(), expected, Rows<R>(rows), none);
                    // The same mean along another tree: weights are renormalised over who is present.
                    CHECK(support::distance(ends.server.state().w, expected) <
                          (std::is_same_v<R, float> ? 1e-6 : 1e-12));
                }
                if (keep) CHECK(ends.fingerprint() == merged);  // in double the order of additions would show
                merged = ends.fingerprint();
            }
        }
}

TEST_CASE("a share is met by the count it was made of") {
    const auto counts = [](double quorum, std::size_t arrive) {
        const std::size_t n = 100;
        Settings settings = usual;
        settings.quorum = quorum;
        Setup<FedAvg<>, support::Quadratic<float>> setup({}, {}, settings);
        Server<FedAvg<>, support::Quadratic<float>> server(setup, n);
        Plan plan;
        for (Id k = 0; k < n; ++k) plan.push_back({k});
        server.open_round(plan);
        for (Id k = 0; k < arrive; ++k) server.accept(k, {Vec<float>{1}, 1});
        return server.close_round().counted;
    };
    for (std::size_t k = 1; k <= 100; ++k) {
        CHECK(counts(static_cast<double>(k) / 100, k));
        CHECK_FALSE(counts(static_cast<double>(k) / 100, k - 1));
    }
}

TEST_CASE("nobody arrives: the server's moments do not move it either") {
    Ends<FedAvg<rule::Sgd, fold::ServerMomentum<>>> ends;
    ends.round(sample::Everyone{});
    ends.round(sample::Everyone{});
    const auto before = ends.server.state();
    ends.open();
    for (Id k = 0; k < 5; ++k) ends.server.receive(k, Bytes(10));
    const auto outcome = ends.server.close_round();
    CHECK_FALSE(outcome.counted);
    CHECK(outcome.merged == 0);
    CHECK(outcome.rejected() == 5);
    CHECK(same_bits(ends.server.state().w, before.w));
    CHECK(same_bits(ends.server.state().fold.m, before.fold.m));
    ends.round(sample::Everyone{});
    CHECK_FALSE(same_bits(ends.server.state().w, before.w));
}

TEST_CASE("a fold that overflows does not count") {
    using M = support::Quadratic<double>;
    Setup<FedAvg<>, M> setup({}, {}, usual, Vec<double>{7});
    const auto after = [&](double x) {
        Server<FedAvg<>, M> server(setup, 3);
        server.open_round({{0}, {1}, {2}});
        for (Id k = 0; k < 3; ++k) CHECK(server.accept(k, {Vec<double>{x}, 1}) == Verdict::accepted);
        const bool counted = server.close_round().counted;
        return std::pair(counted, server.state().w[0]);
    };
    CHECK(after(1e308) == std::pair(false, 7.0));  // finite each, infinite together
    CHECK(after(2.0) == std::pair(true, 2.0));
}

TEST_CASE("an abandoned round leaves no trace") {
    Ends<FedAvg<>> ends, undisturbed;
    undisturbed.round(sample::Everyone{});
    const Plan plan = ends.open();
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(ends.server.accept(plan[i].client, {Vec<float>(ends.setup.initial.size(), 9), 5}) == Verdict::accepted);
    const auto before = ends.fingerprint();
    ends.server.abandon_round();
    CHECK(ends.fingerprint() == before);
    CHECK(ends.server.round() == 0);
    CHECK(ends.server.accept(plan[4].client, {Vec<float>(ends.setup.initial.size(), 9), 5}) == Verdict::unexpected);
    const auto outcome = ends.round(sample::Everyone{});
    CHECK(outcome.merged == 5);
    CHECK(outcome.rejected() == 0);
    CHECK(ends.fingerprint() == undisturbed.fingerprint());
}

TEST_CASE("who is excused is not waited for, once, and does not come after all") {
    Settings settings = usual;
    settings.quorum = 1;
    Ends<FedAvg<>> ends({}, settings);
    ends.server.excuse(0);  // no round is open
    const Plan plan = ends.open();
    ends.server.excuse(77);  // nobody
    for (int again = 0; again < 7; ++again) ends.server.excuse(plan[4].client);
    const Up<float> good{Vec<float>(ends.setup.initial.size(), 9), 5};
    CHECK(ends.server.accept(plan[4].client, good) == Verdict::unexpected);
    for (std::size_t i = 0; i < 4; ++i) CHECK(ends.server.accept(plan[i].client, good) == Verdict::accepted);
    ends.server.excuse(plan[0].client);  // it has come
    const auto all = ends.server.close_round();
    CHECK(all.counted);
    CHECK(all.merged == 4);
    ends.open();
    ends.server.excuse(plan[4].client);
    for (std::size_t i = 0; i < 3; ++i) CHECK(ends.server.accept(plan[i].client, good) == Verdict::accepted);
    CHECK_FALSE(ends.server.close_round().counted);  // one of four is missing
}

TEST_CASE("only an open round can be closed, and once") {
    for (const bool keep : {false, true}) {
        Settings settings = usual;
        settings.keep_uploads = keep;
        Ends<FedAvg<>> ends({}, settings);
        CHECK_THROWS_WITH_AS(ends.server.close_round(), "close_round: no round is open; open_round comes first", Error);
        const Plan plan = ends.open();
        CHECK(ends.server.accept(plan[0].client, {Vec<float>(ends.setup.initial.size(), 9), 5}) == Verdict::accepted);
        ends.server.abandon_round();
        CHECK_THROWS_AS(ends.server.close_round(), Error);
        CHECK(same_bits(ends.server.state().w, ends.setup.initial));
        CHECK(ends.server.round() == 0);
        ends.round(sample::Everyone{});
        const auto after = ends.server.state().w;
        CHECK_THROWS_AS(ends.server.close_round(), Error);
        CHECK(same_bits(ends.server.state().w, after));
        CHECK(ends.server.round() == 1);
    }
}

TEST_CASE("a plan that seats nobody it could seat is refused before anything opens") {
    Ends<FedAvg<>> ends;
    CHECK_THROWS_WITH_AS(ends.server.open_round({{5}}), "the plan seats client 5, which does not exist", ConfigError);
    CHECK_THROWS_WITH_AS(ends.server.open_round({{1}, {2}, {1}}), "the plan seats client 1 twice", ConfigError);
    CHECK_THROWS_AS(ends.server.open_round({{1}, {1, false}}), ConfigError);
    CHECK(ends.server.accept(1, {ends.setup.initial, 1}) == Verdict::unexpected);
    CHECK_NOTHROW(ends.server.open_round({{1}, {2, false}}));
    CHECK(ends.server.accept(2, {ends.setup.initial, 1}) == Verdict::unexpected);  // trains, but is not merged
    CHECK(ends.server.accept(1, {ends.setup.initial, 1}) == Verdict::accepted);
}

// -------------------------------------------------------------------------------------------------- faults of policies

namespace {

enum class When { before, after };
struct Fault {
    int victim = -1;
    When when = When::before;
};
// TwoModels that fails at one client while a switch outside says so.
struct Faulty {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    TwoModels<> inner{};
    fold::Mean fold{};
    const Fault* fault = nullptr;
    template <class R>
    using Client = TwoModels<>::Client<R>;

    template <class M>
    auto visit(const Context<M>& at, Vec<real<M>> w, Client<real<M>>& me) const {
        const bool hit = fault && fault->victim == static_cast<int>(at.id);
        if (hit && fault->when == When::before) throw std::domain_error("client " + std::to_string(at.id));
        auto upload = inner.visit(at, std::move(w), me);
        if (hit) throw std::domain_error("client " + std::to_string(at.id));
        return upload;
    }
};

}  // namespace

TEST_CASE("a policy that throws in a visit leaves everything as it was, and the next try is undisturbed") {
    for (const bool wire : {false, true})
        for (const bool parallel : {false, true})
            for (const When when : {When::before, When::after}) {
                Fault fault{-1, when};
                Federation<Faulty, Net> fed{{}, toy_data(), {.fault = &fault}, usual};
                Federation<TwoModels<>, Net> calm{{}, toy_data(), {}, usual};
                fed.over_the_wire(wire);
                const auto round = [&] {
                    return parallel ? fed.round(sample::Everyone{}, exec::OpenMp{3}) : fed.round(sample::Everyone{});
                };
                for (int victim = 0; victim < 6; ++victim) {
                    const auto before = fed.fingerprint();
                    fault.victim = victim;
                    for (int attempt = 0; attempt < 2; ++attempt) {
                        CHECK_THROWS_WITH_AS(round(), ("client " + std::to_string(victim)).c_str(), std::domain_error);
                        CHECK(fed.fingerprint() == before);
                        CHECK(fed.rounds_done() == static_cast<std::size_t>(victim));
                    }
                    fault.victim = -1;
                    const auto report = round();
                    CHECK(report.outcome.merged == 6);
                    CHECK(report.outcome.rejected() == 0);
                    calm.round(sample::Everyone{});
                    CHECK(fed.fingerprint() == calm.fingerprint());
                    CHECK(fed.fingerprint() != before);
                }
            }
}

TEST_CASE("a client whose visit throws keeps its state at its own end too") {
    Fault fault{2, When::after};
    Ends<Faulty> ends({.fault = &fault});
    ends.open();
    CHECK_THROWS_AS(ends.upload(2), std::domain_error);
    CHECK(ends.clients[2].state().v.empty());
    CHECK_NOTHROW(ends.upload(1));
    CHECK_FALSE(ends.clients[1].state().v.empty());
}

namespace {
// SGD that one client runs at a hopeless rate, from some round on.
struct Reckless {
    static constexpr Offers offers{};
    Id victim = 3;
    std::size_t from = 1;
    rule::Sgd sane{};
    template <class R>
    using Memory = rule::Sgd::Memory<R>;

    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
                Memory<real<M>>& memory) const {
        auto rule = sane;
        if (at.id == victim && at.round >= from) rule.rate = 1e20;
        return rule.step(at, x, b, terms, memory);
    }
};
}  // namespace

TEST_CASE("a client that diverges is rolled back and left out, and the others are merged") {
    using Wild = TwoModels<Reckless>;
    for (const bool wire : {false, true})
        for (const bool keep : {false, true}) {
            Settings settings = usual;
            settings.keep_uploads = keep;
            Federation<Wild, Deep> fed{{}, toy_data(), {}, settings};
            fed.over_the_wire(wire);
            Ends<Wild, Deep> without({}, usual, 6);  // where client 3's upload is lost
            for (std::size_t r = 0; r < 4; ++r) {
                const auto v = fed.client(3).v;
                const auto report = fed.round(sample::Everyone{});
                for (const auto& seat : without.open())
                    if (r == 0 || seat.client != 3) {
                        const auto bytes = without.upload(seat.client);
                        CHECK(without.server.receive(seat.client, bytes) == Verdict::accepted);
                    }
                without.server.close_round();
                const bool wild = r >= 1;
                CHECK(report.diverged == wild);
                CHECK(report.outcome.verdicts[static_cast<std::size_t>(Verdict::not_finite)] == wild);
                CHECK(report.outcome.merged == (wild ? 5 : 6));
                CHECK(report.outcome.counted);
                CHECK(same_bits(fed.client(3).v, v) == wild);
                CHECK(fed.fingerprint() == without.fingerprint());
            }
            CHECK(all_finite(fed.server()));
        }
}

TEST_CASE("a client that diverges keeps its last good state at its own end, also when nothing travels") {
    const auto check = [](auto method, auto personal) {
        Ends<decltype(method), Deep> ends(method);
        for (std::size_t r = 0; r < 3; ++r) {
            const auto before = personal(ends.clients[3].state());
            ends.open();
            const auto bytes = ends.upload(3);
            CHECK(ends.clients[3].sound() == (r == 0));
            CHECK(same_bits(personal(ends.clients[3].state()), before) == (r > 0));
            const bool speaks = !std::is_same_v<typename Client<decltype(method), Deep>::Upload, Nothing>;
            CHECK(ends.server.receive(3, bytes) == (r > 0 && speaks ? Verdict::not_finite : Verdict::accepted));
            ends.server.close_round();
        }
    };
    check(TwoModels<Reckless>{}, [](const auto& state) { return state.v; });
    check(Local<Reckless>{}, [](const auto& state) { return state.w; });

    Federation<Local<Reckless>, Deep> fed{{}, toy_data(), {}, usual};
    fed.round(sample::Everyone{});
    const auto before = fed.client(3).w;
    CHECK(fed.round(sample::Everyone{}).diverged == 1);
    CHECK(same_bits(fed.client(3).w, before));
}

TEST_CASE("a round that misses its quorum leaves the clients as they were, too") {
    Settings settings = usual;
    settings.quorum = 1;
    Federation<TwoModels<Reckless>, Deep> fed{{}, toy_data(), {}, settings};
    CHECK(fed.round(sample::Everyone{}).outcome.counted);
    Bytes before, after;
    fed.save(before);
    const auto report = fed.round(sample::Everyone{});
    CHECK_FALSE(report.outcome.counted);
    CHECK(report.outcome.merged == 5);
    CHECK(fed.rounds_done() == 2);
    fed.save(after);
    after[0] = before[0];  // the round's number
    CHECK(same_bits(after, before));
}

TEST_CASE("stateless clients forget after each visit") {
    Settings settings = usual;
    settings.stateless = true;
    Federation<TwoModels<>, Net> forgets{{}, toy_data(), {}, settings}, remembers{{}, toy_data(), {}, usual};
    Ends<TwoModels<>> ends({}, settings, 6);
    for (int r = 0; r < 3; ++r) {
        forgets.round(sample::Uniform{4});
        remembers.round(sample::Uniform{4});
        ends.round(sample::Uniform{4});
        for (Id k = 0; k < 6; ++k) {
            CHECK(forgets.client(k).v.empty());
            CHECK(ends.clients[k].state().v.empty());
        }
        CHECK(same_bits(forgets.server().w, remembers.server().w));  // v never reaches the server here
        CHECK(forgets.fingerprint() == ends.fingerprint());
        CHECK(forgets.fingerprint() != remembers.fingerprint());
    }
}

namespace {

// A net that writes down which examples it is trained on.
struct Noting {
    using Real = float;
    static constexpr Offers offers{};
    Net net{};
    std::set<Index>* read = nullptr;

    Layout layout() const { return net.layout(); }
    std::size_t outputs() const { return net.outputs(); }
    double gradient(In<float> w, const Batch<float>& b, Out<float> out) const {
        for (const Index i : b.ids()) read->insert(i);
        return net.gradient(w, b, out);
    }
    void predict(In<float> w, const Batch<float>& b, Out<float> out) const { net.predict(w, b, out); }
};

struct Reading {
    std::size_t examples;
    Vec<float> w;
};
template <class Me>
Reading read_by(const Me& method, bool stateless, std::size_t rounds) {
    std::set<Index> read;
    Federation<Me, Noting> fed{{.read = &read},
                               toy_data(),
                               method,
                               {.seed = 3, .batch = 2, .rounds = rounds, .stateless = stateless}};
    fed.run(rounds, sample::Everyone{});
    return {read.size(), fed.server().w};
}

}  // namespace

TEST_CASE("stateless clients that take batches of their stream come to see all of their data") {
    // 132 training examples of 6 clients, batches of 2: a round of one step reads 12. Every round shuffles anew, so a
    // client with 27 examples misses a given one in 200 rounds with probability (1 - 2/27)^200 = 2e-7.
    const auto sees_all = [](const auto& method, bool stateless) {
        CHECK(read_by(method, stateless, 1).examples == 12);
        CHECK(read_by(method, stateless, 200).examples == 132);
    };
    for (const bool stateless : {false, true}) {
        sees_all(FedAvg<>{.steps = 1}, stateless);
        sees_all(FedProx<>{.steps = 1}, stateless);
        sees_all(PFedMe<>{.steps = 1, .inner_steps = 1}, stateless);
        sees_all(Ditto<>{.epochs = 0, .own_epochs = 0, .own_steps = 1}, stateless);  // a second cursor
    }
    const auto once = read_by(FedAvg<>{.steps = 1}, true, 9), again = read_by(FedAvg<>{.steps = 1}, true, 9);
    CHECK(same_bits(once.w, again.w));
}

TEST_CASE("a stateless client's batches of two rounds are drawn apart also where a visit takes several passes") {
    const auto data = toy_data();
    Settings settings = usual;
    settings.stateless = true;
    const Setup<FedAvg<>, Net> setup(Net{}, {.steps = 40}, settings);
    const auto batches = [&](std::size_t round) {
        FedAvg<>::Client<float> state;
        detail::start_streams(state, round);
        Workspace<float> workspace;
        const auto all = setup.context(data[0], 0, round, workspace).stream(state.cursor, 40);
        std::set<std::vector<Index>> seen;
        for (const auto b : all) seen.emplace(b.ids().begin(), b.ids().end());
        return seen;
    };
    const auto first = batches(1), second = batches(2);
    std::size_t common = 0;
    for (const auto& b : first) common += second.contains(b);
    CHECK(first.size() > 30);
    CHECK(common < 5);  // ordered draws of 5, or of the last 2, out of 17: only the short ones can meet by chance
    CHECK(batches(1) == first);
}

}  // namespace endpoints_test
