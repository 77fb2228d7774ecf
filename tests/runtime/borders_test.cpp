// SPDX-License-Identifier: BSD-3-Clause
// What comes from outside is judged before it is used: downloads, uploads, states and checkpoints of the wrong lengths,
// rounds that were, clients in another's name. tests/fuzz/messages_fuzz.cpp asks the same of every method.
#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <tessera/fold/distill.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fallback.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedamp.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedem.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/knn_per.hpp>
#include <tessera/method/mtl.hpp>
#include <tessera/method/privacy_statement.hpp>
#include <tessera/method/private.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/keyed_noise.hpp>
#include <support/toy_data.hpp>

namespace borders_test {

using namespace tessera;
using support::Toy;
using support::toy_data;
using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
using Noisy = rule::DpSgd<support::KeyedNoise>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 4};
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

Fingerprint print_of(const auto& state) {
    Hasher h;
    hash_into(h, state);
    return h.finish();
}

// A server and one client that were in two rounds together.
template <class Me>
struct Pair {
    data::FederatedDataset data = toy_data();
    Setup<Me, Net> setup;
    Server<Me, Net> server;
    Client<Me, Net> client;

    explicit Pair(const Me& method = {})
        : setup(Net{}, method, usual, {}, 6), server(setup, 6), client(setup, 0, data[0]) {
        for (int round = 0; round < 2; ++round) {
            server.open_round({{.client = 0}});
            REQUIRE(server.receive(0, client.visit(server.download(0))) == Verdict::accepted);
            REQUIRE(server.close_round().counted);
        }
    }
    template <class Payload>
    Bytes frame(const Payload& payload, io::Kind kind = io::Kind::download) const {
        return io::encode_frame(kind, setup.initial.size(), server.round(), 0, payload);
    }
    // Refuses what `spoil` makes of an honest download, and is as before.
    void refuses(auto&& spoil) {
        auto down = server.send(0);
        spoil(down);
        const auto before = print_of(client.state());
        CHECK_THROWS_AS(client.visit(frame(down)), WireError);
        CHECK(print_of(client.state()) == before);
    }
};

TEST_CASE("a server cannot make a client read or write past an end, whatever goes around its method") {
    const auto shortens = [](auto method) {
        Pair pair(method);
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, Net::parameters - 1, Net::parameters + 1})
            pair.refuses([&](auto& w) { w.resize(size); });
        CHECK_NOTHROW(pair.client.visit(pair.server.download(0)));
    };
    shortens(FedAvg<>{});
    shortens(Private<FedAvg<Noisy>>{});
    shortens(Private<Ditto<Noisy>>{});
    shortens(KnnPer<>{});
    shortens(KnnPer<Private<FedAvg<Noisy>>>{});
    shortens(Fallback<Ditto<>>{});
    shortens(Mtl<>{});
    shortens(KnnPer<Mtl<>>{});

    Pair em(FedEm<>{});
    em.refuses([](auto& models) { models.clear(); });
    em.refuses([](auto& models) { models.resize(2); });
    em.refuses([](auto& models) { models.resize(4, models[0]); });
    em.refuses([](auto& models) { models[1].resize(1); });
    em.refuses([](auto& models) { models[2].clear(); });

    Pair amp(FedAmp<>{});
    amp.refuses([](auto& down) { down.u.resize(1); });
    amp.refuses([](auto& down) { down.u.clear(); });

    Pair spa(FedSpa<>{});
    spa.refuses([](auto& down) { down.x.pop_back(); });
    spa.refuses([](auto& down) { down.x.clear(); });
    spa.refuses([](auto& down) { down.mask = Mask(7, true); });
    spa.refuses([](auto& down) { down.mask = Mask(Net::parameters); });
}

TEST_CASE("an older round is refused, and the last one again gets the same answer if it is the same question") {
    Pair<Ditto<>> pair;
    pair.server.open_round({{.client = 0}});
    const Bytes question = pair.server.download(0);
    const Bytes answer = pair.client.visit(question);
    const auto after = print_of(pair.client.state());
    CHECK(pair.client.visit(question) == answer);
    CHECK(print_of(pair.client.state()) == after);

    auto other = pair.server.send(0);
    other[0] += 1;
    CHECK_THROWS_WITH_AS(pair.client.visit(pair.frame(other)), "this client has answered another message of round 2",
                         WireError);
    const auto of_round = [&](std::uint64_t round) {
        return io::encode_frame(io::Kind::download, pair.setup.initial.size(), round, 0, pair.server.send(0));
    };
    CHECK_THROWS_WITH_AS(pair.client.visit(of_round(1)),
                         "the message is of round 1, this client was in round 2 already", WireError);
    CHECK_THROWS_WITH_AS(pair.client.visit(of_round(~0ull)),
                         doctest::Contains("and no run has so many"), WireError);
    CHECK(print_of(pair.client.state()) == after);

    // A server that was restored stands at an earlier round, and says so by other means.
    pair.client.expect_from(1);
    CHECK_NOTHROW(pair.client.visit(of_round(1)));
    CHECK(print_of(pair.client.state()) != after);
}

