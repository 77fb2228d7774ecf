// SPDX-License-Identifier: BSD-3-Clause
// What FedSpa sends and keeps: bits of masks only where they are lacking, and what happens when somebody forgets.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tessera/mask/random_static.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/sub_fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace fedspa_bits_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {

using Net = nn::Dnn<Toy::width, 10, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 20};
using Dst = FedSpa<mask::DynamicSparse>;
using Rsm = FedSpa<mask::RandomStatic>;
constexpr std::size_t d = Net::parameters, bits = (d + 7) / 8;

template <class Me>
Federation<Me, Net> federation(const Me& method, const Settings& settings = usual) {
    return {{}, toy_data(), method, settings};
}

// Six devices and a server, joined by bytes.
template <class Me>
struct Wire {
    data::FederatedDataset data = toy_data();
    Setup<Me, Net> setup;
    Server<Me, Net> server{setup, 6};
    std::vector<Client<Me, Net>> devices;

    explicit Wire(const Me& method) : setup(Net{}, method, usual) {
        for (Id k = 0; k < 6; ++k) devices.emplace_back(setup, k, data[k]);
    }
    void open() { server.open_round({{.client = 0}, {.client = 1}, {.client = 2}}); }
    Bytes visited(Id k) { return devices[k].visit(server.download(k)); }
    void round() {
        open();
        for (Id k = 0; k < 3; ++k) CHECK(server.receive(k, visited(k)) == Verdict::accepted);
        CHECK(server.close_round().counted);
    }
    bool sends_bits(Id k) const { return !server.send(k).mask.empty(); }
};

}  // namespace

TEST_CASE("bits go down once to each client, and up when they change") {
    auto rsm = federation(Rsm{});
    auto dst = federation(Dst{});
    const auto nnz = static_cast<double>(rsm.server().first.count());
    const double down = 4 * nnz + 8, up = 4 * nnz + 8 + 8;  // numbers and the mask's name; numbers, weight and sender
    for (int r = 0; r < 3; ++r) {
        const auto still = rsm.round(sample::Everyone{}), moves = dst.round(sample::Everyone{});
        CHECK(still.formula_bytes_down == 6 * (down + (r == 0 ? bits : 0)));
        CHECK(still.formula_bytes_up == 6 * up);
        CHECK(moves.formula_bytes_down == 6 * (down + (r == 0 ? bits : 0)));
        CHECK(moves.formula_bytes_up == 6 * (up + bits));
    }
    auto forgetful = federation(Dst{.remember = false});
    for (int r = 0; r < 2; ++r) CHECK(forgetful.round(sample::Everyone{}).formula_bytes_down == 6 * (down + bits));
    CHECK(wire_size(forgetful.client(0)) == wire_size(client_t<Dst, float>{}));
    CHECK(same_bits(forgetful.server().w, [] {
        auto keeps = federation(Dst{});
        keeps.run(2, sample::Everyone{});
        return keeps.server().w;
    }()));
}

TEST_CASE("L-EV-4 the numbers that travel are the share D of FedAvg's") {
    const auto bytes = [](auto run, double apart) {
        run.round(sample::Everyone{});
        const auto report = run.round(sample::Everyone{});
        return report.formula_bytes_up + report.formula_bytes_down - 6 * apart;  // without weight, sender and name
    };
    const double dense = bytes(federation(FedAvg<>{}), 8);
    CHECK(dense == 6 * 2 * 4.0 * d);
    for (const double density : {0.25, 0.5, 0.75, 1.0}) {
        const double sparse = bytes(federation(Rsm{.masking = {.density = density}}), 24);
        CHECK(sparse <= density * dense);
        CHECK(sparse > density * dense - 6 * 2 * 4 * 4);  // four tensors, each rounded down by less than one
    }
}

TEST_CASE("a client that was wiped says so, gets the bits again, and trains") {
    Wire<Dst> wire{Dst{}};
    wire.round();
    CHECK_FALSE(wire.sends_bits(1));
    CHECK(wire.sends_bits(4));  // never visited
    CHECK(wire.server.send(77).mask == wire.server.state().first);  // a number that no client has: a stranger
    wire.devices[1] = Client<Dst, Net>(wire.setup, 1, wire.data[1]);
    wire.open();
    const auto w = wire.server.state().w;
    const Mask before = wire.server.state().mask(1);
    CHECK(wire.server.receive(1, wire.visited(1)) == Verdict::accepted);
    CHECK(wire.server.close_round().counted);
    CHECK(same_bits(wire.server.state().w, w));  // it alone answered, and had nothing to say
    CHECK(wire.server.state().mask(1) == before);
    CHECK(wire.sends_bits(1));
    wire.round();
    CHECK_FALSE(same_bits(wire.server.state().w, w));
    CHECK(wire.server.state().mask(1) != before);
    CHECK(wire.sends_bits(1));  // once wiped, trusted no more
    CHECK_FALSE(wire.sends_bits(0));
}

