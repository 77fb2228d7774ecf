// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/data/partition.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/hash.hpp>

namespace partition_test {

namespace {

using namespace tessera;
using namespace tessera::data;
using doctest::Contains;

Dataset pool_of(std::vector<std::int32_t> labels, std::size_t classes) {
    std::vector<std::uint8_t> rows(labels.size());
    return Dataset::own(std::move(rows), std::move(labels), classes);
}

// 0 1 2 ... classes-1 0 1 2 ...: every file of a multiple of `classes` examples is balanced.
Dataset balanced(std::size_t size, std::size_t classes = 10) {
    std::vector<std::int32_t> labels(size);
    for (std::size_t i = 0; i < size; ++i) labels[i] = static_cast<std::int32_t>(i % classes);
    return pool_of(std::move(labels), classes);
}

std::vector<std::size_t> counts(const Dataset& pool, const std::vector<Index>& part) {
    std::vector<std::size_t> count(pool.examples().classes);
    for (const Index i : part) ++count[static_cast<std::size_t>(pool.label(i))];
    return count;
}

std::size_t present(const std::vector<std::size_t>& count) {
    return static_cast<std::size_t>(std::count_if(count.begin(), count.end(), [](std::size_t n) { return n > 0; }));
}

double largest_share(const Dataset& pool, const std::vector<Index>& part) {
    const auto count = counts(pool, part);
    return static_cast<double>(*std::max_element(count.begin(), count.end())) / static_cast<double>(part.size());
}

double mean_largest_share(const Dataset& pool, const Split& split) {
    double sum = 0;
    for (const auto& share : split.clients) sum += largest_share(pool, share.train);
    return sum / static_cast<double>(split.clients.size());
}

std::size_t size_of(const Share& share) { return share.train.size() + share.validation.size() + share.test.size(); }

std::size_t size_of(const Split& split) {
    std::size_t n = split.server.size();
    for (const auto& share : split.clients) n += size_of(share);
    for (const auto& share : split.unseen) n += size_of(share);
    return n;
}

bool same(const Share& a, const Share& b) {
    return a.train == b.train && a.validation == b.validation && a.test == b.test && a.key == b.key;
}

bool same(const Split& a, const Split& b) {
    const auto equal = [](const Share& x, const Share& y) { return same(x, y); };
    return std::equal(a.clients.begin(), a.clients.end(), b.clients.begin(), b.clients.end(), equal) &&
           std::equal(a.unseen.begin(), a.unseen.end(), b.unseen.begin(), b.unseen.end(), equal) &&
           a.server == b.server;
}

std::uint64_t hash_of(const Split& split) {
    Hasher hasher;
    for (const auto& share : split.clients) {
        for (const auto* part : {&share.train, &share.validation, &share.test}) {
            hasher.word(part->size());
            for (const Index i : *part) hasher.word(i);
        }
        hasher.word(share.key);
    }
    return hasher.finish().low;
}

std::string sentence(const Split& split, std::size_t examples, Tests tests) {
    return fault_in(split, examples, tests).value_or("");
}

// Every name of the parser, and whether it promises that no example has two owners.
struct Named {
    std::string name;
    Tests tests;
};
const std::vector<Named> every_partition{
    {"iid", Tests::disjoint},
    {"shards:2", Tests::shared},
    {"lognormal:2", Tests::disjoint},
    {"natural", Tests::disjoint},
    {"dirichlet:0.3", Tests::shared},
    {"dirichlet-fixed:0.6", Tests::disjoint},
    {"dirichlet-unbalanced:0.1", Tests::disjoint},
};

std::vector<Id> owners(std::size_t examples, std::size_t clients) {
    std::vector<Id> owner(examples);
    for (std::size_t i = 0; i < examples; ++i) owner[i] = static_cast<Id>(i * 7 % clients);
    return owner;
}

}  // namespace

TEST_CASE("every partition gives an example to at most one trainer (L-DATA-1)") {
    const auto pool = balanced(3500);
    const auto owner = owners(3500, 20);
    for (const auto& [name, tests] : every_partition) {
        CAPTURE(name);
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
            const auto split = partition_by_name(
                name, pool,
                {.clients = 20, .seed = seed, .train_size = 3000, .validation = 0.1, .unseen = 4, .client_of = owner});
            CHECK(sentence(split, pool.size(), tests) == "");
            CHECK(split.clients.size() == 16);
            CHECK(split.unseen.size() == 4);
        }
    }
}

