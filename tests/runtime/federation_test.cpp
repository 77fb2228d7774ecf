// SPDX-License-Identifier: BSD-3-Clause
// The round in one process: the same bits however it is run, nothing from the heap once warm, odd populations.
#include <doctest/doctest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/random.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/exec/serial.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/counted_heap.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>
#include <support/two_models.hpp>

namespace federation_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;
using support::TwoModels;

namespace {

using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};

// Two workers on one thread, so that what each worker's arena sees does not depend on timing.
struct Alternating {
    static constexpr Offers offers{};
    std::size_t concurrency() const { return 2; }
    template <class Body>
    void for_each(std::size_t tasks, Body&& body) const {
        for (std::size_t task = 0; task < tasks; ++task) body(task, task % 2);
    }
};

}  // namespace

TEST_CASE("the same bits for any number of threads, twice, over the wire, and with uploads kept") {
    const auto check = [](auto method) {
        using Fed = Federation<decltype(method), Net>;
        const sample::Uniform sampler{6};
        const auto data = toy_data({.clients = 9});
        const auto states = [&](Settings settings, const auto& executor, bool wire) {
            Fed fed{{}, data, method, settings};
            fed.over_the_wire(wire);
            std::vector<std::string> all;
            for (int r = 0; r < 4; ++r) {
                const auto report = fed.round(sampler, executor);
                CHECK(report.state == fed.fingerprint());
                all.push_back(report.state.hex());
            }
            return all;
        };
        const auto expected = states(usual, exec::Serial{}, false);
        CHECK(expected == states(usual, exec::Serial{}, false));
        for (const std::size_t threads : {1u, 2u, 3u, 7u})
            CHECK(expected == states(usual, exec::OpenMp{threads}, false));
        CHECK(expected == states(usual, Alternating{}, false));
        CHECK(expected == states(usual, exec::Serial{}, true));
        CHECK(expected == states(usual, exec::OpenMp{3}, true));
        Settings kept = usual;
        kept.keep_uploads = true;
        CHECK(expected == states(kept, exec::Serial{}, false));
        CHECK(expected == states(kept, exec::OpenMp{3}, true));

        Settings other = usual;
        other.seed = 4;
        CHECK(expected != states(other, exec::Serial{}, false));
        other = usual;
        other.batch = 6;
        CHECK(expected != states(other, exec::Serial{}, false));
        for (std::size_t r = 1; r < expected.size(); ++r) CHECK(expected[r] != expected[r - 1]);
    };
    check(FedAvg<>{});
    check(FedProx<>{});
    check(Local<>{});
    check(TwoModels<>{});
    check(FedAvg<rule::Sgd, fold::ServerAdam<>>{});
}

TEST_CASE("streamed and kept uploads agree where numbers are too small to be normal") {
    constexpr float tiny = std::numeric_limits<float>::min();
    const auto end = [&](bool keep) {
        Settings settings = usual;
        settings.keep_uploads = keep;
        Setup<FedAvg<>, support::Quadratic<float, 2>> setup({}, {}, settings);
        Server<FedAvg<>, support::Quadratic<float, 2>> server(setup, 3);
        server.open_round({{0}, {1}, {2}});
        for (Id k = 0; k < 3; ++k) server.accept(k, {Vec<float>{k == 0 ? tiny / 3 : 1.9f * tiny, 1}, 1.0 + k});
        server.close_round();
        return server.state().w;
    };
    CHECK(same_bits(end(false), end(true)));
    CHECK(end(true)[1] == 1);
}

