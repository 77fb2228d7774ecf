// SPDX-License-Identifier: BSD-3-Clause
// Plain loops that say what the kernels of noise.hpp compute.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tessera/core/arena.hpp>

namespace tessera::kernels::reference {

inline std::array<std::uint32_t, 16> chacha(std::array<std::uint32_t, 16> state, int rounds) {
    auto x = state;
    const auto turn = [&](std::size_t a, std::size_t b, std::size_t c, std::size_t d) {
        const auto mix = [&](std::size_t to, std::size_t from, std::size_t by, int left) {
            x[to] += x[from];
            x[by] = (x[by] ^ x[to]) << left | (x[by] ^ x[to]) >> (32 - left);
        };
        mix(a, b, d, 16), mix(c, d, b, 12), mix(a, b, d, 8), mix(c, d, b, 7);
    };
    for (int round = 0; round < rounds; round += 2) {
        for (std::size_t i = 0; i < 4; ++i) turn(i, 4 + i, 8 + i, 12 + i);
        for (std::size_t i = 0; i < 4; ++i) turn(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
    for (std::size_t i = 0; i < 16; ++i) x[i] += state[i];
    return x;
}

// In double throughout; word j of block b of 48 is word 48 j + b, and 192 words make 128 numbers.
inline void chacha_noise(const std::array<std::uint32_t, 16>& state, int rounds, float scale, float* out,
                         std::size_t n) {
    constexpr std::size_t blocks = 48, group = 128;
    Vec<std::uint32_t> words(16 * blocks);
    for (std::size_t done = 0; done < n; done += 4 * group) {
        for (std::size_t b = 0; b < blocks; ++b) {
            auto counted = state;
            counted[12] += static_cast<std::uint32_t>(done / (4 * group) * blocks + b);
            const auto block = chacha(counted, rounds);
            for (std::size_t j = 0; j < 16; ++j) words[blocks * j + b] = block[j];
        }
        for (std::size_t i = 0; i < std::min(4 * group, n - done); ++i) {
            const std::uint32_t* w = words.data() + i / group * 192 + i % 64;
            const double u = (static_cast<double>(w[0]) * 0x1p32 + static_cast<double>(w[64]) + 0.5) * 0x1p-64;
            const double rest = static_cast<double>(static_cast<std::int32_t>(w[128] << 2)) * 0x1p-31;
            const double angle = (static_cast<double>(w[128] >> 30) + rest / 2) * 1.57079632679489661923;
            const double along = i % group < 64 ? std::cos(angle) : std::sin(angle);
            out[done + i] += static_cast<float>(static_cast<double>(scale) * std::sqrt(-2 * std::log(u)) * along);
        }
    }
}

}  // namespace tessera::kernels::reference
