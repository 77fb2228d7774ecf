// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/sample/uniform.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace uniform_test {

using namespace tessera;

namespace {

std::vector<Candidate> people(std::size_t n, std::uint64_t first_key = 0) {
    std::vector<Candidate> all;
    for (std::size_t k = 0; k < n; ++k) all.push_back({static_cast<Id>(k), first_key + k});
    return all;
}
std::vector<Id> ids(const Plan& plan) {
    std::vector<Id> all;
    for (const auto& seat : plan) all.push_back(seat.client);
    return all;
}

// How often each of 20 is chosen, five a round; `chosen` gives the ids of a round. For draws without replacement the
// counts have variance R p (1 - p) and sum to a constant, so (N-1)/N * sum (O - E)^2 / (R p (1-p)) is chi-square with
// N - 1 = 19 degrees of freedom: 99.9 % of seeds give less than 43.8 and 99.9 % more than 5.4. Ours is one fixed seed.
template <class F>
double chi_square(F chosen) {
    constexpr double rounds = 4000, p = 0.25, n = 20;
    std::vector<double> times(20);
    for (std::size_t r = 0; r < 4000; ++r)
        for (const Id k : chosen(r)) ++times[k];
    double sum = 0;
    for (const double t : times) sum += (t - rounds * p) * (t - rounds * p) / (rounds * p * (1 - p));
    return sum * (n - 1) / n;
}

}  // namespace

TEST_CASE("as many as asked, all distinct, all of them candidates") {
    static_assert(Sampler<sample::Uniform>);
    const auto all = people(31);
    for (std::size_t count = 0; count <= 31; ++count)
        for (std::size_t round = 0; round < 5; ++round) {
            const auto plan = sample::Uniform{count}.plan(Key{1}, round, all);
            const auto chosen = ids(plan);
            CHECK(plan.size() == count);
            CHECK(std::set<Id>(chosen.begin(), chosen.end()).size() == count);
            CHECK(std::all_of(plan.begin(), plan.end(), [](const Seat& s) { return s.client < 31 && s.merged; }));
        }
}

TEST_CASE("uniform over clients, and over who comes first") {
    const auto all = people(20);
    const sample::Uniform five{5};
    const double spread = chi_square([&](std::size_t r) { return ids(five.plan(Key{7}, r, all)); });
    CHECK(spread < 43.8);
    CHECK(spread > 5.4);
    // First seats of five rounds: draws with replacement, whose statistic sum (O - E)^2 / E is 0.75 * 20 / 19 of ours.
    const double first = chi_square([&](std::size_t r) {
        std::vector<Id> firsts;
        for (std::size_t i = 0; i < 5; ++i) firsts.push_back(ids(five.plan(Key{8}, 5 * r + i, all))[0]);
        return firsts;
    });
    CHECK(first * 0.75 * 20 / 19 < 43.8);
    // Controls: a sampler with a favourite, and one that takes turns too regularly.
    CHECK(chi_square([&](std::size_t r) {
              auto chosen = ids(five.plan(Key{7}, r, all));
              if (r % 10 == 0 && std::find(chosen.begin(), chosen.end(), Id{3}) == chosen.end()) chosen[0] = 3;
              return chosen;
          }) > 43.8);
    CHECK(chi_square([](std::size_t r) {
              std::vector<Id> turn;
              for (std::size_t i = 0; i < 5; ++i) turn.push_back(static_cast<Id>((5 * r + i) % 20));
              return turn;
          }) < 5.4);
}

TEST_CASE("a function of seed, round and keys only") {
    const auto all = people(20, 100);
    const sample::Uniform six{6};
    const auto expected = ids(six.plan(Key{1}, 4, all));
    CHECK(ids(six.plan(Key{1}, 4, all)) == expected);
    CHECK(ids(six.plan(Key{2}, 4, all)) != expected);
    CHECK(ids(six.plan(Key{1}, 5, all)) != expected);
    CHECK(ids(six.plan(Key{1}, 4, people(20, 200))) != expected);

    // Relabelled: the same clients in the same order, under their new names, however the list is ordered.
    auto renamed = all;
    std::reverse(renamed.begin(), renamed.end());
    for (auto& c : renamed) c.client = (c.client * 7 + 3) % 20;
    std::vector<Id> translated;
    for (const Id k : expected) translated.push_back((k * 7 + 3) % 20);
    CHECK(ids(six.plan(Key{1}, 4, renamed)) == translated);

    // A larger draw begins with the smaller one.
    auto more = ids(sample::Uniform{11}.plan(Key{1}, 4, all));
    more.resize(6);
    CHECK(more == expected);
}

TEST_CASE("those with the smallest draws, in their order, among few and among many") {
    for (const std::size_t n : {1u, 5u, 511u, 512u, 513u, 5000u}) {
        const auto all = people(n, 77);
        std::vector<std::pair<std::uint64_t, Id>> expected;
        for (const auto& c : all)
            expected.emplace_back(Stream(Key{9}(purpose::sampling)(3)(c.key)).word64(), c.client);
        std::sort(expected.begin(), expected.end());
        for (const std::size_t count : {std::size_t{1}, n / 3, n - 1, n}) {
            CAPTURE(n);
            CAPTURE(count);
            std::vector<Id> first;
            for (std::size_t i = 0; i < count; ++i) first.push_back(expected[i].second);
            CHECK(ids(sample::Uniform{count}.plan(Key{9}, 3, all)) == first);
        }
    }
}

TEST_CASE("clients with equal keys are told apart by their number") {
    std::vector<Candidate> twins;
    for (Id k = 0; k < 6; ++k) twins.push_back({k, 42});
    CHECK(ids(sample::Uniform{3}.plan(Key{1}, 0, twins)) == std::vector<Id>{0, 1, 2});
    std::reverse(twins.begin(), twins.end());
    CHECK(ids(sample::Uniform{3}.plan(Key{1}, 0, twins)) == std::vector<Id>{0, 1, 2});
}

TEST_CASE("everyone trains, `count` are merged, and these are the ones who would have been chosen") {
    const auto all = people(12);
    for (std::size_t round = 0; round < 8; ++round) {
        const auto plan = sample::Uniform{.count = 4, .everyone_trains = true}.plan(Key{3}, round, all);
        const auto chosen = ids(sample::Uniform{4}.plan(Key{3}, round, all));
        const auto seated = ids(plan);
        CHECK(plan.size() == 12);
        CHECK(std::set<Id>(seated.begin(), seated.end()).size() == 12);
        for (std::size_t i = 0; i < 12; ++i) {
            CHECK(plan[i].merged == (i < 4));
            if (i < 4) CHECK(plan[i].client == chosen[i]);
        }
    }
}

TEST_CASE("more than there are is refused with a sentence") {
    const auto all = people(3);
    CHECK_THROWS_WITH_AS(sample::Uniform{4}.plan(Key{1}, 0, all),
                         "per_round is 4 but only 3 clients have training data", ConfigError);
    CHECK_NOTHROW(sample::Uniform{3}.plan(Key{1}, 0, all));
    CHECK_THROWS_AS((sample::Uniform{.count = 4, .everyone_trains = true}.plan(Key{1}, 0, all)), ConfigError);
}

}  // namespace uniform_test
