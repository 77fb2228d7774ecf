// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/normal.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/normal.hpp>

#include <support/kernel_sets.hpp>
#include <support/statistics.hpp>

namespace normal_test {

namespace {

using namespace tessera;
using namespace tessera::support;

const std::vector<std::size_t> sizes{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 1000};
const Key key = Key{7}(purpose::noise)(3);

// `n` numbers from `first` on, one element off any vector's alignment, with nothing writable behind them under
// AddressSanitizer.
template <class R>
std::vector<R> drawn(Key of, std::size_t n, std::uint64_t first = 0) {
    std::vector<R> memory(n + 1, std::numeric_limits<R>::quiet_NaN());
    kernels::fill_normal(of, Out<R>(memory.data() + 1, n), first);
    return {memory.begin() + 1, memory.end()};
}

// The angle is rounded once in the stream, to 4.4e-16, and the radius is at most 8.6; a few roundings of the product.
template <class R>
bool close(const std::vector<R>& a, const std::vector<R>& b) {
    const double tolerance = std::is_same_v<R, float> ? 5e-7 : 1e-14;  // a float of 8 has steps of 4.8e-7
    if (a.size() != b.size()) return false;
    for (std::size_t j = 0; j < a.size(); ++j)
        if (!(std::abs(static_cast<double>(a[j]) - static_cast<double>(b[j])) <= tolerance)) return false;
    return true;
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

TEST_CASE_TEMPLATE("normal: every set gives the numbers of the stream around every width", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const auto n : sizes)
            for (const std::uint64_t first : {0u, 1u, 2u, 13u}) {
                CAPTURE(n);
                CAPTURE(first);
                std::vector<R> expected(n);
                kernels::reference::normal(key, first, expected.data(), n);
                REQUIRE(close(drawn<R>(key, n, first), expected));
                if (n > 0) REQUIRE_FALSE(close(drawn<R>(key, n, first + 1), expected));
            }
        std::vector<R> expected(100000);
        kernels::reference::normal(key, 0, expected.data(), expected.size());
        CHECK(close(drawn<R>(key, expected.size()), expected));
        CHECK_FALSE(close(drawn<R>(Key{7}(purpose::noise)(4), expected.size()), expected));
    });
}

TEST_CASE_TEMPLATE("normal: the same bits in every set", R, float, double) {
    std::vector<std::vector<R>> by_set;
    for_each_kernel_set([&](std::string_view) { by_set.push_back(drawn<R>(key, 100001)); });
    for (const auto& numbers : by_set) CHECK(numbers == by_set.front());
    CHECK(drawn<R>(key(1), 100001) != by_set.front());
}

TEST_CASE_TEMPLATE("normal: filled in pieces is filled at once", R, float, double) {
    const std::size_t n = 203;
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        const auto whole = drawn<R>(key, n);
        for (std::size_t cut = 0; cut <= n; ++cut) {
            CAPTURE(cut);
            auto pieces = drawn<R>(key, cut);
            const auto rest = drawn<R>(key, n - cut, cut);
            pieces.insert(pieces.end(), rest.begin(), rest.end());
            REQUIRE(pieces == whole);
        }
        // Far along, where the block's number has an upper half.
        const std::uint64_t far = (std::uint64_t{1} << 40) + 5;
        const auto there = drawn<R>(key, n, far), later = drawn<R>(key, n - 3, far + 3);
        CHECK(std::equal(later.begin(), later.end(), there.begin() + 3));
        CHECK(there != whole);
    });
}

TEST_CASE("normal: moments and distribution") {
    const std::size_t n = 400000;
    const auto sample = drawn<double>(Key{11}(purpose::noise), n);
    const double root = std::sqrt(static_cast<double>(n));
    // Four standard errors of the first four moments: 1, sqrt(2), sqrt(15), sqrt(96).
    CHECK(std::abs(moment(sample, 1)) < 4 / root);
    CHECK(std::abs(moment(sample, 2) - 1) < 4 * std::sqrt(2.0) / root);
    CHECK(std::abs(moment(sample, 3)) < 4 * std::sqrt(15.0) / root);
    CHECK(std::abs(moment(sample, 4) - 3) < 4 * std::sqrt(96.0) / root);
    CHECK(ks_distance(sample, normal_cdf) < ks_threshold(n));
    CHECK(ks_distance(sample, [](double x) { return normal_cdf(x / 1.03); }) > ks_threshold(n));  // it would notice 3 %

    // The two of a pair, and neighbouring pairs, are not correlated.
    for (const std::size_t lag : {1u, 2u, 16u}) {
        double sum = 0;
        for (std::size_t j = 0; j + lag < n; ++j) sum += sample[j] * sample[j + lag];
        CHECK(std::abs(sum / static_cast<double>(n)) < 4 / root);
    }
    // Extremes of 400 000: 1 in 1000 samples lies outside.
    const auto [low, high] = std::minmax_element(sample.begin(), sample.end());
    CHECK(*low < -4.2);
    CHECK(*high > 4.2);
    CHECK(*high < 6.2);
}

}  // namespace normal_test
