// SPDX-License-Identifier: BSD-3-Clause
// Noise: out += scale * z, z normal numbers in float arithmetic. The same bits in every kernel set.
//
//   radius = sqrt(-2 ln u), u in (0, 1) of 64 bits, small ones kept to their last bit;   angle of 32 bits
//
// What makes noise private is its tail, so u has 64 bits and not 32: numbers reach to 9.4 deviations. Words come from
// ChaCha (RFC 8439 with 20 rounds), 48 blocks at a time, word j of block b at place 48 j + b; 192 words make 128
// numbers, the first 64 of them cosines. One core, AVX-512, 79,510 numbers: 0.13 ms with 20 rounds, 0.08 ms with 8,
// against 0.29 ms for the doubles of kernels/normal.hpp rounded.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <tessera/core/view.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

inline constexpr std::size_t noise_blocks = 48, noise_numbers = 128, noise_words = 192;  // 768 words are four groups

template <class T, std::size_t N>
TESSERA_INLINE void float_series(T& p, const T& z, const float (&c)[N]) {
    p = T{} + c[0];
#pragma GCC unroll 8
    for (std::size_t k = 1; k < N; ++k) {
        p *= z;
        unfused(p);
        p += c[k];
    }
}

// sum += scale * word, the word in two exact halves of 16 bits: few sets convert unsigned numbers.
template <std::size_t Bytes>
TESSERA_INLINE void add_word(const std::uint32_t* words, float scale, Held<float, Bytes>& sum) {
    using I = Held<std::int32_t, Bytes>;
    const Held<std::uint32_t, Bytes> word = *reinterpret_cast<const V<std::uint32_t, Bytes>*>(words);
    sum += __builtin_convertvector(reinterpret_cast<I>(word & 0xFFFF), Held<float, Bytes>) * scale;
    sum += __builtin_convertvector(reinterpret_cast<I>(word >> 16), Held<float, Bytes>) * (65536 * scale);
}

// 192 words to 128 numbers: words 0 to 63 and 64 to 127 are u, the others the angle.
template <std::size_t Bytes>
TESSERA_INLINE void noise_of_words(const std::uint32_t* words, float scale, float* out) {
    using U = Held<std::uint32_t, Bytes>;
    using I = Held<std::int32_t, Bytes>;
    using F = Held<float, Bytes>;
    constexpr std::size_t half = noise_numbers / 2, lanes = VectorOf<float, Bytes>::lanes;
    for (std::size_t i = 0; i < half; i += lanes) {
        const U turn = *reinterpret_cast<const V<std::uint32_t, Bytes>*>(words + 2 * half + i);
        F u = F{} + 0x1p-65f;
        add_word<Bytes>(words + half + i, 0x1p-64f, u);
        add_word<Bytes>(words + i, 0x1p-32f, u);

        constexpr std::uint32_t bits_of_root_half = std::bit_cast<std::uint32_t>(0x1.6a09e6p-1f);
        const I shifted = reinterpret_cast<I>(reinterpret_cast<U>(u) - bits_of_root_half);
        const U exponent = reinterpret_cast<U>(shifted) & 0xFF800000u;
        const F m = reinterpret_cast<F>(reinterpret_cast<U>(u) - exponent);
        F e = __builtin_convertvector(shifted >> 23, F) * 0x1.62e43p-1f;
        unfused(e);
        const F s = (m - 1.0f) / (m + 1.0f);
        F z = s * s, p;
        float_series(p, z, {2 / 9.0f, 2 / 7.0f, 2 / 5.0f, 2 / 3.0f, 2.0f});
        p *= s;
        unfused(p);
        F radius = (e + p) * -2.0f;
        square_root(radius);

        // A quarter turn and a signed rest within half of one.
        const F angle = __builtin_convertvector(reinterpret_cast<I>(turn << 2), F) * (0x1.921fb6p-1f * 0x1p-31f);
        z = angle * angle;
        F sine, cosine;
        float_series(sine, z, {1 / 362880.0f, -1 / 5040.0f, 1 / 120.0f, -1 / 6.0f, 1.0f});
        float_series(cosine, z, {-1 / 3628800.0f, 1 / 40320.0f, -1 / 720.0f, 1 / 24.0f, -0.5f, 1.0f});
        sine *= angle;
        const U quarter = turn >> 30;
        const auto odd = (quarter & 1) != 0;
        const U cos_sign = ((quarter + 1) & 2) << 30, sin_sign = (quarter & 2) << 30;
        const F c = odd ? sine : cosine, r = odd ? cosine : sine;
        radius *= scale;
        F along = reinterpret_cast<F>(reinterpret_cast<U>(c) ^ cos_sign) * radius;
        unfused(along);
        *reinterpret_cast<V<float, Bytes>*>(out + i) += along;
        F across = reinterpret_cast<F>(reinterpret_cast<U>(r) ^ sin_sign) * radius;
        unfused(across);
        *reinterpret_cast<V<float, Bytes>*>(out + half + i) += across;
    }
}

