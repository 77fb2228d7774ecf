// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/sample/poisson.hpp>

#include <cmath>
#include <cstddef>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/sample/everyone.hpp>

namespace poisson_test {

using namespace tessera;

namespace {
std::vector<Candidate> clients(std::size_t n) {
    std::vector<Candidate> all;
    for (std::size_t k = 0; k < n; ++k) all.push_back({static_cast<Id>(k), 50 + k});
    return all;
}
}  // namespace

TEST_CASE("every client comes by itself, with the rate that was asked for") {
    static_assert(Sampler<sample::Poisson>);
    const auto all = clients(40);
    constexpr std::size_t rounds = 5000;
    double seats = 0, pairs = 0, empty = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
        const auto plan = sample::Poisson{.rate = 0.05}.plan(Key{7}, round, all);
        std::set<Id> who;
        for (const auto& seat : plan) {
            CHECK(seat.merged);
            who.insert(seat.client);
        }
        CHECK(who.size() == plan.size());
        seats += static_cast<double>(plan.size());
        pairs += who.contains(3) && who.contains(4);
        empty += plan.empty();
    }
    // Binomial: 200,000 draws at 0.05 have deviation 97; 5,000 at 0.05^2 have 3.5, at 0.95^40 = 0.1285 have 23.7. Five each.
    CHECK(std::abs(seats - 10000) < 5 * 97);
    CHECK(std::abs(pairs - 12.5) < 5 * 3.6);
    CHECK(std::abs(empty - 642.6) < 5 * 23.7);
}

TEST_CASE("rate 1 is everybody, and the choice reads keys, not numbers") {
    auto all = clients(17);
    const auto everyone = sample::Everyone{}.plan(Key{5}, 2, all), whole = sample::Poisson{.rate = 1}.plan(Key{5}, 2, all);
    REQUIRE(whole.size() == everyone.size());
    for (std::size_t i = 0; i < whole.size(); ++i) CHECK(whole[i].client == everyone[i].client);
    const auto some = sample::Poisson{.rate = 0.4}.plan(Key{5}, 2, all);
    for (auto& c : all) c.client += 100;
    const auto renamed = sample::Poisson{.rate = 0.4}.plan(Key{5}, 2, all);
    REQUIRE(renamed.size() == some.size());
    for (std::size_t i = 0; i < some.size(); ++i) CHECK(renamed[i].client == some[i].client + 100);
    CHECK(sample::Poisson{.rate = 0.4}.plan(Key{6}, 2, all).size() != 17);
}

TEST_CASE("a rate outside (0, 1] is refused") {
    for (const double rate : {0.0, -0.1, 1.5, std::nan("")})
        CHECK_THROWS_AS((sample::Poisson{.rate = rate}.plan(Key{1}, 0, clients(3))), ConfigError);
}

}  // namespace poisson_test