TEST_CASE("label-matched tests do overlap between clients, and the strict rule sees it") {
    const auto pool = balanced(3500);
    const auto split = Dirichlet{}(pool, {.clients = 20, .train_size = 3000});
    CHECK(sentence(split, pool.size(), Tests::disjoint) != "");
    CHECK(sentence(split, pool.size(), Tests::shared) == "");
}

TEST_CASE("a broken split is found out") {
    const auto pool = balanced(100);
    const auto good = Iid{}(pool, {.clients = 4, .train_size = 80, .validation = 0.25, .unseen = 1});
    REQUIRE(sentence(good, 100, Tests::disjoint) == "");
    const auto broken = [&](auto&& change, Tests tests = Tests::disjoint) {
        Split split = good;
        change(split);
        return sentence(split, 100, tests);
    };

    CHECK(broken([](Split& s) { s.clients[1].train[3] = 100; }) == "client 1 holds example 100, but the pool has 100");
    const auto twice = std::to_string(good.clients[2].train[0]);
    CHECK(broken([](Split& s) { s.clients[2].train.push_back(s.clients[2].train[0]); }) ==
          "client 2 holds example " + twice + " twice");
    CHECK(broken([](Split& s) { s.clients[2].validation[0] = s.clients[2].train[0]; }) ==
          "client 2 holds example " + twice + " twice");
    CHECK(broken([](Split& s) { s.clients[2].test[0] = s.clients[2].train[0]; }, Tests::shared) ==
          "client 2 holds example " + twice + " twice");
    CHECK(broken([](Split& s) { s.unseen[0].train[0] = s.clients[2].train[0]; }) ==
          "unseen client 0 holds example " + twice + ", which client 2 holds already");
    CHECK(broken([](Split& s) { s.unseen[0].test[0] = s.clients[2].train[0]; }, Tests::shared) ==
          "unseen client 0 holds example " + twice + ", which client 2 holds already");
    CHECK(broken([](Split& s) { s.server = {s.clients[2].train[0]}; }) ==
          "the server holds example " + twice + ", which client 2 holds already");

    const auto test = std::to_string(good.clients[0].test[0]);
    const auto share_test = [](Split& s) { s.clients[1].test[0] = s.clients[0].test[0]; };
    CHECK(broken(share_test) == "client 1 holds example " + test + ", which client 0 holds already");
    CHECK(broken(share_test, Tests::shared) == "");
    CHECK(broken([](Split& s) { s.clients[1].train[0] = s.clients[0].test[0]; }, Tests::shared) ==
          "client 1 holds example " + test + ", which client 0 holds already");
}

TEST_CASE("equal arguments give equal splits, other seeds others") {
    const auto pool = balanced(3500);
    const auto owner = owners(3500, 20);
    for (const auto& [name, tests] : every_partition) {
        CAPTURE(name);
        PartitionSettings settings{
            .clients = 20, .seed = 3, .train_size = 3000, .validation = 0.2, .unseen = 2, .client_of = owner};
        const auto first = partition_by_name(name, pool, settings);
        CHECK(same(first, partition_by_name(name, pool, settings)));
        settings.seed = 4;
        CHECK_FALSE(same(first, partition_by_name(name, pool, settings)));
    }
}

TEST_CASE("splits are the same on every machine") {
    // Written down from the first version. These two draw whole numbers only, so not even the C library matters.
    const auto pool = balanced(700);
    CHECK(hash_of(Iid{}(pool, {.clients = 7, .seed = 1, .train_size = 600})) == 18307391648225808472u);
    CHECK(hash_of(Shards{}(pool, {.clients = 7, .seed = 1, .train_size = 600})) == 8447304603327987651u);
}