TEST_CASE("a client whose upload was lost goes on from the mask that the server knows") {
    Wire<Dst> lost{Dst{}}, spared{Dst{}};
    for (auto* wire : {&lost, &spared}) {
        wire->round();
        wire->open();
        if (wire == &lost) wire->visited(0);  // trains, proposes a mask, is not heard
        for (Id k = 1; k < 3; ++k) CHECK(wire->server.receive(k, wire->visited(k)) == Verdict::accepted);
        wire->server.close_round();
    }
    CHECK_FALSE(lost.sends_bits(0));
    lost.open();
    spared.open();
    CHECK(lost.visited(0) == spared.visited(0));
    CHECK(lost.devices[0].state().mask == lost.server.state().mask(0));
}

TEST_CASE("stateless clients are sent their masks at every visit, and must be said to need that") {
    Settings stateless = usual;
    stateless.stateless = true;
    CHECK_THROWS_WITH_AS(federation(Rsm{}, stateless), doctest::Contains("set remember=false"), ConfigError);
    CHECK_THROWS_WITH_AS(federation(Dst{}, stateless), doctest::Contains("set remember=false"), ConfigError);
    CHECK_THROWS_WITH_AS(federation(SubFedAvg<>{}, stateless), doctest::Contains("set remember=false"), ConfigError);
    auto forgets = federation(Dst{.remember = false}, stateless);
    auto keeps = federation(Dst{});
    for (auto* run : {&forgets, &keeps}) run->run(4, sample::Everyone{});
    CHECK(same_bits(forgets.server().w, keeps.server().w));
    CHECK_NOTHROW(evaluate<Which::personal>(forgets));
}

TEST_CASE("masks that were trained for but not merged change nothing on the server") {
    auto run = federation(Dst{});
    for (int r = 0; r < 5; ++r) {
        const auto before = run.server();
        const auto report = run.round(sample::Uniform{.count = 2, .everyone_trains = true});
        CHECK(report.trained == 6);
        CHECK(report.diverged == 0);
        std::size_t changed = 0;
        for (Id k = 0; k < 6; ++k) changed += run.server().mask(k) != before.mask(k);
        CHECK(changed == 2);
    }
}

TEST_CASE("an upload that does not fit the client's mask is refused") {
    Wire<Rsm> wire{Rsm{}};
    wire.open();
    const auto up = [&](std::size_t size, double weight, Id from, Mask next = {}) {
        return wire.server.accept(0, {Vec<float>(size, 1.0f), weight, std::move(next), from});
    };
    const std::size_t nnz = wire.server.state().first.count();
    CHECK(up(nnz + 1, 1, 0) == Verdict::not_admitted);
    CHECK(up(nnz, 1, 77) == Verdict::not_admitted);
    CHECK(up(nnz, -1, 0) == Verdict::not_admitted);
    CHECK(up(nnz, 1, 0, Mask(d + 1)) == Verdict::not_admitted);
    CHECK(up(0, 1, 0) == Verdict::not_admitted);
    CHECK(up(nnz, 1, 0) == Verdict::accepted);
}

TEST_CASE("a client cannot replace the mask of another") {
    Wire<Dst> wire{Dst{}};
    wire.round();
    wire.open();
    const auto before = wire.server.state();
    const auto honest = io::decode_payload<detail::MaskedUp<float>>(io::decode_frame(wire.visited(0)),
                                                                    io::Kind::upload, d);
    for (const Id victim : {Id{1}, Id{4}}) {  // of this round, and not
        auto lie = honest;
        lie.from = victim;
        CHECK(wire.server.accept(0, lie) == Verdict::not_admitted);
        CHECK(wire.server.receive(0, io::encode_frame(io::Kind::upload, d, wire.server.round(), 0, lie)) ==
              Verdict::not_admitted);
    }
    CHECK(wire.server.accept(0, honest) == Verdict::accepted);
    CHECK(wire.server.close_round().verdicts[static_cast<std::size_t>(Verdict::not_admitted)] == 4);
    for (Id k = 1; k < 6; ++k) CHECK(wire.server.state().mask(k) == before.mask(k));
    CHECK(wire.server.state().mask(0) != before.mask(0));
}