TEST_CASE("a device that is switched off and on goes on where it was; a state that cannot be its own is refused") {
    Pair<Ditto<>> pair;
    pair.server.open_round({{.client = 0}});
    const Bytes question = pair.server.download(0), answer = pair.client.visit(question);
    Bytes saved;
    pair.client.save(saved);
    Client<Ditto<>, Net> again(pair.setup, 0, pair.data[0]);
    Reader in(saved);
    again.restore(in);
    CHECK(print_of(again.state()) == print_of(pair.client.state()));
    CHECK(again.visit(question) == answer);

    const auto before = print_of(again.state());
    const auto refuses = [&](auto&& spoil) {
        auto state = pair.client.state();
        spoil(state);
        Bytes forged(saved.begin(), saved.end() - static_cast<std::ptrdiff_t>(wire_size(pair.client.state())));
        put(forged, state);
        Reader bytes(forged);
        CHECK_THROWS_AS(again.restore(bytes), WireError);
        CHECK(print_of(again.state()) == before);
    };
    refuses([](auto& state) { state.v.pop_back(); });
    refuses([](auto& state) { state.v.push_back(0); });
    refuses([](auto& state) { state.v[3] = std::numeric_limits<float>::quiet_NaN(); });
    for (std::size_t size = 0; size < saved.size(); ++size) {
        Reader bytes(std::span<const std::byte>(saved).first(size));
        CHECK_THROWS_AS(again.restore(bytes), WireError);
    }
}

TEST_CASE("a frame with another's number is refused, and so is an upload in another's name") {
    Pair<Mtl<>> pair;
    pair.server.open_round({{.client = 0}, {.client = 1}});
    const Bytes bytes = pair.client.visit(pair.server.download(0));
    CHECK(pair.server.receive(1, bytes) == Verdict::unexpected);
    auto up = io::decode_payload<up_t<Mtl<>, Net>>(io::decode_frame(bytes), io::Kind::upload, Net::parameters);
    up.from = 1;
    CHECK(pair.server.receive(0, pair.frame(up, io::Kind::upload)) == Verdict::not_admitted);
    CHECK(pair.server.receive(0, bytes) == Verdict::accepted);
    const auto outcome = pair.server.close_round();
    CHECK(outcome.merged == 1);
    CHECK(outcome.rejected() == 2);
}

// ---------------------------------------------------------------------------------------------- checkpoints

template <class Me>
struct Forged {
    using Run = Federation<Me, Net>;
    Me method{};
    Run run = made();
    Bytes saved;

    explicit Forged(const Me& m = {}) : method(m) {
        run.run(2, sample::Everyone{});
        run.save(saved);
    }
    Run made() const { return Run{Net{}, toy_data(), method, usual}; }
    // Of the server's state after two rounds and, where clients keep something, of theirs.
    void refuses(auto&& spoil, std::uint64_t round = 2) {
        auto server = run.server();
        std::vector<typename Run::ClientState> clients;
        for (Id k = 0; k < 6; ++k) clients.push_back(run.client(k));
        spoil(server, clients);
        Bytes bytes;
        put(bytes, round);
        put(bytes, server);
        constexpr bool keeps = ClientStore<typename Run::ClientState>::keeps;
        put(bytes, std::uint64_t{keeps ? 6 : 0});
        for (Id k = 0; keeps && k < 6; ++k) {
            put(bytes, k);
            put(bytes, clients[k]);
        }
        auto other = made();
        const auto before = other.fingerprint();
        Reader in(bytes);
        CHECK_THROWS_AS(other.restore(in), WireError);
        CHECK(other.fingerprint() == before);
        CHECK(other.rounds_done() == 0);
    }
    void accepts_its_own() {
        auto other = made();
        Reader in(saved);
        other.restore(in);
        CHECK(other.fingerprint() == run.fingerprint());
    }
};