TEST_CASE("holding clients out and keeping validation examples change nothing else") {
    const auto pool = balanced(3500);
    const auto owner = owners(3500, 20);
    for (const auto& [name, tests] : every_partition) {
        CAPTURE(name);
        PartitionSettings settings{.clients = 20, .seed = 9, .train_size = 3000, .client_of = owner};
        const auto whole = partition_by_name(name, pool, settings);
        std::set<std::uint64_t> keys;
        for (const auto& share : whole.clients) keys.insert(share.key);
        CHECK(keys.size() == 20);

        settings.unseen = 3;
        const auto three = partition_by_name(name, pool, settings);
        settings.unseen = 8;
        const auto eight = partition_by_name(name, pool, settings);
        const auto original = [&](const Share& share) {
            return std::any_of(whole.clients.begin(), whole.clients.end(), [&](auto& w) { return same(w, share); });
        };
        const auto held_in_eight = [&](const Share& share) {
            return std::any_of(eight.unseen.begin(), eight.unseen.end(), [&](auto& u) { return same(u, share); });
        };
        CHECK(eight.clients.size() == 12);
        CHECK(std::all_of(eight.clients.begin(), eight.clients.end(), original));
        CHECK(std::all_of(eight.unseen.begin(), eight.unseen.end(), original));
        CHECK(std::all_of(three.unseen.begin(), three.unseen.end(), held_in_eight));

        settings.unseen = 0;
        settings.validation = 0.29;
        const auto validated = partition_by_name(name, pool, settings);
        for (std::size_t k = 0; k < 20; ++k) {
            const auto &before = whole.clients[k], &after = validated.clients[k];
            CHECK(after.key == before.key);
            CHECK(after.test == before.test);
            CHECK(after.validation.size() == before.train.size() * 29 / 100);
            auto joined = after.train;
            joined.insert(joined.end(), after.validation.begin(), after.validation.end());
            CHECK(std::is_permutation(joined.begin(), joined.end(), before.train.begin(), before.train.end()));
        }
    }
}

TEST_CASE("which clients are held out is a draw, not a range") {
    const auto pool = balanced(100);
    std::set<std::uint64_t> ever;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const auto split = Natural{}(pool, {.clients = 5, .seed = seed, .unseen = 1, .client_of = owners(100, 5)});
        ever.insert(split.unseen[0].train[0] * 7 % 5);
    }
    CHECK(ever.size() == 5);
}

TEST_CASE("validation leaves at least one training example") {
    const auto split = Iid{}(balanced(10), {.clients = 5, .train_size = 10, .validation = 0.999});
    for (const auto& share : split.clients) CHECK(share.train.size() == 1);
}

TEST_CASE("iid deals both files whole, in equal parts") {
    const auto pool = balanced(1103);
    const auto split = Iid{}(pool, {.clients = 7, .seed = 2, .train_size = 1000});
    CHECK(size_of(split) == 1103);
    for (const auto& share : split.clients) {
        CHECK(share.train.size() / 142 == 1);  // 1000 / 7 = 142.9
        CHECK(share.train.size() <= 143);
        CHECK((share.test.size() == 14 || share.test.size() == 15));
        CHECK(*std::max_element(share.train.begin(), share.train.end()) < 1000);
        CHECK(*std::min_element(share.test.begin(), share.test.end()) >= 1000);
        // 143 draws of ten equal classes: 14.3 +- 3.6, so 35 is over five deviations away.
        CHECK(largest_share(pool, share.train) < 35.0 / 142);
    }
}

TEST_CASE("shards by hand") {
    const auto pool = pool_of({1, 0, 1, 0, 0, 1, 0, 1, /* test */ 0, 1, 0, 1}, 2);
    const auto one = Shards{.pieces = 1}(pool, {.clients = 4, .train_size = 8});
    std::size_t zeros = 0;
    for (const auto& share : one.clients) {
        CHECK(share.train.size() == 2);
        CHECK(present(counts(pool, share.train)) == 1);
        CHECK(share.test.size() == 1);  // target ceil(4 / 4), all of one label
        CHECK(pool.label(share.test[0]) == pool.label(share.train[0]));
        zeros += pool.label(share.train[0]) == 0;
    }
    CHECK(zeros == 2);
    CHECK(size_of(one) == 12);
}