TEST_CASE("cohorts larger than what is lifted abreast: any order of arrival, from any thread, with some who never come") {
    using Quadratic = support::Quadratic<double, 40>;
    constexpr std::size_t seats = 21;  // two groups of eight and one of five
    static_assert(seats > 2 * lift_width<fold::Mean>);
    const auto uploads = [] {
        std::vector<Up<double>> all(seats);
        Stream draw(Key{17});
        for (auto& up : all) {
            for (std::size_t j = 0; j < 40; ++j) up.x.push_back(draw.normal());
            up.weight = 1 + static_cast<double>(draw.below(9));
        }
        return all;
    }();
    const auto end = [&](bool keep, std::uint64_t order, std::size_t threads, std::uint32_t gone, std::size_t shift = 0) {
        Settings settings = usual;
        settings.keep_uploads = keep;
        const Setup<FedAvg<>, Quadratic> setup({}, {}, settings);
        Server<FedAvg<>, Quadratic> server(setup, seats);
        Plan plan;
        for (std::size_t p = 0; p < seats; ++p) plan.push_back({static_cast<Id>((p + shift) % seats)});
        server.open_round(plan);
        std::vector<Id> arrivals(seats);
        std::iota(arrivals.begin(), arrivals.end(), Id{0});
        Stream(Key{order}).shuffle(std::span<Id>(arrivals));
        exec::OpenMp{threads}.for_each(seats, [&](std::size_t i, std::size_t) {
            if (const Id k = arrivals[i]; (gone >> k & 1) == 0) server.accept(k, uploads[k]);
        });
        const auto outcome = server.close_round();
        CHECK(outcome.counted);
        CHECK(outcome.merged == seats - static_cast<std::size_t>(std::popcount(gone)));
        return server.state().w;
    };
    std::size_t other_places_differ = 0;
    for (const std::uint32_t gone : {0u, 1u << 20, 0xffu << 8, 0x155555u, 0x1f0000u, 0xffffu})
        for (const std::size_t threads : {1u, 3u}) {
            const auto expected = end(true, 0, 1, gone);
            for (std::uint64_t order = 0; order < 5; ++order) CHECK(same_bits(end(false, order, threads, gone), expected));
            other_places_differ += !same_bits(end(false, 0, threads, gone, 3), expected);
        }
    CHECK(other_places_differ > 5);
}

namespace {
// Counts who came, 256 neighbours at once.
struct Headcount {
    static constexpr auto offers = offer::streams | offer::lift_width;
    static constexpr std::size_t lift_width = 256;
    template <class R>
    struct Sum {
        double came = 0;
    };
    template <class R>
    void lift(const Row<R>& row, const Vec<R>&, Sum<R>& sum) const {
        sum.came = row.weight > 0;
    }
    template <class R>
    void lift(Rows<R> rows, const Vec<R>&, Sum<R>& sum) const {
        for (const auto& row : rows) sum.came += row.weight > 0;
    }
    template <class R>
    void add(Sum<R>& into, const Sum<R>& other) const {
        into.came += other.came;
    }
    template <class M>
    void finish(const Context<M>&, Vec<real<M>>& w, const Sum<real<M>>& sum, Nothing&) const {
        w[0] = sum.came;
    }
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        w[0] = static_cast<double>(rows.size());
    }
};
}  // namespace

TEST_CASE("as many neighbours as a fold says are waited for, and nobody is lost") {
    using Quadratic = support::Quadratic<double, 2>;
    using Me = FedAvg<rule::Sgd, Headcount>;
    for (const std::size_t seats : {1u, 255u, 256u, 257u, 700u}) {
        const Setup<Me, Quadratic> setup({}, {}, usual);
        Server<Me, Quadratic> server(setup, seats);
        Plan plan;
        for (std::size_t p = 0; p < seats; ++p) plan.push_back({static_cast<Id>(p)});
        server.open_round(plan);
        for (std::size_t p = 0; p < seats; ++p)
            if (p % 5 != 1) server.accept(static_cast<Id>(p), {Vec<double>{1, 1}, 1.0});
        CHECK(server.close_round().counted);
        CHECK(server.state().w[0] == static_cast<double>(seats - (seats + 3) / 5));
    }
}

TEST_CASE("the fingerprint sees the server, every client and the round") {
    Federation<TwoModels<>, Net> a{{}, toy_data(), {}, usual}, b{{}, toy_data(), {}, usual};
    a.run(2, sample::Everyone{});
    Bytes bytes;
    a.save(bytes);
    for (std::size_t at = 0; at + 4 <= bytes.size(); at += 97) {
        auto changed = bytes;
        changed[at] ^= std::byte{1};
        Reader in(changed);
        try {
            b.restore(in);
        } catch (const WireError&) {
            continue;  // a length was hit
        }
        CHECK(b.fingerprint() != a.fingerprint());
    }
    Reader in(bytes);
    b.restore(in);
    CHECK(b.fingerprint() == a.fingerprint());
}

