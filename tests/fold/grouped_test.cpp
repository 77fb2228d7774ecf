// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/fold/grouped.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/exec/openmp.hpp>
#include <tessera/fold/owners_mean.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace grouped_test {

using namespace tessera;
using support::same_bits;
using Net = nn::Dnn<support::Toy::width, 5, support::Toy::classes>;

namespace {

// The server keeps what it has.
struct Still {
    static constexpr Offers offers{};
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>&, Rows<real<M>>, Nothing&) const {}
};
template <class Me>
Vec<float> after(const Me& method, std::size_t rounds = 3) {
    Federation<Me, Net> run{{}, support::toy_data(), method, {.seed = 3, .batch = 5, .rounds = 9}};
    run.run(rounds, sample::Everyone{});
    return run.server().w;
}
template <class Fold>
Vec<float> folded(const Fold& fold = {}, std::size_t rounds = 3) {
    return after(FedAvg<rule::Sgd, Fold>{.local = {.rate = 0.1}, .fold = fold}, rounds);
}

TEST_CASE("the same fold in both groups is that fold, with its memory; another one is not") {
    CHECK(same_bits(folded<fold::Grouped<scope::Head, fold::Mean>>(), folded<fold::Mean>()));
    using Momentum = fold::ServerMomentum<>;
    CHECK(same_bits(folded<fold::Grouped<scope::Head, Momentum, Momentum>>(), folded<Momentum>()));
    using Adam = fold::ServerAdam<>;
    CHECK(same_bits(folded<fold::Grouped<scope::Head, Adam, Adam>>(), folded<Adam>()));
    CHECK_FALSE(same_bits(folded<fold::Grouped<scope::Head, Adam>>(), folded<Adam>()));
}

TEST_CASE("every group goes its own way") {
    const auto w0 = folded<fold::Mean>({}, 0), both = folded<fold::Mean>({}, 1);
    const auto still = folded<fold::Grouped<scope::Head, Still>>({}, 1);
    const auto twice = folded<fold::Grouped<scope::Head, fold::Relax<>, Still>>({.selected = {.beta = 2}}, 1);
    const Coordinates head = on(scope::Head{}, Net{});
    for (std::size_t j = 0; j < w0.size(); ++j) {
        const bool in = head.covers({j, j + 1});
        CHECK(still[j] == (in ? w0[j] : both[j]));
        CHECK(twice[j] == (in ? static_cast<float>(2.0 * static_cast<double>(both[j]) - static_cast<double>(w0[j]))
                              : w0[j]));
    }
}

TEST_CASE("rows with masks are cut with them") {
    using Both = fold::Grouped<scope::Head, fold::OwnersMean, fold::OwnersMean>;
    const auto spa = [](auto fold) {
        return after(FedSpa<mask::DynamicSparse, rule::Sgd, decltype(fold)>{.first = FirstMasks::different});
    };
    CHECK(same_bits(spa(Both{}), spa(fold::OwnersMean{})));
    CHECK_FALSE(same_bits(spa(fold::Grouped<scope::Head, fold::OwnersMean>{}), spa(fold::OwnersMean{})));
    static_assert(!accepts_masks<fold::Grouped<scope::Head, Still>>);
}

struct Biases {  // of the laws' model, which has one layer
    static constexpr Offers offers{};
    static constexpr bool selects(const Segment& s) { return s.rank == 1; }
};
// Streams one group by the layout of the other; keeps as it should.
struct Swapped : fold::Grouped<Biases, fold::Relax<>> {
    using Base = fold::Grouped<Biases, fold::Relax<>>;
    static constexpr Offers offers = Base::offers;
    template <class R>
    void lift(const Row<R>& row, const Vec<R>& before, Sum<R>& sum, Layout layout) const {
        Base::lift(row, before, sum, layout.first(1));
    }
    template <class R>
    void lift(Rows<R> rows, const Vec<R>& before, Sum<R>& sum, Layout layout) const {
        Base::lift(rows, before, sum, layout.first(1));
    }
};