TEST_CASE("shards gives K pieces of the file sorted by label") {
    const auto pool = balanced(7000);
    const auto split = Shards{.pieces = 2}(pool, {.clients = 100, .seed = 5, .train_size = 6000});
    std::size_t dealt = 0;
    for (const auto& share : split.clients) {
        CHECK(share.train.size() == 60);
        const auto count = counts(pool, share.train);
        CHECK(present(count) <= 2);
        for (const auto n : count) CHECK(n % 30 == 0);
        dealt += share.train.size();
    }
    CHECK(dealt == 6000);
}

TEST_CASE("label-matched tests hold ceil(target * share) of each label (L-DATA-3)") {
    const auto pool = balanced(7000);
    const PartitionSettings settings{.clients = 10, .seed = 1, .train_size = 6000};
    for (const double alpha : {0.1, 0.3, 10.0}) {
        const auto split = Dirichlet{.alpha = alpha}(pool, settings);
        for (const auto& share : split.clients) {
            const auto train = counts(pool, share.train), test = counts(pool, share.test);
            for (std::size_t c = 0; c < 10; ++c) CHECK(test[c] == (100 * train[c] + 599) / 600);
            CHECK(share.test.size() >= 100);
            CHECK(share.test.size() <= 100 + present(train));
        }
    }
}

TEST_CASE("label-matched tests take what there is of a small label") {
    const auto pool = pool_of({0, 0, 0, 0, 1, 1, 1, 1, /* test */ 0, 1, 1, 1, 1, 1}, 2);
    const auto split = Shards{.pieces = 1}(pool, {.clients = 2, .train_size = 8});
    for (const auto& share : split.clients)  // the target is 3, but class 0 has one test example
        CHECK(share.test.size() == (pool.label(share.train[0]) == 0 ? 1 : 3));
}

TEST_CASE("without a test file there are no tests") {
    const auto pool = balanced(100);
    for (const auto& name : {"iid", "shards:2", "dirichlet:1", "dirichlet-fixed:1", "dirichlet-unbalanced:1"}) {
        const auto split = partition_by_name(name, pool, {.clients = 4, .train_size = 100});
        for (const auto& share : split.clients) CHECK(share.test.empty());
    }
}

TEST_CASE("lognormal: client u holds classes u, u+1, ... and trains on three quarters (L-DATA-2)") {
    const auto pool = balanced(70000);
    for (const std::size_t labels : {1u, 2u, 3u, 10u}) {
        const auto split = LogNormal{.labels = labels}(pool, {.clients = 100, .seed = labels});
        for (std::size_t u = 0; u < 100; ++u) {
            const auto& share = split.clients[u];
            auto all = share.train;
            all.insert(all.end(), share.test.begin(), share.test.end());
            CHECK(share.train.size() == all.size() * 3 / 4);
            const auto count = counts(pool, all);
            for (std::size_t c = 0; c < 10; ++c) {
                const bool mine = (c + 10 - u % 10) % 10 < labels;
                CHECK((mine ? count[c] >= 10 : count[c] == 0));
            }
        }
    }
}

TEST_CASE("lognormal: sizes are those of the scripts") {
    // The original script over 200 seeds: total 46.0k, smallest 71, median 322, largest 3.5k. The mean of 50 seeds
    // has deviations of 570, 4.1, 2.9 and 185 (from 400 seeds); the bands are four of them.
    const auto pool = balanced(70000);
    constexpr std::size_t clients = 100, seeds = 50;
    double total = 0, smallest = 0, median = 0, largest = 0;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        const auto split = LogNormal{.labels = 2}(pool, {.clients = clients, .seed = seed});
        std::vector<double> sizes;
        for (const auto& share : split.clients) sizes.push_back(static_cast<double>(size_of(share)));
        std::sort(sizes.begin(), sizes.end());
        total += std::accumulate(sizes.begin(), sizes.end(), 0.0) / seeds;
        smallest += sizes.front() / seeds;
        median += (sizes[49] + sizes[50]) / 2 / seeds;
        largest += sizes.back() / seeds;
    }
    CHECK(std::abs(total - 46000) < 2280);
    CHECK(std::abs(smallest - 71) < 16.4);
    CHECK(std::abs(median - 322) < 11.6);
    CHECK(std::abs(largest - 3500) < 740);
}

