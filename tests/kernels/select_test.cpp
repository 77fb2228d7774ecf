// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/select.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/core/random.hpp>
#include <tessera/kernels/reference/select.hpp>

#include <support/kernel_sets.hpp>
#include <support/toy_numbers.hpp>

namespace select_test {

namespace {

using namespace tessera;
using namespace tessera::support;

// Around one vector, one word of bits, the size up to which no sample is drawn (1024), and beyond.
const std::vector<std::size_t> sizes{0,  1,  2,  3,   7,   8,   9,    15,   16,   17,   31,   33,
                                     63, 64, 65, 100, 127, 129, 1000, 1023, 1024, 1025, 1087, 5000};

const auto everything = [](std::size_t) { return true; };

std::vector<std::size_t> shares(std::size_t n) { return {0, 1, n / 5, n / 2, n - n / 7, n > 0 ? n - 1 : 0, n, n + 3}; }

Mask random_mask(std::size_t n, double density, std::uint64_t seed) {
    Stream draw(Key{seed});
    Mask mask(n);
    for (std::size_t j = 0; j < n; ++j) mask.set(j, draw.uniform() < density);
    return mask;
}

// The kernel of the active set against the sort, for every k of `shares`, on numbers one element off any alignment.
template <class R>
bool largest_agrees(const std::vector<R>& values) {
    std::vector<R> memory(values.size() + 1);
    std::copy(values.begin(), values.end(), memory.begin() + 1);
    const In<R> x(memory.data() + 1, values.size());
    for (const auto k : shares(x.size())) {
        const Mask got = kernels::largest(x, k);
        if (got.count() != std::min(k, x.size())) return false;
        if (got != kernels::reference::chosen<R>(x, k, false, everything)) return false;
    }
    return true;
}

// Inputs made against the method, `n` of each.
template <class R>
std::vector<std::vector<R>> hard_inputs(std::size_t n) {
    const auto noise = toy_numbers<R>(n, 8);
    std::vector<std::vector<R>> inputs(9, std::vector<R>(n));
    for (std::size_t j = 0; j < n; ++j) {
        const R rising = static_cast<R>(j + 1);
        inputs[0][j] = R(1);                                             // all equal
        inputs[1][j] = R(0);                                             // nothing but zeros
        inputs[2][j] = rising;                                           // sorted
        inputs[3][j] = -static_cast<R>(n - j);                           // sorted downwards
        inputs[4][j] = noise[j] > 0 ? R(2) : R(-1);                      // two values
        inputs[5][j] = noise[j] > R(0.6) ? noise[j] : R(0);              // mostly one value
        inputs[6][j] = rising;  // below: what is sampled is larger than all else
        inputs[7][j] = std::ldexp(R(1) + noise[j] / 1000, static_cast<int>(j % 200) - 100);  // many exponents
        inputs[8][j] = std::round(noise[j] * 20);                        // 21 values
    }
    const std::uint64_t sample = std::min<std::size_t>(1024, n / 4), step = n / sample;
    for (std::uint64_t i = 0; i < sample; ++i)
        inputs[6][i * step + ((i * 0x9e3779b97f4a7c15u >> 32) * step >> 32)] *= R(1e30);
    return inputs;
}

// The gradient of a layer behind pictures: columns of unlike size, those of the border exactly 0.
template <class R>
std::vector<R> picture_gradient(std::size_t rows) {
    auto g = toy_numbers<R>(rows * 784, 3);
    for (std::size_t j = 0; j < g.size(); ++j) {
        const std::size_t y = j % 784 / 28, x = j % 28;
        g[j] *= y < 4 || y > 23 || x < 4 || x > 23 ? R(0) : R(1 + j % 784 % 98);
    }
    return g;
}

}  // namespace

TEST_CASE_TEMPLATE("largest: worked by hand", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        const std::vector<R> x{1, -5, 3, 5, 0, -3};
        const auto bits = [&](std::size_t k) { return kernels::largest(In<R>(x), k).words()[0]; };
        CHECK(bits(0) == 0);
        CHECK(bits(1) == 0b000010);  // |-5| comes before the equal |5|
        CHECK(bits(2) == 0b001010);
        CHECK(bits(3) == 0b001110);
        CHECK(bits(5) == 0b101111);
        CHECK(bits(6) == 0b111111);
        CHECK(bits(7) == 0b111111);
    });
}

TEST_CASE_TEMPLATE("largest: every set agrees with a stable sort around every size", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const auto n : sizes) {
            CAPTURE(n);
            REQUIRE(largest_agrees(toy_numbers<R>(n, n)));
        }
        REQUIRE(largest_agrees(toy_numbers<R>(70001, 5)));
    });
}