// ------------------------------------------------------------------------------------------------------------ the heap

namespace {
template <class Me, class Executor, class Sampler = sample::Everyone>
std::pair<std::size_t, std::size_t> heap_use(Me method, const Executor& executor, Settings settings = usual) {
    Federation<Me, Net> fed{{}, toy_data({.clients = 12}), method, settings};
    const Sampler sampler{};
    const auto one_round = [&] {
        const std::size_t before = support::allocations;
        fed.round(sampler, executor);
        return support::allocations - before;
    };
    const std::size_t first = one_round();
    for (int r = 0; r < 5; ++r) one_round();
    std::size_t warm = 0;
    for (int r = 0; r < 10; ++r) warm += one_round();
    return {first, warm};
}
}  // namespace

TEST_CASE("a warm round takes nothing from the heap") {
    const auto check = [](auto method, const auto& executor, Settings settings = usual) {
        const auto [first, warm] = heap_use(method, executor, settings);
        CHECK(first > 20);  // the counter does count
        CHECK(warm == 0);
    };
    SUBCASE("one thread") {
        check(FedAvg<>{}, exec::Serial{});
        check(Local<>{}, exec::Serial{});
        check(FedProx<>{.local = {.momentum = 0.9}}, exec::Serial{});
        check(TwoModels<>{}, exec::Serial{});
        check(FedAvg<rule::Sgd, fold::ServerMomentum<>>{}, exec::Serial{});
    }
    SUBCASE("one OpenMP thread") {
        check(FedAvg<>{}, exec::OpenMp{1});
        check(Local<>{}, exec::OpenMp{1});
    }
    SUBCASE("two workers") {
        check(FedAvg<>{}, Alternating{});
        check(Local<>{}, Alternating{});
        check(TwoModels<>{}, Alternating{});
    }
    SUBCASE("uploads kept") {
        Settings settings = usual;
        settings.keep_uploads = true;
        check(FedAvg<>{}, exec::Serial{}, settings);
        check(FedAvg<>{}, Alternating{}, settings);
    }
}

// ----------------------------------------------------------------------------------------------------- odd populations

TEST_CASE("clients without training data are never visited, and the others do not notice them") {
    const auto full = toy_data({.clients = 10});
    auto split = full.split();
    for (const std::size_t k : {2u, 7u}) split.clients[k].train.clear();  // 20 %
    const data::FederatedDataset holes{full.pool(), split};
    auto without = split;
    without.clients.erase(without.clients.begin() + 7);
    without.clients.erase(without.clients.begin() + 2);

    Federation<TwoModels<>, Net> fed{{}, holes, {}, usual};
    Federation<TwoModels<>, Net> fewer{{}, {full.pool(), without}, {}, usual};
    for (int r = 0; r < 6; ++r) {
        const auto report = fed.round(sample::Everyone{});
        fewer.round(sample::Everyone{});
        CHECK(report.trained == 8);
        CHECK(report.outcome.merged == 8);
        CHECK(report.diverged == 0);
    }
    CHECK(same_bits(fed.server().w, fewer.server().w));
    for (Id k = 0; k < 10; ++k) CHECK(fed.client(k).v.empty() == (k == 2 || k == 7));
    CHECK_THROWS_WITH_AS(fed.round(sample::Uniform{9}), "per_round is 9 but only 8 clients have training data",
                         ConfigError);
    CHECK_NOTHROW(fed.round(sample::Uniform{8}));

    Workspace<float> workspace;  // such a client can still be served
    const auto predicted = fed.at_client(2, workspace, [&](const auto& client, auto received, auto& space) {
        Vec<float> out(Toy::classes);
        client.serve(std::move(received), 7, space)(Batch<float>(*holes[2].examples, holes[2].test.first(1)), out);
        return out;
    });
    CHECK(all_finite(predicted));
}

TEST_CASE("clients of one example") {
    for (const std::size_t batch : {0u, 1u, 5u}) {
        Settings settings = usual;
        settings.batch = batch;
        Federation<TwoModels<>, Net> fed{{}, toy_data({.train = 1, .extra = 0}), {}, settings};
        const auto report = fed.round(sample::Everyone{});
        CHECK(report.outcome.merged == 6);
        CHECK(report.train_loss > 0);
        CHECK(all_finite(fed.server()));
    }
}