TEST_CASE("lognormal: twenty clients or fewer get doubled counts") {
    // sigma 0 makes P flat: (7000 - 1000) / (N * 1) = 6000 / N per client, before the draws.
    const auto pool = balanced(70000);
    const auto mean_size = [&](std::size_t clients) {
        double sum = 0, n = 0;
        for (std::uint64_t seed = 0; seed < 40; ++seed)
            for (const auto& share :
                 LogNormal{.labels = 1, .sigma = 0, .held_back = 7000}(pool, {.clients = clients, .seed = seed})
                     .clients) {
                sum += static_cast<double>(size_of(share));
                ++n;
            }
        return sum / n;
    };
    // P is 0 here, so a client has 10 + U(10..200), mean 115, or 10 + 2 U, mean 220. U has deviation 55.
    CHECK(std::abs(mean_size(21) - 115) < 4 * 55 / std::sqrt(40 * 21.0));
    CHECK(std::abs(mean_size(20) - 220) < 4 * 110 / std::sqrt(40 * 20.0));
}

TEST_CASE("lognormal: few clients, many clients and small pools") {
    for (const std::size_t clients : {1u, 2u, 9u, 10u, 11u, 19u, 29u, 250u})
        for (const std::size_t size : {5000u, 70000u}) {
            CAPTURE(clients);
            const auto pool = balanced(size);
            const auto split = LogNormal{}(pool, {.clients = clients, .seed = 1});
            CHECK(sentence(split, size, Tests::disjoint) == "");
        }
    const auto pool = balanced(100);  // ten of each class: the first ten clients with one label take all
    CHECK(size_of(LogNormal{.labels = 1}(pool, {.clients = 10})) == 100);
    CHECK_THROWS_WITH_AS(LogNormal{.labels = 1}(pool, {.clients = 11}), Contains("client 10 has no training example"),
                         ConfigError);
    CHECK(LogNormal{.labels = 1}(pool, {.clients = 11, .allow_empty = true}).clients[10].train.empty());
}

TEST_CASE("a class is drawn by preference, and uniformly when the preferred are used up") {
    Stream stream{Key{1}};
    const std::array<double, 3> only_first{1, 0, 0};
    data::detail::ClassLists left{{5}, {6, 7}, {8}};
    for (int i = 0; i < 100; ++i) CHECK(data::detail::draw_class(stream, only_first, left) == 0);
    left[0].clear();
    std::array<int, 3> seen{};
    for (int i = 0; i < 1000; ++i) ++seen[data::detail::draw_class(stream, only_first, left)];
    CHECK(seen[0] == 0);
    CHECK(std::abs(seen[1] - 500) < 80);  // five deviations of 15.8

    const std::array<double, 3> uneven{0.5, 0.3, 0.1};
    seen = {};
    for (int i = 0; i < 10000; ++i) ++seen[data::detail::draw_class(stream, uneven, left)];
    CHECK(seen[0] == 0);
    CHECK(std::abs(seen[1] - 7500) < 220);  // 0.3 / 0.4, five deviations of 43
}

TEST_CASE("dirichlet: all clients have floor(n / N), whatever alpha") {
    const auto pool = balanced(3503);
    for (const double alpha : {1e-300, 1e-3, 0.3, 1.0, 1e6, 1e300}) {
        CAPTURE(alpha);
        for (const auto& split : {Dirichlet{.alpha = alpha}(pool, {.clients = 7, .train_size = 3000}),
                                  DirichletFixed{.alpha = alpha}(pool, {.clients = 7, .train_size = 3000})})
            for (const auto& share : split.clients) CHECK(share.train.size() == 428);
        const auto fixed = DirichletFixed{.alpha = alpha}(pool, {.clients = 7, .train_size = 3000});
        for (const auto& share : fixed.clients) CHECK(share.test.size() == 71);
    }
}