TEST_CASE("grouped: the laws of a fold, streamed with the bits of kept") {
    const conformance::FoldLaws optimizer{.returns_rows = false};
    CHECK(conformance::fold<fold::Grouped<scope::All, fold::Mean>>().empty());
    CHECK(conformance::fold<fold::Grouped<scope::All, fold::ServerMomentum<>>>({}, optimizer).empty());
    CHECK(conformance::fold<fold::Grouped<Biases, fold::Mean>>().empty());
    CHECK(conformance::fold<fold::Grouped<Biases, fold::Relax<>, fold::ServerAdam<>>>({}, optimizer).empty());
    const conformance::FoldLaws owners{.absent_reads_unchanged = false};
    CHECK(conformance::fold<fold::Grouped<Biases, fold::OwnersMean, fold::OwnersMean>>({}, owners).empty());
    const auto complaints = conformance::fold<Swapped>();
    REQUIRE_FALSE(complaints.empty());
    CHECK(complaints[0].find("has the bits of a kept one") != std::string::npos);
}

TEST_CASE("grouped: whether it streams, and how many neighbours at once") {
    const auto streams = []<class F>(const F&) { return StreamingMethod<FedAvg<rule::Sgd, F>, Net>; };
    using Wide = fold::Grouped<scope::Head, fold::ServerMomentum<>>;
    using Single = fold::Grouped<scope::Head, fold::OwnersMean>;
    static_assert(lift_width<Wide> == lift_width<fold::Mean> && lift_width<Single> == 1);
    CHECK(streams(Wide{}));
    CHECK(streams(Single{}));
    CHECK(streams(fold::Relax<Wide>{}));
    CHECK_FALSE(streams(fold::Grouped<scope::Head, Still>{}));
    CHECK_FALSE(streams(fold::Grouped<scope::Head, fold::Mean, Still>{}));
}

// The server's w after two rounds of 21 uploads that come in any order, from three threads; some never do.
template <class F>
Vec<float> received(const F& fold, bool keep, std::uint64_t order, std::uint32_t gone) {
    constexpr std::size_t seats = 21;  // two groups of eight neighbours and one of five
    using Me = FedAvg<rule::Sgd, F>;
    const Setup<Me, Net> setup({}, {.fold = fold}, {.seed = 3, .rounds = 9, .keep_uploads = keep});
    Server<Me, Net> server(setup, seats);
    for (std::size_t round = 0; round < 2; ++round) {
        Plan plan;
        for (std::size_t p = 0; p < seats; ++p) plan.push_back({.client = static_cast<Id>(p)});
        server.open_round(plan);
        std::vector<Id> arrivals(seats);
        std::iota(arrivals.begin(), arrivals.end(), Id{0});
        Stream(Key{order}).shuffle(std::span<Id>(arrivals));
        exec::OpenMp{3}.for_each(seats, [&](std::size_t i, std::size_t) {
            const Id k = arrivals[i];
            if (gone >> k & 1) return;
            Up<float> up{.x = {}, .weight = static_cast<double>(1 + k % 4)};
            Stream draw(Key{17}(round)(k));
            for (std::size_t j = 0; j < Net::parameters; ++j) up.x.push_back(static_cast<float>(draw.normal()));
            CHECK(server.accept(k, std::move(up)) == Verdict::accepted);
        });
        CHECK(server.close_round().counted);
    }
    return server.state().w;
}

TEST_CASE("streamed uploads give the bits of kept ones: any order of arrival, from any thread, with some who never come") {
    const auto check = [](const auto& fold) {
        for (const std::uint32_t gone : {0u, 1u << 20, 0xffu << 8, 0x155555u}) {
            const auto expected = received(fold, true, 0, gone);
            for (const std::uint64_t order : {1u, 2u, 3u}) CHECK(same_bits(received(fold, false, order, gone), expected));
        }
        CHECK_FALSE(same_bits(received(fold, true, 0, 0), received(fold, true, 0, 1)));
    };
    check(fold::Grouped<scope::Head, fold::ServerMomentum<>>{});
    check(fold::Grouped<scope::Head, fold::ServerAdam<>, fold::OwnersMean>{});  // eight at once, and one
    check(fold::Relax<fold::Grouped<scope::Head, fold::Mean, fold::Relax<>>>{.beta = 0.5});
}

TEST_CASE("what cannot be meant is said before round one") {
    CHECK_THROWS_AS((folded<fold::Grouped<scope::Chosen, Still>>({.group = "adapter"})), ConfigError);
    using Partial = FedAlt<scope::Head, rule::Sgd, fold::Grouped<scope::Chosen, Still>>;
    CHECK_THROWS_WITH_AS(after(Partial{.fold = {.group = "input"}}),
                         doctest::Contains("asks a scope about a whole model"), ConfigError);
}

}  // namespace
}  // namespace grouped_test
