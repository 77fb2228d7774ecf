// SPDX-License-Identifier: BSD-3-Clause
// A federation that stands on several ranks is the federation of one process, bit for bit. Ranks are threads here; the
// lab's methods are tried with real ones (ranks.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tessera/exec/openmp.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedamp.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedfomo.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/local.hpp>
#include <tessera/method/privacy_forecast.hpp>
#include <tessera/method/privacy_statement.hpp>
#include <tessera/method/private.hpp>
#include <tessera/method/scaffold.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/report/json.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/export.hpp>
#include <tessera/runtime/theory.hpp>
#include <tessera/sample/uniform.hpp>

#include <place/threads.hpp>
#include <support/folder.hpp>
#include <support/keyed_noise.hpp>
#include <support/toy_data.hpp>

namespace federation_ranks_test {

using namespace tessera;
using support::on_ranks;

namespace {

using Net = nn::Mclr<8, 4>;
const sample::Uniform eleven{11};
constexpr std::size_t clients = 14;

// A fold that is no mean: the middle of all rows, coordinate by coordinate. It needs all of them at once.
struct Median {
    static constexpr Offers offers{};
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        std::vector<real<M>> column(rows.size());
        for (std::size_t j = 0; j < w.size(); ++j) {
            for (std::size_t i = 0; i < rows.size(); ++i) column[i] = rows[i].x[j];
            std::ranges::nth_element(column, column.begin() + static_cast<std::ptrdiff_t>(column.size() / 2));
            w[j] = column[column.size() / 2];
        }
    }
};
// The mean with sums that no struct can carry to another process.
struct PrivateSums {
    static constexpr Offers offers = offer::streams;
    fold::Mean mean{};
    template <class R>
    struct Sum {
        Sum() = default;
        fold::Mean::Sum<R> held{};
    private:
        int hidden = 0;
    };
    template <class M>
    void fold(const Context<M>& c, Vec<real<M>>& w, Rows<real<M>> rows, Nothing& memory) const {
        mean.fold(c, w, rows, memory);
    }
    template <class R>
    void lift(const Row<R>& row, const Vec<R>& before, Sum<R>& sum) const {
        mean.lift(row, before, sum.held);
    }
    template <class R>
    void add(Sum<R>& sum, const Sum<R>& other) const {
        mean.add(sum.held, other.held);
    }
    template <class M>
    void finish(const Context<M>& c, Vec<real<M>>& w, const Sum<real<M>>& sum, Nothing& memory) const {
        mean.finish(c, w, sum.held, memory);
    }
};
// The control: a mean that rounds its sums to float, on all ranks but the first.
thread_local std::size_t on_rank = 0;
struct RankDependent {
    static constexpr Offers offers = offer::streams;
    fold::Mean mean{};
    template <class R>
    using Sum = fold::Mean::Sum<R>;
    template <class M>
    void fold(const Context<M>& c, Vec<real<M>>& w, Rows<real<M>> rows, Nothing& memory) const {
        mean.fold(c, w, rows, memory);
    }
    template <class R>
    void lift(const Row<R>& row, const Vec<R>& before, Sum<R>& sum) const {
        mean.lift(row, before, sum);
        if (on_rank > 0)
            for (double& each : std::span(sum.values.data(), sum.values.size())) each = static_cast<double>(static_cast<float>(each * 1.1) / 1.1f);
    }
    template <class R>
    void add(Sum<R>& sum, const Sum<R>& other) const {
        mean.add(sum, other);
    }
    template <class M>
    void finish(const Context<M>& c, Vec<real<M>>& w, const Sum<real<M>>& sum, Nothing& memory) const {
        mean.finish(c, w, sum, memory);
    }
};
static_assert(!CohortSum<PrivateSums, float>::crosses && CohortSum<fold::Mean, float>::crosses);

template <class Me>
Federation<Me, Net> made(const Me& method, Settings settings = {}) {
    settings.seed = 2, settings.batch = 5, settings.rounds = 8;
    return {Net{}, support::toy_data({.clients = clients, .unseen = 3}), method, settings};
}

// All that a round tells but its time, and what the models are worth after it.
template <class Me>
std::vector<std::string> told(const Federation<Me, Net>& run, const RoundReport& r) {
    std::vector<std::string> all{r.state.hex(), run.fingerprint().hex(), std::to_string(r.bytes_up),
                                 std::to_string(r.bytes_down)};
    for (const double x : {r.formula_bytes_up, r.formula_bytes_down, r.flops, r.train_loss, double(r.trained),
                           double(r.diverged), double(r.over_budget), double(r.outcome.merged), double(r.examples)})
        all.push_back(std::to_string(x) + "/" + std::to_string(std::hash<double>{}(x)));
    const auto judged = [&](const auto& result) {
        for (const auto& c : result.counts()) {
            Hasher h;
            hash_into(h, c);
            all.push_back(h.finish().hex());
        }
    };
    judged(evaluate<Which::personal>(run));
    judged(evaluate<Which::personal, SplitOf::test, Whom::unseen>(run));
    judged(evaluate_on_union<Which::personal>(run));
    if constexpr (detail::HasGlobalModel<Me, Net>) judged(evaluate<Which::global, SplitOf::train>(run));
    return all;
}

// What ranks hear in four rounds, each in one list.
template <class Me>
std::vector<std::vector<std::vector<std::string>>> heard(std::size_t n, const Me& method, const Settings& settings) {
    std::vector<std::vector<std::vector<std::string>>> all(n);
    on_ranks(n, [&](std::shared_ptr<Place> place) {
        auto run = made(method, settings);
        on_rank = place->rank();
        run.spread_over(place);
        for (int r = 0; r < 4; ++r) {
            const auto report = r % 2 ? run.round(eleven, exec::OpenMp{2}) : run.round(eleven);
            all[place->rank()].push_back(told(run, report));
        }
    });
    return all;
}

template <class Me>
void same_bits(const Me& method, const Settings& settings = {}) {
    auto alone = made(method, settings);
    std::vector<std::vector<std::string>> expected;
    for (int r = 0; r < 4; ++r) {
        const auto report = alone.round(eleven);
        expected.push_back(told(alone, report));
    }
    for (const std::size_t n : {1u, 2u, 3u, 5u, 13u}) {
        const auto seen = heard(n, method, settings);
        for (std::size_t r = 0; r < n; ++r) {
            INFO(n, " ranks, rank ", r);
            CHECK(seen[r] == expected);
        }
    }
}

}  // namespace

