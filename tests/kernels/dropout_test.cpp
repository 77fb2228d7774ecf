// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/dropout.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/dropout.hpp>

#include <support/kernel_sets.hpp>

namespace dropout_test {

namespace {

using namespace tessera;
using namespace tessera::support;

const Key key = Key{5}(purpose::dropout)(2);

// One element off any vector's alignment, with nothing writable behind them under AddressSanitizer.
template <class R>
std::vector<R> factors(Key of, double rate, std::size_t n) {
    std::vector<R> memory(n + 1, std::numeric_limits<R>::quiet_NaN());
    kernels::fill_dropout(of, rate, Out<R>(memory.data() + 1, n));
    return {memory.begin() + 1, memory.end()};
}

template <class R>
std::vector<R> expected(Key of, double rate, std::size_t n) {
    std::vector<R> out(n);
    kernels::reference::dropout(of, rate, out.data(), n);
    return out;
}

}  // namespace

TEST_CASE_TEMPLATE("dropout: every set gives the factors of the stream, bit for bit", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t n : {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 32u, 33u, 1000u})
            for (const double rate : {0.0, 0.1, 0.3, 0.5, 0.99}) {
                CAPTURE(n);
                CAPTURE(rate);
                REQUIRE(factors<R>(key, rate, n) == expected<R>(key, rate, n));
            }
        CHECK(factors<R>(key, 0.3, 1000) != expected<R>(key(1), 0.3, 1000));
        CHECK(factors<R>(key, 0.3, 1000) != expected<R>(key, 0.31, 1000));
    });
}

TEST_CASE("dropout: a rate that is one of the stream's own numbers drops what lies below it, not the number itself") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        Stream draw(key);
        for (std::size_t j = 0; j < 50; ++j) {
            const double rate = draw.uniform();
            CHECK(factors<double>(key, rate, j + 1)[j] == 1 / (1 - rate));
            CHECK(factors<double>(key, std::nextafter(rate, 1.0), j + 1)[j] == 0);
        }
    });
}

TEST_CASE("dropout: the share of zeros is the rate") {
    const std::size_t n = 400000;
    const auto all = factors<float>(Key{11}, 0.3, n);
    const auto zeros = static_cast<double>(std::count(all.begin(), all.end(), 0.0f));
    const double error = std::sqrt(0.3 * 0.7 * static_cast<double>(n));  // of a count of n draws
    CHECK(std::abs(zeros - 0.3 * static_cast<double>(n)) < 4 * error);
    CHECK(std::abs(zeros - 0.31 * static_cast<double>(n)) > 4 * error);  // it would notice a hundredth
}

}  // namespace dropout_test