TEST_CASE_TEMPLATE("largest: inputs that the sample misjudges or that tie", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t n : {100u, 1500u, 40000u}) {
            CAPTURE(n);
            const auto inputs = hard_inputs<R>(n);
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                CAPTURE(i);
                REQUIRE(largest_agrees(inputs[i]));
            }
        }
    });
}

TEST_CASE_TEMPLATE("largest: where the sample saw small numbers only, digits decide", R, float, double) {
    const std::size_t n = 40000, k = n / 2;
    auto x = toy_numbers<R>(n, 9);
    for (auto& number : x) number = 2 + std::abs(number);
    const auto misses = [&] {
        auto sorted = x;
        std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
        kernels::detail::Bracket<R> bracket{};
        kernels::detail::guess<R>(x.data(), nullptr, n, n, k, bracket);
        const auto kth = kernels::detail::magnitude(&sorted[k - 1], false);
        return kth < bracket.low || kth > bracket.high;
    };
    REQUIRE_FALSE(misses());
    const std::size_t step = n / kernels::detail::sample_size;
    for (std::uint64_t i = 0; i < kernels::detail::sample_size; ++i)
        x[i * step + ((i * 0x9e3779b97f4a7c15u >> 32) * step >> 32)] /= 1000;
    REQUIRE(misses());
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        CHECK(largest_agrees(x));
    });
}

TEST_CASE("the oracle notices one coordinate exchanged for an equal one") {
    const std::vector<float> x{2, 2, 1};
    Mask second(3);
    second.set(1, true);
    const Mask first = kernels::reference::chosen<float>(In<float>(x), 1, false, everything);
    CHECK(first[0]);
    CHECK(first != second);
}

TEST_CASE_TEMPLATE("a NaN is larger than infinity, infinity than every number", R, float, double) {
    const R nan = std::numeric_limits<R>::quiet_NaN(), infinity = std::numeric_limits<R>::infinity();
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        const std::vector<R> few{1, infinity, -nan, std::numeric_limits<R>::max(), nan, -infinity};
        const Mask all(6, true);
        const auto largest = [&](std::size_t k) { return kernels::largest(In<R>(few), k).words()[0]; };
        CHECK(largest(1) == 0b000100);
        CHECK(largest(2) == 0b010100);
        CHECK(largest(3) == 0b010110);
        CHECK(largest(5) == 0b111110);
        CHECK(kernels::smallest_active(In<R>(few), all, {0, 6}, 2).words()[0] == 0b001001);
        CHECK(kernels::smallest_active(In<R>(few), all, {0, 6}, 4).words()[0] == 0b101011);

        auto many = toy_numbers<R>(5000, 4);
        for (std::size_t j = 0; j < many.size(); j += 3) many[j] = j % 2 == 0 ? nan : -nan;
        for (std::size_t j = 1; j < many.size(); j += 7) many[j] = -infinity;
        many[2] = std::numeric_limits<R>::denorm_min();
        many[4] = R(-0.0);
        CHECK(largest_agrees(many));
    });
}

TEST_CASE_TEMPLATE("prune and grow: within a range, among active or inactive coordinates", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const auto n : sizes)
            for (const double density : {0.0, 0.05, 0.5, 1.0}) {
                CAPTURE(n);
                CAPTURE(density);
                const auto x = toy_numbers<R>(n, n + 1);
                const Mask active = random_mask(n, density, n);
                for (const Range in : {Range{0, n}, Range{n / 3, n - n / 5}, Range{n / 2, n / 2}, Range{n - n / 9, n}})
                    for (const auto k : shares(in.size())) {
                        CAPTURE(in.begin);
                        CAPTURE(k);
                        const auto inside = [&](std::size_t j) { return j >= in.begin && j < in.end; };
                        REQUIRE(kernels::smallest_active(In<R>(x), active, in, k) ==
                                kernels::reference::chosen<R>(
                                    In<R>(x), k, true, [&](std::size_t j) { return inside(j) && active[j]; }));
                        REQUIRE(kernels::largest_inactive(In<R>(x), active, in, k) ==
                                kernels::reference::chosen<R>(
                                    In<R>(x), k, false, [&](std::size_t j) { return inside(j) && !active[j]; }));
                    }
            }
    });
}

TEST_CASE_TEMPLATE("prune and grow: hard inputs under a mask", R, float, double) {
    const std::size_t n = 20000;
    const auto inputs = hard_inputs<R>(n);
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        for (const double density : {0.01, 0.3, 0.99})
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                CAPTURE(density);
                CAPTURE(i);
                const In<R> x(inputs[i]);
                const Mask active = random_mask(n, density, i);
                const Range in{77, n - 5};
                const auto inside = [&](std::size_t j) { return j >= in.begin && j < in.end; };
                for (const std::size_t k : {1u, 90u, 6000u}) {
                    REQUIRE(kernels::smallest_active(x, active, in, k) ==
                            kernels::reference::chosen<R>(x, k, true,
                                                          [&](std::size_t j) { return inside(j) && active[j]; }));
                    REQUIRE(kernels::largest_inactive(x, active, in, k) ==
                            kernels::reference::chosen<R>(x, k, false,
                                                          [&](std::size_t j) { return inside(j) && !active[j]; }));
                }
            }
    });
}