TEST_CASE("dirichlet: alpha to infinity gives the pool's shares, alpha to zero one class (L-DATA-1)") {
    const auto pool = balanced(7000);
    const PartitionSettings settings{.clients = 100, .seed = 3, .train_size = 6000};
    // 60 uniform draws of ten classes: the largest share is 0.1 + about two deviations of 0.039.
    CHECK(mean_largest_share(pool, Dirichlet{.alpha = 1e6}(pool, settings)) < 0.25);
    CHECK(mean_largest_share(pool, DirichletFixed{.alpha = 1e6}(pool, settings)) < 0.25);
    // Ten clients want each class on average, which has room for ten; the overbooked share or fall back.
    CHECK(mean_largest_share(pool, Dirichlet{.alpha = 1e-3}(pool, settings)) > 0.7);
    CHECK(mean_largest_share(pool, DirichletFixed{.alpha = 1e-3}(pool, settings)) > 0.7);
}

TEST_CASE("dirichlet-fixed: while no class is used up, alpha to zero is exactly one class, in train and test") {
    // A class has 600 training and 100 test examples, enough for ten clients whatever they draw.
    const auto pool = balanced(7000);
    const auto split = DirichletFixed{.alpha = 1e-6}(pool, {.clients = 100, .seed = 1, .train_size = 6000});
    for (std::size_t k = 0; k < 10; ++k) {
        const auto& share = split.clients[k];
        CHECK(largest_share(pool, share.train) == 1);
        CHECK(largest_share(pool, share.test) == 1);
        CHECK(pool.label(share.train[0]) == pool.label(share.test[0]));
    }
}

TEST_CASE("dirichlet-unbalanced: every example has one owner and every client some of each class") {
    const auto pool = balanced(7000);
    for (const double alpha : {1e-300, 1e-3, 0.1, 1.0, 1e6}) {
        CAPTURE(alpha);
        const auto split = DirichletUnbalanced{.alpha = alpha}(pool, {.clients = 20, .seed = 1, .train_size = 6000});
        CHECK(size_of(split) == 7000);
        CHECK(split.server.empty());
        CHECK(sentence(split, 7000, Tests::disjoint) == "");
        for (const auto& share : split.clients)
            for (std::size_t c = 0; c < 10; ++c) {
                CHECK(counts(pool, share.train)[c] >= 2);
                CHECK(counts(pool, share.test)[c] >= 2);
            }
    }
}

TEST_CASE("dirichlet-unbalanced: limits of alpha and of a full client (L-DATA-1)") {
    const auto pool = balanced(7000);
    const PartitionSettings settings{.clients = 10, .seed = 1, .train_size = 6000, .allow_empty = true};
    const auto even = DirichletUnbalanced{.alpha = 1e8, .reserve = 0}(pool, settings);
    for (const auto& share : even.clients)
        for (const auto n : counts(pool, share.train)) CHECK((n >= 59 && n <= 61));

    // With alpha near zero a class goes to one client, and a client with a tenth of the file takes no second one.
    const auto lone = DirichletUnbalanced{.alpha = 1e-6, .reserve = 0}(pool, settings);
    for (const auto& share : lone.clients) {
        CHECK(present(counts(pool, share.train)) == 1);
        REQUIRE(share.train.size() == 600);
        REQUIRE(share.test.size() == 100);
        CHECK(pool.label(share.train[0]) == pool.label(share.test[0]));
    }

    // A client below its N-th may take one more class, so none exceeds an N-th and a class, reserve aside.
    const auto usual = DirichletUnbalanced{.alpha = 0.1, .reserve = 0}(pool, settings);
    for (const auto& share : usual.clients) CHECK(share.train.size() < 600 + 600);
}

TEST_CASE("dirichlet-unbalanced: the server's part and classes too small to reserve") {
    const auto pool = balanced(7000);
    const auto split = DirichletUnbalanced{.server = 0.1}(pool, {.clients = 20, .seed = 1, .train_size = 6000});
    CHECK(split.server.size() == 600);
    CHECK(size_of(split) == 7000);
    CHECK(sentence(split, 7000, Tests::disjoint) == "");
    for (const Index i : split.server) CHECK(i < 6000);
    for (const auto n : counts(pool, split.server)) CHECK(std::abs(static_cast<double>(n) - 60) < 40);

    const auto tiny = balanced(350);  // 30 training and 5 test examples per class for 20 clients: 1 and 0 each
    const auto small = DirichletUnbalanced{}(tiny, {.clients = 20, .seed = 1, .train_size = 300});
    CHECK(size_of(small) == 350);
    for (const auto& share : small.clients)
        for (const auto n : counts(tiny, share.train)) CHECK(n >= 1);
}