TEST_CASE("a forged checkpoint is refused, though its checksum be right") {
    Forged ditto(Ditto<>{});
    ditto.accepts_its_own();
    ditto.refuses([](auto& server, auto&) { server.w.resize(1); });
    ditto.refuses([](auto& server, auto&) { server.w.clear(); });
    ditto.refuses([](auto& server, auto&) { server.w.push_back(0); });
    ditto.refuses([](auto& server, auto&) { server.w[3] = nan; });
    ditto.refuses([](auto&, auto& clients) { clients[4].v.resize(1); });
    ditto.refuses([](auto&, auto& clients) { clients[4].v[0] = nan; });
    ditto.refuses([](auto&, auto&) {}, ~0ull);
    ditto.refuses([](auto&, auto&) {}, 1ull << 32);

    Forged momentum(FedAvg<rule::Sgd, fold::ServerMomentum<>>{});
    momentum.accepts_its_own();
    momentum.refuses([](auto& server, auto&) { server.fold.m.resize(1); });

    Forged alt(FedAlt<>{});
    alt.accepts_its_own();
    alt.refuses([](auto& server, auto&) { server.place[0].end += 1000; });
    alt.refuses([](auto& server, auto&) { server.place.clear(); });
    alt.refuses([](auto&, auto& clients) { clients[0].v.resize(1); });

    Forged spa(FedSpa<>{});
    spa.accepts_its_own();
    spa.refuses([](auto& server, auto&) { server.w.resize(1); });
    spa.refuses([](auto& server, auto&) { server.first = Mask(3, true); });
    spa.refuses([](auto& server, auto&) { server.own.clear(); });
    spa.refuses([](auto& server, auto&) { server.own[2] = Mask(1, true); });
    spa.refuses([](auto& server, auto&) { server.bits[0] = static_cast<detail::Bits>(9); });
    spa.refuses([](auto&, auto& clients) { clients[1].mask = Mask(2, true); });

    Forged amp(FedAmp<>{});
    amp.accepts_its_own();
    amp.refuses([](auto& server, auto&) { server.all.pop_back(); });
    amp.refuses([](auto& server, auto&) { server.all[3].clear(); });

    Forged em(FedEm<>{});
    em.accepts_its_own();
    em.refuses([](auto& server, auto&) { server.components.clear(); });
    em.refuses([](auto&, auto& clients) { clients[0].pi.resize(7); });

    Forged dp(Private<FedAvg<Noisy>>{});
    dp.accepts_its_own();
    dp.refuses([](auto&, auto& clients) { clients[0].ledger[0].noise = -1; });
    dp.refuses([](auto&, auto& clients) { clients[0].ledger[0].rate = 2; });
    dp.refuses([](auto&, auto& clients) { clients[0].price[0].steps = 0; });
}

TEST_CASE("clients of a checkpoint come once each, in order") {
    Forged<Ditto<>> ditto;
    Bytes bytes;
    put(bytes, std::uint64_t{2});
    put(bytes, ditto.run.server());
    put(bytes, std::uint64_t{2});
    for (const Id k : {Id{1}, Id{1}}) {
        put(bytes, k);
        put(bytes, ditto.run.client(k));
    }
    auto other = ditto.made();
    Reader in(bytes);
    CHECK_THROWS_WITH_AS(other.restore(in), "the state's clients are out of order", WireError);
}

// ---------------------------------------------------------------------------------------------- compositions

TEST_CASE("a fold that asks whole models is told before round one that it gets parts of them") {
    using Me = FedAlt<scope::Head, rule::Sgd, fold::Distill<>>;
    const auto data = toy_data();
    CHECK_THROWS_WITH_AS((Federation<Me, Net>{Net{}, data, {}, usual, {}, data[0]}),
                         "distillation asks whole models, and what this method's clients send has 54 of the model's 82 "
                         "parameters: share all of them",
                         ConfigError);
    CHECK_NOTHROW((Federation<FedAvg<rule::Sgd, fold::Distill<>>, Net>{Net{}, data, {}, usual, {}, data[0]}));
}

// A method whose server vector is shorter than the model, and a global model that is too.
struct Half {
    static constexpr auto by_default = verb::send | verb::merge | verb::serve;
    static constexpr auto offers = offer::global;
    fold::Mean fold{};
    auto open(const auto&, auto w0, std::size_t) const {
        using R = typename decltype(w0)::value_type;
        w0.resize(w0.size() / 2);
        return Shared<fold::Mean, R>{std::move(w0)};
    }
    auto visit(const auto& at, auto w, Nothing&) const { return up(at, std::move(w)); }
    auto global(const auto& server, const auto&) const { return server.w; }
};

TEST_CASE("a global model of the wrong length is an error and is not read") {
    const Federation<Half, Net> run{Net{}, toy_data(), {}, usual};
    CHECK_THROWS_WITH_AS(evaluate<Which::global>(run), doctest::Contains("a global model of 41 parameters"), Error);
}

// ---------------------------------------------------------------------------------------------- privacy

// FedAvg's text with its rule under another name.
struct Renamed {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr auto offers = offer::Released;
    using Released = Trained<rule::DpSgd<privacy::Noise>>;
    rule::DpSgd<privacy::Noise> optimizer{};
    fold::Mean fold{};
    auto visit(const auto& at, auto w, Nothing&) const {
        descend(at, w, at.epochs(1), optimizer);
        return up(at, std::move(w));
    }
};

TEST_CASE("noise is found wherever it lies, whatever the field is called") {
    Federation<Private<Renamed>, Net> run{Net{}, toy_data(), {}, usual};
    CHECK(draws_afresh(run.setup().method));
    CHECK(privacy_statement(run).noise == privacy::Noise{}.words());
    CHECK(draws_afresh(Private<FedAvg<rule::DpSgd<privacy::Noise>>>{}));
    CHECK_FALSE(draws_afresh(Private<FedAvg<Noisy>>{}));
    CHECK(draws_afresh(FedAvg<rule::Sgd, fold::ServerMomentum<fold::PrivateMean<privacy::Noise>>>{}));
    CHECK_FALSE(draws_afresh(FedAvg<>{}));
}

}  // namespace borders_test