TEST_CASE("a download whose mask is none of the model's is refused, and the client keeps what it had") {
    Wire<Rsm> wire{Rsm{}};
    wire.round();
    const Mask before = wire.devices[0].state().mask;
    const auto offered = [&](std::size_t numbers, Mask mask) {
        wire.devices[0].visit(io::encode_frame(io::Kind::download, d, wire.server.round(), 0,
                                               detail::MaskedDown<float>{Vec<float>(numbers), std::move(mask), 0}));
    };
    CHECK_THROWS_AS(offered(d + 64, Mask(d + 64, true)), WireError);
    CHECK_THROWS_AS(offered(d - 1, Mask(d, true)), WireError);
    CHECK(wire.devices[0].state().mask == before);
    CHECK_NOTHROW(offered(d, Mask(d, true)));
}

TEST_CASE("a server of 100,000 clients keeps one mask until they differ, and then bits") {
    const Setup<Dst, Net> same(Net{}, {}, usual), different(Net{}, {.first = FirstMasks::different}, usual);
    const auto size = [](const Setup<Dst, Net>& setup, std::size_t clients) {
        return wire_size(Server<Dst, Net>(setup, clients).state());
    };
    CHECK(size(same, 100'000) == size(same, 0) + 100'000 * (8 + 1));  // the length of no mask, and what it knows
    CHECK(size(different, 1000) == size(same, 1000) + 1000 * bits);

    auto run = federation(Dst{});
    const auto kept = [&] { return wire_size(run.server()); };
    const std::size_t before = kept();
    run.round(sample::Uniform{2});
    CHECK(kept() == before + 2 * bits);  // those of the two that came
    CHECK(sizeof(Mask) <= 40);  // in memory as well
}

TEST_CASE("everybody is served m o w of the server's state, and the dense w stands beside it") {
    auto run = federation(Dst{});
    run.run(3, sample::Uniform{3});
    Workspace<float> workspace;
    double apart = 0;
    for (Id k = 0; k < 6; ++k) {
        auto masked = run.server().w;
        for (std::size_t j = 0; j < d; ++j)
            if (!run.server().mask(k)[j]) masked[j] = 0;
        run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
            const auto share = run.data()[k];
            const Batch<float> b(*share.examples, share.test);
            Vec<float> got(share.test.size() * Toy::classes), wanted(got.size()), dense(got.size());
            const auto predict = client.serve(std::move(received), 3, space);
            predict(b, got);
            Net{}.predict(masked, b, wanted);
            Net{}.predict(run.server().w, b, dense);
            CHECK(same_bits(predict.whole(), masked));
            CHECK(support::distance(got, wanted) < 1e-5);  // sums of 10 terms in another order
            apart = std::max(apart, support::distance(got, dense));
        });
    }
    CHECK(apart > 1e-2);
    CHECK(evaluate<Which::personal>(run).counts().size() == 6);
    CHECK(evaluate<Which::global>(run).counts().size() == 6);
}

TEST_CASE("a client never seen in training gets the first mask, whatever the known ones have become") {
    Federation<Dst, Net> run({}, toy_data({.unseen = 2}), Dst{}, usual);
    const Mask first = run.server().mask(0);
    run.run(4, sample::Everyone{});
    REQUIRE(run.server().mask(0) != first);
    CHECK(evaluate<Which::personal, SplitOf::test, Whom::unseen>(run).counts().size() == 2);
    Workspace<float> workspace;
    run.at_unseen(0, workspace, [&](const auto& client, auto received, auto& space) {
        const auto whole = client.serve(std::move(received), 4, space).whole();
        for (std::size_t j = 0; j < d; ++j) CHECK(whole[j] == (first[j] ? run.server().w[j] : 0));
    });
}

TEST_CASE_TEMPLATE("sparse and dense arithmetic train the same model", Me, Rsm, Dst) {
    const auto trained = [](Arithmetic arithmetic) {
        auto run = federation(Me{.masking = {.density = 0.3}, .arithmetic = arithmetic});
        run.run(5, sample::Everyone{});
        return run.server().w;
    };
    const auto sparse = trained(Arithmetic::sparse), dense = trained(Arithmetic::dense);
    CHECK(support::distance(sparse, dense) < 1e-6);  // 30 steps, each a sum of a dozen floats in another order: 3e-8
    CHECK_FALSE(same_bits(sparse, dense));           // two kernels, not one
    CHECK(support::distance(federation(Me{}).setup().initial, dense) > 1e-2);
}

}  // namespace fedspa_bits_test