namespace {

// A disk that fails on one rank, after its visits.
struct Stumbles {
    static constexpr Offers offers{};
    std::size_t rank = 0;
    std::size_t concurrency() const { return 1; }
    template <class Body>
    void for_each(std::size_t tasks, Body&& body) const {
        for (std::size_t i = 0; i < tasks; ++i) body(i, std::size_t{0});
        if (rank == 1) throw IoError("disk", "is gone");
    }
};

// What f complains of.
template <class F>
std::string said(F&& f) {
    try {
        f();
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

}  // namespace

TEST_CASE("several ranks have the bits of one, and all of them hear the same") {
    SUBCASE("FedAvg") { same_bits(FedAvg<>{}); }
    SUBCASE("FedAvg, kept") { same_bits(FedAvg<>{}, {.keep_uploads = true}); }
    SUBCASE("FedAvg, forgetful clients, a quorum") { same_bits(FedAvg<>{}, {.quorum = 0.5, .stateless = true}); }
    SUBCASE("FedAvg with momentum of the server") { same_bits(FedAvg<rule::Sgd, fold::ServerMomentum<>>{}); }
    SUBCASE("Ditto") { same_bits(Ditto<>{}); }
    SUBCASE("Scaffold") { same_bits(Scaffold<>{}); }
    SUBCASE("FedAlt") { same_bits(FedAlt<>{}); }
    SUBCASE("FedAMP") { same_bits(FedAmp<>{}); }
    SUBCASE("FedFomo") { same_bits(FedFomo<>{}); }
    SUBCASE("FedSpa") { same_bits(FedSpa<>{}); }
    SUBCASE("Local") { same_bits(Local<>{}); }
    SUBCASE("a fold that needs all rows") { same_bits(FedAvg<rule::Sgd, Median>{}); }
    SUBCASE("a fold whose sums cannot travel") { same_bits(FedAvg<rule::Sgd, PrivateSums>{}); }
}

TEST_CASE("a sum that depends on the rank that adds it up is noticed") {
    const FedAvg<rule::Sgd, RankDependent> planted{};
    CHECK(heard(1, planted, {})[0] != heard(3, planted, {})[0]);
}

TEST_CASE("work is shared, states live once, and sums cross") {
    std::size_t kept = 0, most = 0;
    std::mutex lock;
    const std::size_t messages = on_ranks(3, [&](std::shared_ptr<Place> place) {
        auto run = made(Ditto<>{});
        run.spread_over(std::move(place));
        run.round(sample::Uniform{clients});
        std::size_t here = 0;
        for (Id k = 0; k < clients; ++k) {
            here += run.lives_here(k);
            if (!run.lives_here(k)) CHECK_THROWS_AS(run.client(k), Error);
        }
        const std::scoped_lock hold(lock);
        kept += here;
        most = std::max(most, here);
    });
    CHECK(kept == clients);
    CHECK(most < clients);
    CHECK(messages > 0);
}

TEST_CASE("a checkpoint is the file of one process, and goes on on any number of ranks") {
    const support::Folder folder;
    auto alone = made(Ditto<>{});
    alone.run(3, eleven);
    write_checkpoint(folder / "alone", alone, "x");
    alone.run(2, eleven);
    const auto expected = alone.fingerprint();
    for (const std::size_t n : {1u, 2u, 4u}) {
        on_ranks(n, [&](std::shared_ptr<Place> place) {
            auto run = made(Ditto<>{});
            run.spread_over(std::move(place));
            run.run(3, eleven);
            write_checkpoint(folder / "several", run, "x");
        });
        CHECK(io::read_file(folder / "several") == io::read_file(folder / "alone"));
        for (const std::size_t m : {1u, 3u})
            on_ranks(m, [&](std::shared_ptr<Place> place) {
                auto run = made(Ditto<>{});
                run.spread_over(std::move(place));
                read_checkpoint(folder / "several", run, "x");
                run.run(2, eleven);
                CHECK(run.fingerprint() == expected);
            });
    }
}

TEST_CASE("a torn checkpoint is refused on all ranks with the same sentence, and nothing has changed") {
    const support::Folder folder;
    auto alone = made(Ditto<>{});
    alone.run(1, eleven);
    write_checkpoint(folder / "a", alone, "x");
    auto bytes = io::read_file(folder / "a");
    bytes[bytes.size() / 2] ^= std::byte{1};
    io::write_file_atomically(folder / "a", bytes);
    on_ranks(3, [&](std::shared_ptr<Place> place) {
        auto run = made(Ditto<>{});
        run.spread_over(std::move(place));
        const auto before = run.fingerprint();
        CHECK(said([&] { read_checkpoint(folder / "a", run, "x"); }).find("torn") != std::string::npos);
        CHECK(said([&] { read_checkpoint(folder / "none", run, "x"); }).find("none") != std::string::npos);
        CHECK(run.fingerprint() == before);
    });
}


TEST_CASE("a visit that throws on one rank is a round that did not happen on any") {
    on_ranks(3, [&](std::shared_ptr<Place> place) {
        auto run = made(FedAvg<>{});
        run.spread_over(std::move(place));
        run.run(1, eleven);
        const auto before = run.fingerprint();
        // More clients than there are: the plan fails on rank 0, and so on all.
        CHECK_THROWS_AS(run.round(sample::Uniform{clients + 1}), ConfigError);
        CHECK(run.fingerprint() == before);
        CHECK(said([&] { run.round(eleven, Stumbles{.rank = run.ranks().rank()}); }) == "disk: is gone");
        CHECK(run.fingerprint() == before);
        run.run(1, eleven);
        auto alone = made(FedAvg<>{});
        alone.run(2, eleven);
        CHECK(run.fingerprint() == alone.fingerprint());
    });
}

TEST_CASE("budgets end on all ranks at once, and epsilons are those of one process") {
    using Me = Private<FedAvg<rule::DpSgd<support::KeyedNoise>>>;
    Me method;
    method.inner.local.noise = 1;
    method.epsilon = 12;
    auto alone = made(method);
    std::string why;
    std::vector<std::string> states;
    const auto rounds = [&](auto& run, std::vector<std::string>& seen) {
        return said([&] {
            for (int r = 0; r < 60; ++r) seen.push_back(run.round(eleven).state.hex());
        });
    };
    why = rounds(alone, states);
    REQUIRE(!why.empty());
    REQUIRE(states.size() > 1);
    const auto expected = privacy_statement(alone).epsilon;
    on_ranks(3, [&](std::shared_ptr<Place> place) {
        auto run = made(method);
        run.spread_over(std::move(place));
        std::vector<std::string> seen;
        CHECK(rounds(run, seen) == why);
        CHECK(seen == states);
        CHECK(run.fingerprint() == alone.fingerprint());
        CHECK(privacy_statement(run).epsilon == expected);
    });
}

TEST_CASE("theory and models are those of one process") {
    const support::Folder folder;
    auto alone = made(FedAlt<>{});
    alone.run(2, eleven);
    const auto expected = theory_constants(alone, TheorySettings{.power_steps = 3});
    write_models(folder / "alone.npz", alone);
    on_ranks(3, [&](std::shared_ptr<Place> place) {
        auto run = made(FedAlt<>{});
        run.spread_over(std::move(place));
        run.run(2, eleven);
        const auto found = theory_constants(run, TheorySettings{.power_steps = 3});
        CHECK(found.delta == expected.delta);
        CHECK(found.sigma_u == expected.sigma_u);
        CHECK(found.l_uv == expected.l_uv);
        write_models(folder / "several.npz", run);
    });
    CHECK(io::read_file(folder / "several.npz") == io::read_file(folder / "alone.npz"));
}

TEST_CASE("what cannot be shared is a sentence before round one") {
    on_ranks(2, [&](std::shared_ptr<Place> place) {
        auto twice = made(Ditto<>{});
        twice.spread_over(place);
        CHECK_THROWS_AS(twice.spread_over(place), ConfigError);
        Federation<FedAvg<>, Net> different(Net{}, support::toy_data({.clients = clients + place->rank()}), FedAvg<>{});
        CHECK(said([&] { different.spread_over(place); }).find("another model") != std::string::npos);
    });
}

}  // namespace federation_ranks_test
