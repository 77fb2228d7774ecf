// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/privacy/budget.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace budget_test {

using namespace tessera;
using privacy::Forecast;

namespace {

double epsilon_of(Spent s, double delta = 1e-5) { return privacy::guarantee(std::span(&s, 1), delta).epsilon; }

// Three clients, of which the second is small and so pays most a visit, and is visited every other round.
Forecast ten_rounds(double noise = 1) {
    Forecast all;
    all.before.resize(3);
    all.visit = {{{0.02, noise, 50}}, {{0.2, noise, 5}}, {{0.02, noise, 50}}};
    for (std::size_t r = 0; r < 10; ++r)
        all.rounds.push_back(r % 2 == 0 ? std::vector<Id>{0, 1} : std::vector<Id>{0});
    return all;
}

}  // namespace

TEST_CASE("a visit within the budget passes, one beyond it is refused with the client and both numbers") {
    const Vec<Spent> ledger{{0.1, 1, 15}}, price{{0.1, 1, 5}};
    const double spent = epsilon_of({0.1, 1, 20});
    CHECK_FALSE(privacy::over_budget(spent, 1e-5, ledger, price, 7));  // all of it may be spent
    const auto refused = privacy::over_budget(std::nextafter(spent, 0.0), 1e-5, ledger, price, 7);
    REQUIRE(refused);
    CHECK(refused->client == 7);
    CHECK(refused->epsilon == spent);
    CHECK(refused->budget < spent);
    const std::string sentence = BudgetError(*refused).what();
    CHECK(sentence.find("client 7 would have spent an epsilon of " + std::to_string(spent)) == 0);
    CHECK(privacy::over_budget(1e9, 1e-5, {}, {{1, 0, 1}}, 0));        // no noise: infinite
    CHECK_FALSE(privacy::over_budget(0, 1e-5, ledger, {{1, 0, 1}}, 0));  // no budget
}

TEST_CASE("a ledger never begins anew: steps stay at the largest count that is kept, and a larger one is no ledger") {
    Vec<Spent> ledger{{0.1, 1, most_steps - 3}};
    CHECK(valid(ledger));
    spend(ledger, {0.1, 1, 3});
    CHECK(ledger[0].steps == most_steps);
    spend(ledger, {0.1, 1, 1});
    spend(ledger, {0.1, 1, ~std::uint64_t{0}});
    CHECK(ledger[0].steps == most_steps);
    spend(ledger, {0.2, 1, ~std::uint64_t{0}});
    CHECK(ledger[1].steps == most_steps);
    CHECK(valid(ledger));
    CHECK_FALSE(valid({{0.1, 1, most_steps + 1}}));
    CHECK_FALSE(valid({{0.1, 1, ~std::uint64_t{0}}}));  // one more step would make it 0
}

TEST_CASE("a forecast adds up visits, client by client, on top of what is spent") {
    auto all = ten_rounds();
    CHECK(all.dearest(1e-5, 0).epsilon == 0);
    CHECK(all.dearest(1e-5).client == 1);
    CHECK(all.dearest(1e-5).epsilon == epsilon_of({0.2, 1, 25}));
    CHECK(all.dearest(1e-5, 1).epsilon == epsilon_of({0.2, 1, 5}));
    CHECK(all.dearest(1e-5, 99).epsilon == all.dearest(1e-5).epsilon);  // there are ten
    all.before[2] = {{1, 0.5, 3}};  // never visited again, and dearer than all the others
    CHECK(all.dearest(1e-5).client == 2);
    CHECK(all.dearest(1e-5).epsilon == epsilon_of({1, 0.5, 3}));
}

TEST_CASE("the rounds that fit a budget, and not one more") {
    const auto all = ten_rounds();
    for (const double budget : {0.0, 1.0, 2.0, 3.5, 5.0, 100.0}) {
        CAPTURE(budget);
        const auto fit = all.rounds_within(budget, 1e-5);
        CHECK(all.dearest(1e-5, fit).epsilon <= budget);
        if (fit < 10) CHECK(all.dearest(1e-5, fit + 1).epsilon > budget);
    }
    CHECK(all.rounds_within(100, 1e-5) == 10);
    CHECK(all.rounds_within(0, 1e-5) == 0);
}

TEST_CASE("the noise that keeps to a budget: never too little, and little more than needed") {
    const auto all = ten_rounds(0.5);
    for (const double budget : {0.5, 2.0, 8.0}) {
        CAPTURE(budget);
        const double scale = all.scale_within(budget, 1e-5);
        CHECK(all.dearest(1e-5, 10, scale).epsilon <= budget);
        CHECK(all.dearest(1e-5, 10, scale * (1 - 2e-6)).epsilon > budget);  // twice the step of the search
    }
    // One client, one kind of step: as the accountant's own.
    Forecast one{{{}}, {{{0.1, 1, 10}}}, {{0}, {0}}};
    CHECK(one.scale_within(2, 1e-5) == doctest::Approx(privacy::calibrated_noise(0.1, 20, 2, 1e-5)).epsilon(2e-6));
    one.before[0] = {{1, 1, 10}};  // no noise to come undoes what is spent
    CHECK_THROWS_AS(one.scale_within(2, 1e-5), ConfigError);
    CHECK_THROWS_AS(one.scale_within(0, 1e-5), ConfigError);
}

}  // namespace budget_test