// Whole groups go where they belong, the last one by way of a buffer.
template <std::size_t Bytes>
TESSERA_INLINE void noise_group(const std::uint32_t* words, float scale, float* out, std::size_t n) {
    if (n >= noise_numbers) return noise_of_words<Bytes>(words, scale, out);
    float spare[noise_numbers]{};
    noise_of_words<Bytes>(words, scale, spare);
    for (std::size_t i = 0; i < n; ++i) out[i] += spare[i];
}

template <std::size_t Bytes>
TESSERA_INLINE void noise_groups(const std::uint32_t* words, float scale, float* out, std::size_t n) {
    for (std::size_t g = 0; g < 4 && g * noise_numbers < n; ++g)
        noise_group<Bytes>(words + g * noise_words, scale, out + g * noise_numbers, n - g * noise_numbers);
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void chacha_noise_body(const std::uint32_t* state, int rounds, R scale, R* out, std::size_t n) {
    using U = Held<std::uint32_t, Bytes>;
    constexpr std::size_t lanes = VectorOf<std::uint32_t, Bytes>::lanes, numbers = 4 * noise_numbers;
    const auto turn = [](U& a, U& b, U& c, U& d) __attribute__((always_inline)) {
        a += b, d ^= a, d = d << 16 | d >> 16;
        c += d, b ^= c, b = b << 12 | b >> 20;
        a += b, d ^= a, d = d << 8 | d >> 24;
        c += d, b ^= c, b = b << 7 | b >> 25;
    };
    std::uint32_t words[4 * noise_words];
    std::uint32_t counter = state[12];
    for (std::size_t done = 0; done < n; done += numbers) {
        for (std::size_t b = 0; b < noise_blocks; b += lanes) {
            U x[16], first;
            for (std::size_t l = 0; l < lanes; ++l) first[l] = counter++;
#pragma GCC unroll 16
            for (std::size_t i = 0; i < 16; ++i) x[i] = i == 12 ? first : U{} + state[i];
            for (int round = 0; round < rounds; round += 2) {
                turn(x[0], x[4], x[8], x[12]), turn(x[1], x[5], x[9], x[13]);
                turn(x[2], x[6], x[10], x[14]), turn(x[3], x[7], x[11], x[15]);
                turn(x[0], x[5], x[10], x[15]), turn(x[1], x[6], x[11], x[12]);
                turn(x[2], x[7], x[8], x[13]), turn(x[3], x[4], x[9], x[14]);
            }
#pragma GCC unroll 16
            for (std::size_t i = 0; i < 16; ++i)
                *reinterpret_cast<V<std::uint32_t, Bytes>*>(words + i * noise_blocks + b) =
                    x[i] + (i == 12 ? first : U{} + state[i]);
        }
        noise_groups<Bytes>(words, scale, out + done, n - done);
    }
}

}  // namespace detail

TESSERA_DISPATCH(chacha_noise, float,
                 (const std::uint32_t* state, int rounds, float scale, float* out, std::size_t n),
                 (state, rounds, scale, out, n))

// A ChaCha state: constants, key, counter, nonce.
using ChaChaState = std::array<std::uint32_t, 16>;

inline void add_noise(const ChaChaState& state, int rounds, float scale, Out<float> out) {
    chacha_noise(state.data(), rounds, scale, out.data(), out.size());
}

}  // namespace tessera::kernels