TEST_CASE("natural keeps the owners and cuts each client's examples") {
    const auto pool = balanced(100);
    const auto owner = owners(100, 5);
    const auto files = Natural{}(pool, {.clients = 5, .train_size = 80, .client_of = owner});
    CHECK(size_of(files) == 100);
    for (Id k = 0; k < 5; ++k) {
        CHECK(files.clients[k].train.size() == 16);
        for (const Index i : files.clients[k].train) CHECK((owner[i] == k && i < 80));
        for (const Index i : files.clients[k].test) CHECK((owner[i] == k && i >= 80));
    }
    const auto cut = Natural{}(pool, {.clients = 5, .client_of = owner});
    for (const auto& share : cut.clients) {
        CHECK(share.train.size() == 18);
        CHECK(share.test.size() == 2);
    }
    const auto lone = Natural{}(pool_of({0, 1, 1}, 2), {.clients = 2, .client_of = std::array<Id, 3>{0, 1, 1}});
    CHECK(lone.clients[0].train.size() == 1);
    CHECK(lone.clients[1].train.size() == 1);
    CHECK(lone.clients[1].test.size() == 1);
}

TEST_CASE("a pool without labels can be dealt, but not by label") {
    const auto pool = Dataset::regression(std::vector<double>(20), std::vector<double>(20));
    CHECK(size_of(Iid{}(pool, {.clients = 4, .train_size = 16})) == 20);
    CHECK(size_of(Natural{}(pool, {.clients = 4, .client_of = owners(20, 4)})) == 20);
    for (const auto* name : {"shards:1", "lognormal:1", "dirichlet:1", "dirichlet-fixed:1", "dirichlet-unbalanced:1"})
        CHECK_THROWS_WITH_AS(partition_by_name(name, pool, {.clients = 4, .train_size = 16}),
                             Contains("the pool has no class labels"), ConfigError);
}

TEST_CASE("an empty client is named, or kept when asked") {
    const auto pool = balanced(10);
    const PartitionSettings settings{.clients = 11, .train_size = 8};
    CHECK_THROWS_WITH_AS(Iid{}(pool, settings), Contains("has no training example"), ConfigError);
    CHECK_THROWS_WITH_AS(Dirichlet{}(pool, settings), Contains("client 0 has no training example"), ConfigError);
    CHECK_THROWS_WITH_AS(Natural{}(pool, {.clients = 4, .client_of = owners(10, 3)}),
                         Contains("client 3 has no training example"), ConfigError);

    const auto kept = Iid{}(pool, {.clients = 11, .train_size = 8, .validation = 0.5, .allow_empty = true});
    CHECK(kept.clients.size() == 11);
    CHECK(size_of(kept) == 10);
}

