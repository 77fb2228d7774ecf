// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/noise.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/noise.hpp>

#include <support/kernel_sets.hpp>

namespace noise_test {

namespace {

using namespace tessera;

const kernels::ChaChaState state{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, 1, 2, 3, 4,
                                          5,          6,          7,          0xFFFFFFFF, 9, 0, 11, 12};

std::vector<float> expected(int rounds, std::size_t n) {
    std::vector<float> out(n);
    kernels::reference::chacha_noise(state, rounds, 1, out.data(), n);
    return out;
}
std::vector<float> drawn(int rounds, std::size_t n, const kernels::ChaChaState& from = state) {
    std::vector<float> memory(n + 1);  // off any alignment
    kernels::add_noise(from, rounds, 1, Out<float>(memory.data() + 1, n));
    return {memory.begin() + 1, memory.end()};
}
kernels::ChaChaState other() {
    auto all = state;
    all[4] ^= 1;
    return all;
}

// A float of u near 1 is off by 3e-8, which moves a radius of 0.01 by 3e-6 and a larger one by less; the rest is a few
// roundings of numbers below 10.
double off(const std::vector<float>& got, const std::vector<float>& should) {
    if (got.size() != should.size()) return std::numeric_limits<double>::infinity();
    double most = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double d = std::fabs(static_cast<double>(got[i]) - static_cast<double>(should[i]));
        REQUIRE(std::isfinite(d));
        most = std::max(most, d);
    }
    return most;
}

const std::vector<std::size_t> sizes{0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 511, 512, 513, 2000};

}  // namespace

TEST_CASE("noise: the words of the stream through Box and Muller, in every set") {
    support::for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        for (const auto n : sizes) {
            CAPTURE(n);
            CHECK(off(drawn(8, n), expected(8, n)) < 1e-5);
            CHECK(off(drawn(20, n), expected(20, n)) < 1e-5);
        }
        CHECK(off(drawn(20, 64), expected(8, 64)) > 0.1);
    });
}

TEST_CASE("noise: the same bits in every set, and a shorter draw is the beginning of a longer one") {
    const auto all = drawn(20, 2000);
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
        return std::memcmp(a.data(), b.data(), std::min(a.size(), b.size()) * sizeof(float)) == 0;
    };
    support::for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        CHECK(same(drawn(20, 2000), all));
        for (const auto n : sizes) CHECK(same(drawn(20, n), all));
        CHECK_FALSE(same(drawn(20, 2000, other()), all));
    });
}

TEST_CASE("noise is scaled and added to what is there") {
    const auto unit = drawn(8, 200);
    std::vector<float> x(200, 3);
    kernels::add_noise(state, 8, 0.5f, Out<float>(x));
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::fabs(x[i] - (3 + 0.5f * unit[i])) < 1e-6f);  // two roundings
}

}  // namespace noise_test