TEST_CASE("one client") {
    Federation<TwoModels<>, Net> fed{{}, toy_data({.clients = 1}), {}, usual};
    const auto before = fed.server().w;
    const auto report = fed.round(sample::Everyone{});
    CHECK(report.trained == 1);
    CHECK(report.outcome.merged == 1);
    CHECK_FALSE(same_bits(fed.server().w, before));
    CHECK_NOTHROW(fed.round(sample::Uniform{1}, exec::OpenMp{4}));
    CHECK_THROWS_AS(fed.round(sample::Uniform{2}), ConfigError);
}

TEST_CASE("nobody at all is an error before round one") {
    const auto data = toy_data();
    CHECK_THROWS_WITH_AS((Federation<FedAvg<>, Net>{{}, {data.pool(), {}}, {}, usual}),
                         "a federation needs at least one client", ConfigError);
    auto split = data.split();
    for (auto& share : split.clients) share.train.clear();
    CHECK_THROWS_WITH_AS((Federation<FedAvg<>, Net>{{}, {data.pool(), split}, {}, usual}),
                         "no client has training data", ConfigError);
    CHECK_THROWS_WITH_AS((Federation<FedAvg<>, nn::Mclr<5, 4>>{{}, data, {}, usual}),
                         "client 0 has examples of 8 numbers, the model reads 5", ConfigError);
    CHECK_THROWS_AS((Federation<FedAvg<>, Net>{{}, data, {}, usual, Vec<float>(3)}), ConfigError);
    Settings settings = usual;
    settings.quorum = 1.5;
    CHECK_THROWS_AS((Federation<FedAvg<>, Net>{{}, data, {}, settings}), ConfigError);
}

TEST_CASE("a split made by hand visits everybody sooner or later") {
    const auto keyed = toy_data();
    data::Split split = keyed.split();
    for (auto& share : split.clients) share.key = 0;
    Federation<TwoModels<>, Net> fed{{}, {keyed.pool(), split}, {}, usual};
    fed.run(8, sample::Uniform{2});
    std::size_t visited = 0;
    for (Id k = 0; k < 6; ++k) visited += !fed.client(k).v.empty();
    CHECK(visited >= 5);  // 16 seats; equal keys would give all of them to two clients
}

TEST_CASE("a model and its data that do not fit are refused before round one") {
    const auto data = toy_data();
    CHECK_THROWS_WITH_AS((Federation<FedAvg<>, nn::Mclr<Toy::width, 3>>{{}, data, {}, usual}),
                         "client 0 has examples of 4 classes, the model has 3 outputs", ConfigError);
    CHECK_NOTHROW((Federation<FedAvg<>, nn::Mclr<Toy::width, 5>>{{}, data, {}, usual}));

    using Any = nn::AnyModel<float>;
    CHECK_THROWS_WITH_AS((Federation<FedAvg<>, Any>{nn::Mclr<5, 4>{}, data, {}, usual}),
                         "client 0 has examples of 8 numbers, the model reads 5", ConfigError);
    CHECK_THROWS_WITH_AS((Federation<FedAvg<>, Any>{nn::mlp({7, 5, 4}), data, {}, usual}),
                         "client 0 has examples of 8 numbers, the model reads 7", ConfigError);
    CHECK_NOTHROW((Federation<FedAvg<>, Any>{Net{}, data, {}, usual}));

    const std::vector<Index> fits{0, 1}, outside{0, static_cast<Index>(data.pool().size())};
    const ClientData known{&data.pool().examples(), fits}, unknown{&data.pool().examples(), outside};
    CHECK_NOTHROW((Federation<FedAvg<>, Net>{{}, data, {}, usual, {}, known}));
    CHECK_THROWS_WITH_AS((Federation<FedAvg<>, Net>{{}, data, {}, usual, {}, unknown}),
                         doctest::Contains("the server holds example"), ConfigError);
}

