// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/core/random.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <support/statistics.hpp>

namespace random_test {

namespace {

using namespace tessera;
using namespace tessera::support;

template <class Draw>
std::vector<double> sample(std::size_t n, std::uint64_t seed, Draw&& draw) {
    Stream stream(Key{seed});
    std::vector<double> x(n);
    for (double& v : x) v = draw(stream);
    return x;
}

// The 128 bits of a block or of a key, as one comparable value.
using Bits = std::pair<std::uint64_t, std::uint64_t>;
Bits bits(PhiloxBlock b) { return {b[0] | std::uint64_t{b[1]} << 32, b[2] | std::uint64_t{b[3]} << 32}; }
Bits bits(Key k) { return {k.key, k.salt}; }

}  // namespace

TEST_CASE("philox: the known answers of Random123") {
    static_assert(philox({0, 0, 0, 0}, {0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    static_assert(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
                  PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    static_assert(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
                  PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
    // At run time too, where the compiler may have vectorised it.
    volatile std::uint32_t zero = 0;
    CHECK(philox({zero, 0, 0, 0}, {0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox({1 + zero, 0, 0, 0}, {0, 0}) != PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
}

TEST_CASE("a key names a stream: same name, same numbers; order and every part of the name matter") {
    constexpr Key key = Key{7}(purpose::shuffle)(3)(1);
    static_assert(key == Key{7}(purpose::shuffle)(3)(1));
    static_assert(key != Key{8}(purpose::shuffle)(3)(1));
    static_assert(key != Key{7}(purpose::dropout)(3)(1));
    static_assert(key != Key{7}(purpose::shuffle)(1)(3));
    static_assert(key != Key{7}(purpose::shuffle)(3));
    static_assert(Key{}.block(0) == philox({0, 0, 0, 0}, {0, 0}));

    Stream one(key), two(key), other(Key{7}(purpose::shuffle)(3)(2));
    std::size_t equal = 0;
    for (int i = 0; i < 100; ++i) {
        const auto word = one.word();
        CHECK(word == two.word());
        equal += word == other.word();
    }
    CHECK(equal == 0);  // 100 coincidences of 1 in 2^32 each
}

TEST_CASE("no two draws and derived keys in a family of streams are the same") {
    // Keys with the top bit of their salt set and clear, three generations deep.
    std::set<Bits> seen;
    std::size_t made = 0;
    const auto see = [&](Bits b) {
        seen.insert(b);
        ++made;
    };
    bool top_set = false, top_clear = false;
    for (std::uint64_t seed = 0; seed < 24; ++seed)
        for (std::uint64_t meaning = 0; meaning < 9; ++meaning) {
            const Key child = Key{seed}(meaning);
            (child.salt >> 63 != 0 ? top_set : top_clear) = true;
            see(bits(Key{seed}.block(meaning)));
            see(bits(child));
            for (std::uint64_t i = 0; i < 16; ++i) {
                see(bits(child.block(i)));
                see(bits(child(i)));
                see(bits(child(i).block(meaning)));
            }
        }
    CHECK(top_set);
    CHECK(top_clear);
    CHECK(seen.size() == made);
    see(bits(Key{5}(3).block(2)));  // the sweep would notice one that is there twice
    CHECK(seen.size() == made - 1);
}

TEST_CASE("a stream reads its key's blocks in order") {
    const Key key = Key{11}(purpose::mask);
    Stream words(key), pairs(key);
    for (std::uint64_t i = 0; i < 10; ++i) {
        const auto block = key.block(i);
        for (const auto word : block) CHECK(words.word() == word);
        CHECK(pairs.word64() == (block[0] | std::uint64_t{block[1]} << 32));
        CHECK(pairs.word64() == (block[2] | std::uint64_t{block[3]} << 32));
    }
}

TEST_CASE("uniform is in [0, 1), uniform_open in (0, 1), both flat") {
    const std::size_t n = 100'000;
    const auto half_open = sample(n, 1, [](Stream& s) { return s.uniform(); });
    const auto open = sample(n, 2, [](Stream& s) { return s.uniform_open(); });
    for (const auto& x : {half_open, open}) {
        CHECK(*std::min_element(x.begin(), x.end()) >= 0);
        CHECK(*std::max_element(x.begin(), x.end()) < 1);
        CHECK(ks_distance(x, [](double v) { return v; }) < ks_threshold(n));
        CHECK(ks_distance(x, [](double v) { return v * v; }) > ks_threshold(n));
    }
    CHECK(*std::min_element(open.begin(), open.end()) > 0);
    // All 53 bits are used: with k bits, two draws of n coincide n^2 / 2^(k+1) times on average.
    CHECK(std::set<double>(half_open.begin(), half_open.end()).size() == n);
}

TEST_CASE("below: every value, equally often, and none outside") {
    Stream stream(Key{3});
    std::vector<std::size_t> counts(10);
    for (int i = 0; i < 100'000; ++i) {
        const auto v = stream.below(10);
        REQUIRE(v < 10);
        ++counts[static_cast<std::size_t>(v)];
    }
    CHECK(chi_square(counts) < 27.88);  // 9 degrees of freedom
    CHECK(chi_square({10'300, 9'700, 10'300, 9'700, 10'300, 9'700, 10'300, 9'700, 10'300, 9'700}) > 27.88);
    for (int i = 0; i < 100; ++i) CHECK(stream.below(1) == 0);
}

TEST_CASE("below: no bias where a scaled word has the largest") {
    // Of 2^64 words, floor(3 w / 4) hits the multiples of three twice as often as the others: the naive way fails.
    const std::uint64_t n = std::uint64_t{3} << 62;
    Stream stream(Key{4}), words(Key{4});
    std::vector<std::size_t> counts(3), naive(3);
    for (int i = 0; i < 30'000; ++i) {
        const auto v = stream.below(n);
        REQUIRE(v < n);
        ++counts[static_cast<std::size_t>(v % 3)];
        const auto w = words.word64();
        ++naive[static_cast<std::size_t>((w - w / 4 - (w % 4 != 0)) % 3)];  // floor(3 w / 4)
    }
    CHECK(chi_square(counts) < 13.82);  // 2 degrees of freedom
    CHECK(chi_square(naive) > 1000);
}

TEST_CASE("normal: moments, shape and independence of neighbours") {
    const std::size_t n = 200'000;
    const double root = std::sqrt(static_cast<double>(n));
    const auto x = sample(n, 5, [](Stream& s) { return s.normal(); });
    // Four standard errors of each moment of a standard normal.
    CHECK(std::abs(moment(x, 1)) < 4 / root);
    CHECK(std::abs(moment(x, 2) - 1) < 4 * std::sqrt(2.0) / root);
    CHECK(std::abs(moment(x, 3)) < 4 * std::sqrt(15.0) / root);
    CHECK(std::abs(moment(x, 4) - 3) < 4 * std::sqrt(96.0) / root);

    const auto cdf = [](double v) { return std::erfc(-v / std::sqrt(2.0)) / 2; };
    CHECK(ks_distance(x, cdf) < ks_threshold(n));
    CHECK(ks_distance(x, [&](double v) { return cdf(v - 0.02); }) > ks_threshold(n));

    // Both numbers of a Box-Muller pair, and the last of one with the first of the next.
    double inside = 0, across = 0;
    for (std::size_t i = 0; i + 2 < n; i += 2) {
        inside += x[i] * x[i + 1];
        across += x[i + 1] * x[i + 2];
    }
    const double pairs = static_cast<double>(n / 2);
    CHECK(std::abs(inside) / pairs < 4 / std::sqrt(pairs));
    CHECK(std::abs(across) / pairs < 4 / std::sqrt(pairs));
}

TEST_CASE("lognormal: the logarithms are normal with the mean and deviation asked for") {
    const std::size_t n = 50'000;
    auto logs = sample(n, 6, [](Stream& s) { return s.lognormal(4, 2); });
    for (double& v : logs) {
        REQUIRE(v > 0);
        v = std::log(v);
    }
    const double root = std::sqrt(static_cast<double>(n));
    CHECK(std::abs(moment(logs, 1) - 4) < 4 * 2 / root);  // four standard errors, here and below
    CHECK(std::abs(moment(logs, 2, 4) - 4) < 4 * 4 * std::sqrt(2.0) / root);
}

TEST_CASE("log_gamma: mean and variance of the draws, for shapes on both sides of one") {
    const std::size_t n = 100'000;
    for (const double shape : {0.3, 1.0, 2.5, 40.0}) {
        CAPTURE(shape);
        const auto x = sample(n, 7, [&](Stream& s) { return std::exp(s.log_gamma(shape)); });
        const double root = std::sqrt(static_cast<double>(n));
        // Gamma(a): mean a, variance a, fourth central moment 3 a^2 + 6 a. Four standard errors.
        CHECK(std::abs(moment(x, 1) - shape) < 4 * std::sqrt(shape) / root);
        CHECK(std::abs(moment(x, 2, shape) - shape) < 4 * std::sqrt(2 * shape * shape + 6 * shape) / root);
    }
    // Shape one is the exponential distribution.
    const auto x = sample(n, 8, [](Stream& s) { return std::exp(s.log_gamma(1)); });
    CHECK(ks_distance(x, [](double v) { return 1 - std::exp(-v); }) < ks_threshold(n));
    CHECK(ks_distance(x, [](double v) { return 1 - std::exp(-1.02 * v); }) > ks_threshold(n));
}

TEST_CASE("log_gamma: finite where the draw itself is below any double") {
    const std::size_t n = 20'000;
    const auto logs = sample(n, 9, [](Stream& s) { return s.log_gamma(0.001); });
    std::size_t vanish = 0;
    for (const double v : logs) {
        REQUIRE(std::isfinite(v));
        vanish += std::exp(v) == 0;
    }
    CHECK(vanish > n / 3);  // so the logarithm is needed: P(draw < 5e-324) is about exp(-0.745)
    // E ln Gamma(a) = digamma(a), which is -1/a - 0.5772 + 1.645 a here; the deviation is 1/a; four standard errors.
    CHECK(std::abs(moment(logs, 1) + 1000.5756) < 4 * 1000 / std::sqrt(static_cast<double>(n)));
}

TEST_CASE("dirichlet: sums to one and has equal means, however small alpha is") {
    const std::size_t classes = 10, draws = 2'000;
    for (const double alpha : {0.001, 0.1, 1.0, 100.0}) {
        CAPTURE(alpha);
        Stream stream(Key{10});
        std::vector<double> p(classes), mean(classes);
        double largest = 0;
        for (std::size_t i = 0; i < draws; ++i) {
            stream.dirichlet(alpha, p);
            double sum = 0;
            for (std::size_t c = 0; c < classes; ++c) {
                REQUIRE(p[c] >= 0);
                REQUIRE(p[c] <= 1);
                sum += p[c];
                mean[c] += p[c] / static_cast<double>(draws);
            }
            REQUIRE(std::abs(sum - 1) < 1e-14);  // ten divisions and ten additions near 1: 20 u = 2e-15
            largest += *std::max_element(p.begin(), p.end()) / static_cast<double>(draws);
        }
        // Var p = (1/K)(1 - 1/K) / (K alpha + 1); four and a half standard errors, because there are ten means.
        const double deviation = std::sqrt(0.09 / (10 * alpha + 1) / static_cast<double>(draws));
        for (const double m : mean) CHECK(std::abs(m - 0.1) < 4.5 * deviation);
        if (alpha < 0.01) CHECK(largest > 0.98);  // one class takes nearly all
        if (alpha > 10) CHECK(largest < 0.15);    // all get nearly the same
    }
    Stream(Key{1}).dirichlet(0.5, {});
    std::vector<double> one(1);
    Stream(Key{1}).dirichlet(0.001, one);
    CHECK(one[0] == 1);
}

TEST_CASE("shuffle: a permutation, for every size") {
    Stream stream(Key{12});
    for (int n = 0; n < 60; ++n) {
        std::vector<int> items(static_cast<std::size_t>(n)), sorted;
        std::iota(items.begin(), items.end(), 0);
        const auto before = items;
        stream.shuffle(std::span<int>(items));
        sorted = items;
        std::sort(sorted.begin(), sorted.end());
        CHECK(sorted == before);
        if (n > 20) CHECK(items != before);  // chance: below 1 in 20!
    }
}

TEST_CASE("shuffle: all 24 orders of four items, equally often") {
    const int runs = 24'000;
    Stream stream(Key{13});
    std::map<std::vector<int>, std::size_t> orders, careless;
    for (int i = 0; i < runs; ++i) {
        std::vector<int> items{0, 1, 2, 3};
        stream.shuffle(std::span<int>(items));
        ++orders[items];
        // The well-known mistake: any item may be swapped with any other.
        std::vector<int> mistaken{0, 1, 2, 3};
        for (std::size_t k = 0; k < 4; ++k) std::swap(mistaken[k], mistaken[static_cast<std::size_t>(stream.below(4))]);
        ++careless[mistaken];
    }
    const auto counts = [](const auto& histogram) {
        std::vector<std::size_t> n;
        for (const auto& [order, count] : histogram) n.push_back(count);
        return n;
    };
    CHECK(orders.size() == 24);
    CHECK(chi_square(counts(orders)) < 49.73);  // 23 degrees of freedom
    CHECK(chi_square(counts(careless)) > 200);
}

}  // namespace random_test