TEST_CASE_TEMPLATE("columns of exact zeros, with k on both sides of where they begin", R, float, double) {
    const auto g = picture_gradient<R>(60);
    const auto live = static_cast<std::size_t>(std::count_if(g.begin(), g.end(), [](R v) { return v != 0; }));
    auto capped = g;  // and the largest are equal
    for (R& v : capped) v = std::clamp(v, R(-30), R(30));
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        for (const std::vector<R>& x : {g, capped})
            for (const double density : {0.0, 0.2, 0.5}) {
                const Mask active = random_mask(g.size(), density, 4);
                std::size_t edge = 0;
                for (std::size_t j = 0; j < g.size(); ++j) edge += !active[j] && g[j] != 0;
                for (const std::size_t k :
                     {edge / 9, edge / 2, edge - 500, edge - 1, edge, edge + 1, edge + 500, live}) {
                    CAPTURE(k);
                    REQUIRE(kernels::largest_inactive(In<R>(x), active, {0, g.size()}, k) ==
                            kernels::reference::chosen<R>(In<R>(x), k, false,
                                                          [&](std::size_t j) { return !active[j]; }));
                }
            }
    });
}

TEST_CASE_TEMPLATE("in place: words at once are the bits one by one, and the count is kept", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const auto n : {1u, 63u, 64u, 65u, 129u, 1000u, 5000u, 30000u})
            for (const double density : {0.0, 0.1, 0.5, 1.0})
                for (const Range in : {Range{0, n}, Range{n / 3, n - n / 5}, Range{n / 2, n / 2}}) {
                    CAPTURE(n);
                    CAPTURE(density);
                    CAPTURE(in.begin);
                    auto x = toy_numbers<R>(n, n);
                    for (std::size_t j = 0; j < n; ++j)
                        if (j % 3 == 0) x[j] = 0;
                    const Mask before = random_mask(n, density, n);
                    std::vector<R> packed;
                    for (std::size_t j = in.begin; j < in.end; ++j)
                        if (before[j]) packed.push_back(x[j]);
                    REQUIRE(kernels::count_active(before, in) == packed.size());
                    const std::size_t k = (packed.size() + 1) / 2;

                    Mask expected = before, mask = before;
                    const auto inside = [&](std::size_t j) { return j >= in.begin && j < in.end; };
                    const Mask weakest = kernels::reference::chosen<R>(
                        In<R>(x), k, true, [&](std::size_t j) { return inside(j) && before[j]; });
                    for (std::size_t j = 0; j < n; ++j)
                        if (weakest[j]) expected.set(j, false);
                    kernels::drop_smallest(In<R>(packed), mask, in, k);
                    REQUIRE(mask == expected);
                    REQUIRE(mask.count() == before.count() - k);

                    const Mask strongest = kernels::reference::chosen<R>(
                        In<R>(x), k, false, [&](std::size_t j) { return inside(j) && !expected[j]; });
                    for (std::size_t j = 0; j < n; ++j)
                        if (strongest[j]) expected.set(j, true);
                    kernels::add_largest(In<R>(x), mask, in, k);
                    REQUIRE(mask == expected);
                    REQUIRE(mask.count() == before.count());
                }
    });
}

TEST_CASE("a range or a mask that does not fit is refused") {
    const std::vector<float> x(10, 1);
    const Mask right(10), wrong(9);
    CHECK_NOTHROW(kernels::smallest_active(In<float>(x), right, {0, 10}, 1));
    CHECK_THROWS_AS(kernels::smallest_active(In<float>(x), wrong, {0, 9}, 1), ConfigError);
    CHECK_THROWS_AS(kernels::largest_inactive(In<float>(x), right, {0, 11}, 1), ConfigError);
    CHECK_THROWS_AS(kernels::largest_inactive(In<float>(x), right, {5, 4}, 1), ConfigError);
    Mask mask(10, true);
    CHECK_THROWS_AS(kernels::drop_smallest(In<float>(x), mask, {0, 9}, 1), ConfigError);
    CHECK_THROWS_AS(kernels::drop_smallest(In<float>(x), mask, {1, 11}, 1), ConfigError);
    CHECK_THROWS_AS(kernels::add_largest(In<float>(x), mask, {0, 11}, 1), ConfigError);
    CHECK(mask == Mask(10, true));
    CHECK_NOTHROW(kernels::drop_smallest(In<float>(x), mask, {0, 10}, 1));
    CHECK(mask.count() == 9);
}

}  // namespace select_test