TEST_CASE("a schedule that ends with the run must be told where that is") {
    const auto make = [](auto decay, std::size_t rounds) {
        const FedAvg<> method{.local = {.schedule = {.decay = decay}}};
        return Federation<FedAvg<>, Net>{{}, toy_data(), method, {.seed = 3, .batch = 5, .rounds = rounds}};
    };
    for (const auto decay : {rule::Decay::linear, rule::Decay::cosine}) {
        CHECK_THROWS_WITH_AS(make(decay, 0), doctest::Contains("set Settings::rounds"), ConfigError);
        CHECK_NOTHROW(make(decay, 8));
    }
    for (const auto decay : {rule::Decay::constant, rule::Decay::step, rule::Decay::exponential})
        CHECK_NOTHROW(make(decay, 0));
}

TEST_CASE("a pull needs something to pull to") {
    const auto data = toy_data();
    const Setup<FedAvg<>, Net> setup({}, {}, usual);
    Workspace<float> workspace;
    const auto at = setup.context(data[0], 0, 0, workspace);
    auto w = setup.initial;
    CHECK_THROWS_WITH_AS(descend(at, w, at.epochs(1), rule::Sgd{}, {.prox_weight = 0.5}),
                         "Terms: a pull needs `prox_center`, the vector that it pulls to", ConfigError);
    CHECK(same_bits(w, setup.initial));
    CHECK_NOTHROW(descend(at, w, at.epochs(1), rule::Sgd{}, {.prox_center = setup.initial, .prox_weight = 0.5}));
}

TEST_CASE("a round in which nobody is sampled changes nothing and is recorded") {
    Federation<TwoModels<>, Net> fed{{}, toy_data(), {}, usual};
    fed.round(sample::Everyone{});
    const auto w = fed.server().w;
    const auto report = fed.round(sample::Uniform{0});
    CHECK(report.round == 1);
    CHECK(report.trained == 0);
    CHECK(report.train_loss == 0);
    CHECK(fed.rounds_done() == 2);
    CHECK(same_bits(fed.server().w, w));

    const auto moves = [](auto method, bool keep) {
        Settings settings = usual;
        settings.keep_uploads = keep;
        Federation<decltype(method), Net> warm{{}, toy_data(), method, settings};
        warm.run(2, sample::Everyone{});
        Bytes before, after;
        put(before, warm.server());
        CHECK(warm.round(sample::Uniform{0}).outcome.counted);
        put(after, warm.server());
        return before != after;
    };
    for (const bool keep : {false, true}) {
        CHECK_FALSE(moves(FedAvg<rule::Sgd, fold::ServerMomentum<>>{}, keep));
        CHECK_FALSE(moves(FedAvg<rule::Sgd, fold::ServerAdam<>>{}, keep));
        CHECK_FALSE(moves(FedAvg<rule::Sgd, fold::Relax<>>{.fold = {.beta = 2}}, keep));
        constexpr privacy::Noise keyed{privacy::Source::keyed};
        // Where a round hides who came, nobody may see that nobody did.
        CHECK(moves(FedAvg<rule::Sgd, fold::PrivateMean<privacy::Noise>>{.fold = {.clients = 6, .source = keyed}}, keep));
    }
}

// ------------------------------------------------------------------------------------------------------------- reports

TEST_CASE("a report counts clients, bytes and work") {
    Federation<FedAvg<>, Net> average{{}, toy_data(), {.epochs = 2}, usual};
    const auto report = average.round(sample::Uniform{4});
    const std::size_t d = Net::parameters;
    CHECK(report.round == 0);
    CHECK(report.trained == 4);
    CHECK(report.bytes_down == 4 * (io::frame_overhead + 8 + 4 * d));
    CHECK(report.bytes_up == 4 * (io::frame_overhead + 8 + 4 * d + 8));
    CHECK(report.formula_bytes_down == 4 * 4 * d);
    CHECK(report.formula_bytes_up == 4 * (4 * d + 8));

    Federation<Local<>, Net> local{{}, toy_data(), {}, usual};
    const auto silent = local.round(sample::Uniform{4});
    CHECK(silent.bytes_down == 0);
    CHECK(silent.bytes_up == 0);
    CHECK(silent.formula_bytes_up == 0);
    CHECK(silent.flops > 0);

    Federation<TwoModels<>, Net> few{{}, toy_data(), {}, usual};
    const auto seats = few.round(sample::Uniform{.count = 2, .everyone_trains = true});
    CHECK(seats.trained == 6);
    CHECK(seats.outcome.merged == 2);
    CHECK(seats.bytes_up == 2 * (io::frame_overhead + 8 + 4 * d + 8));

    std::size_t examples = 0;
    for (std::size_t k = 0; k < 6; ++k) examples += average.data()[k].train.size();
    const auto all = average.round(sample::Everyone{});
    CHECK(all.flops == 3 * Net{}.forward_flops() * 2 * static_cast<double>(examples));
    CHECK(all.examples == 2 * examples);
    average.over_the_wire();
    const auto wired = average.round(sample::Everyone{});
    CHECK(wired.bytes_up == all.bytes_up);
    CHECK(wired.bytes_down == all.bytes_down);
    CHECK(wired.formula_bytes_up == all.formula_bytes_up);
}