TEST_CASE("wrong settings are refused in a sentence that names the field") {
    const auto pool = balanced(100);
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    const auto refused = [&](const auto& partition, const PartitionSettings& settings, const std::string& what) {
        CHECK_THROWS_WITH_AS(partition(pool, settings), Contains(what.c_str()), ConfigError);
    };
    for (const auto& [name, tests] : every_partition) {
        CAPTURE(name);
        const auto owner = owners(100, 4);
        const auto by_name = [&name](const Dataset& p, const PartitionSettings& s) {
            return partition_by_name(name, p, s);
        };
        refused(by_name, {.clients = 0, .train_size = 80, .client_of = owner}, "clients is 0");
        refused(by_name, {.clients = 4, .train_size = 80, .validation = 1, .client_of = owner}, "validation is 1.0");
        refused(by_name, {.clients = 4, .train_size = 80, .validation = -0.1, .client_of = owner},
                "validation is -0.1");
        refused(by_name, {.clients = 4, .train_size = 80, .validation = nan, .client_of = owner}, "validation is nan");
        refused(by_name, {.clients = 4, .train_size = 80, .unseen = 4, .client_of = owner}, "unseen is 4");
    }
    refused(Iid{}, {.clients = 4}, "train_size is 0");
    refused(Iid{}, {.clients = 4, .train_size = 101}, "train_size is 101; it must be in 1..100");

    refused(Shards{.pieces = 0}, {.clients = 4, .train_size = 80}, "shards: pieces is 0");
    refused(Shards{.pieces = 11}, {.clients = 4, .train_size = 80}, "pieces is 11, more than the 10 classes");
    refused(Shards{.pieces = 3}, {.clients = 40, .train_size = 80}, "pieces is 3 for each of 40 clients");
    refused(LogNormal{.labels = 11}, {.clients = 4}, "lognormal: labels is 11, more than the 10 classes");
    refused(LogNormal{.labels = 2}, {.clients = 51}, "labels is 2 for each of 51 clients");
    refused(LogNormal{.sigma = nan}, {.clients = 4}, "sigma is nan");
    refused(LogNormal{.sigma = 51}, {.clients = 4}, "sigma is 51");
    refused(LogNormal{.train_share = 0}, {.clients = 4}, "train_share is 0");
    for (const double alpha : {0.0, -1.0, nan, inf}) {
        refused(Dirichlet{.alpha = alpha}, {.clients = 4, .train_size = 80}, "dirichlet: alpha is ");
        refused(DirichletFixed{.alpha = alpha}, {.clients = 4, .train_size = 80}, "dirichlet-fixed: alpha is ");
        refused(DirichletUnbalanced{.alpha = alpha}, {.clients = 4, .train_size = 80}, "unbalanced: alpha is ");
    }
    refused(DirichletUnbalanced{.server = 1}, {.clients = 4, .train_size = 80}, "server is 1");
    refused(Natural{}, {.clients = 4}, "client_of names 0 owners for 100 examples");
    refused(Natural{}, {.clients = 4, .client_of = owners(100, 5)}, "client_of says client 4 for example 2");
    refused(Natural{.train_share = 1.5}, {.clients = 4, .client_of = owners(100, 4)}, "train_share is 1.5");
}

TEST_CASE("names are read with their number") {
    const auto pool = balanced(3500);
    const PartitionSettings settings{.clients = 20, .seed = 3, .train_size = 3000};
    CHECK(same(partition_by_name("iid", pool, settings), Iid{}(pool, settings)));
    CHECK(same(partition_by_name("shards:3", pool, settings), Shards{.pieces = 3}(pool, settings)));
    CHECK(same(partition_by_name("lognormal:3", pool, settings), LogNormal{.labels = 3}(pool, settings)));
    CHECK(same(partition_by_name("dirichlet:0.5", pool, settings), Dirichlet{.alpha = 0.5}(pool, settings)));
    CHECK(same(partition_by_name("dirichlet-fixed:2", pool, settings), DirichletFixed{.alpha = 2}(pool, settings)));
    CHECK(same(partition_by_name("dirichlet-unbalanced:1e-1", pool, settings),
               DirichletUnbalanced{.alpha = 0.1}(pool, settings)));

    for (const auto* wrong : {"", "shard:2", "shards", "iid:2", "natural:1", "Dirichlet:1", ":", "dirichlet"})
        CHECK_THROWS_WITH_AS(partition_by_name(wrong, pool, settings),
                             Contains("is not one of iid, shards:K, lognormal:K, natural, dirichlet:A"), ConfigError);
    for (const auto* wrong : {"shards:", "shards:2.5", "shards:-2", "shards:2 ", "shards:99999999999999999999"})
        CHECK_THROWS_WITH_AS(partition_by_name(wrong, pool, settings), Contains("is not a whole number"), ConfigError);
    for (const auto* wrong : {"dirichlet:", "dirichlet:x", "dirichlet:0,3", "dirichlet:0.3.1"})
        CHECK_THROWS_WITH_AS(partition_by_name(wrong, pool, settings), Contains("is not a number"), ConfigError);
    CHECK_THROWS_WITH_AS(partition_by_name("dirichlet:nan", pool, settings), Contains("alpha is nan"), ConfigError);
}

}  // namespace partition_test
