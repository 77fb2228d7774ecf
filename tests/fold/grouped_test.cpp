// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/fold/grouped.hpp>

#include <cstddef>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/core/scope.hpp>
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

TEST_CASE("grouped: the laws of a fold") {
    CHECK(conformance::fold<fold::Grouped<scope::All, fold::Mean>>().empty());
    CHECK(conformance::fold<fold::Grouped<scope::All, fold::ServerMomentum<>>>({}, {.returns_rows = false}).empty());
}

TEST_CASE("what cannot be meant is said before round one") {
    CHECK_THROWS_AS((folded<fold::Grouped<scope::Chosen, Still>>({.group = "adapter"})), ConfigError);
    using Partial = FedAlt<scope::Head, rule::Sgd, fold::Grouped<scope::Chosen, Still>>;
    CHECK_THROWS_WITH_AS(after(Partial{.fold = {.group = "input"}}),
                         doctest::Contains("asks a scope about a whole model"), ConfigError);
}

}  // namespace
}  // namespace grouped_test