TEST_CASE("run calls the observer once a round") {
    Federation<FedAvg<>, Net> fed{{}, toy_data(), {}, usual};
    std::vector<std::size_t> rounds;
    fed.run(3, sample::Everyone{}, exec::Serial{}, [&](const RoundReport& report) { rounds.push_back(report.round); });
    CHECK(rounds == std::vector<std::size_t>{0, 1, 2});
    fed.run(2, sample::Everyone{});
    CHECK(fed.rounds_done() == 5);
}

TEST_CASE("a warm start takes over where an earlier stage ended") {
    Federation<FedAvg<>, Net> first{{}, toy_data(), {}, usual};
    first.run(2, sample::Everyone{});
    const Federation<FedProx<>, Net> second{{}, toy_data(), {}, usual, first.server().w};
    CHECK(same_bits(second.server().w, first.server().w));
    CHECK(second.rounds_done() == 0);
    auto broken = first.server().w;
    broken[0] = std::numeric_limits<float>::infinity();
    CHECK_THROWS_AS((Federation<FedProx<>, Net>{{}, toy_data(), {}, usual, broken}), ConfigError);
}

TEST_CASE("an example that is not finite is named; a rate that is too large is a visit that diverged") {
    const auto first_round = [](float wrong, double rate) {
        std::vector<float> rows(6 * 2, 0.5F);
        rows[2 * 4 + 1] = wrong;
        data::Split split;
        for (std::uint64_t k = 0; k < 2; ++k)
            split.clients.push_back({.train = {static_cast<Index>(3 * k), static_cast<Index>(3 * k + 1)}, .key = k + 1});
        using Small = nn::Mclr<2, 2>;
        Federation<FedAvg<>, Small> run{{}, {data::Dataset::own(std::move(rows), {0, 1, 0, 1, 0, 1}, 2), split},
                                        {.local = {.rate = rate}}, {.seed = 1}};
        return run.round(sample::Everyone{}).diverged;
    };
    CHECK(first_round(0.5F, 0.1) == 0);
    CHECK_THROWS_WITH_AS(first_round(std::numeric_limits<float>::quiet_NaN(), 0.1),
                         doctest::Contains("client 1: feature 1 of example 4 is not a finite number"), ConfigError);
    CHECK(first_round(0.5F, 1e39) == 2);  // no float
}

TEST_CASE("checkpoints of another method, model or population have another shape") {
    const Federation<FedAvg<>, Net> a{{}, toy_data(), {}, usual};
    const Federation<FedAvg<>, Net> same{{}, toy_data(), {.local = {.rate = 0.3}}, usual};
    const Federation<FedAvg<rule::Sgd, fold::ServerMomentum<>>, Net> method{{}, toy_data(), {}, usual};
    const Federation<TwoModels<>, Net> client{{}, toy_data(), {}, usual};
    const Federation<FedAvg<>, nn::Mclr<Toy::width, Toy::classes>> model{{}, toy_data(), {}, usual};
    const Federation<FedAvg<>, Net> population{{}, toy_data({.clients = 7}), {}, usual};
    CHECK(a.shape() == same.shape());
    CHECK(a.shape() != method.shape());
    CHECK(a.shape() != client.shape());
    CHECK(a.shape() != model.shape());
    CHECK(a.shape() != population.shape());
}

}  // namespace federation_test
