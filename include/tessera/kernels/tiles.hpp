// SPDX-License-Identifier: BSD-3-Clause
// Matrix tiles of the processor, and how numbers and bytes become their factors (kernels/amx.hpp).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <tessera/kernels/dispatch.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels::tiles {

// The operand of LDTILECFG: rows and bytes per row of the eight tiles.
struct alignas(64) Shapes {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
};
static_assert(sizeof(Shapes) == 64);

// Tiles 6 and 7 are right factors, `pairs` rows of bf16 pairs; others have `rows` rows, but 2, 3 and 5 `lower_rows`.
// Tiles 3, 4 and 5 may be left factors.
TESSERA_INLINE void shape(Shapes& s, std::size_t rows, std::size_t lower_rows, std::size_t pairs) {
    for (std::size_t t = 0; t < 8; ++t) {
        s.row_bytes[t] = 64;
        s.rows[t] = static_cast<std::uint8_t>(t == 2 || t == 3 || t == 5 ? lower_rows : rows);
    }
    s.row_bytes[3] = s.row_bytes[4] = s.row_bytes[5] = static_cast<std::uint16_t>(4 * pairs);
    s.rows[6] = s.rows[7] = static_cast<std::uint8_t>(pairs);
}

// For products of bytes: tiles 0 to 5 are sums, 6 is the left factor, all of `rows` rows, 7 the right one.
TESSERA_INLINE void shape_of_bytes(Shapes& s, std::size_t rows) {
    for (std::size_t t = 0; t < 8; ++t) {
        s.row_bytes[t] = 64;
        s.rows[t] = static_cast<std::uint8_t>(t == 7 ? 16 : rows);
    }
}

using Floats = detail::Held<float, 64>;
using Words = detail::Held<std::uint32_t, 64>;  // each a pair of bf16, the first in the low half
using Halves = detail::Held<std::uint16_t, 64>;
using Bytes = detail::Held<std::uint8_t, 64>;
using Ints = detail::Held<std::int32_t, 64>;
inline constexpr std::size_t lanes = 16, tile_words = 256, row_bytes = 64;
inline constexpr std::uint32_t upper_half = 0xffff0000, ones = 0x3f803f80;

#ifdef TESSERA_TILES
// The processor's tiles. Plain instructions, because the compilers' functions want literal tile numbers (and GCC 12's
// _tile_loadconfig declares only 8 of the 64 bytes that LDTILECFG reads).
struct Processor {
    TESSERA_INLINE void configure(const Shapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
    TESSERA_INLINE void release() { asm volatile("tilerelease"); }
    template <int Tile>
    TESSERA_INLINE void zero() {
        asm volatile("tilezero %%tmm%c0" ::"i"(Tile));
    }
    template <int Tile>
    TESSERA_INLINE void load(const void* from, std::size_t stride) {
        asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(Tile) : "memory");
    }
    template <int Tile>
    TESSERA_INLINE void store(void* to, std::size_t stride) {
        asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(Tile) : "memory");
    }
    template <int Sum, int Left, int Right>
    TESSERA_INLINE void multiply() {
        asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(Left), "i"(Right));
    }
    template <int Sum, int Left, int Right>
    TESSERA_INLINE void multiply_bytes() {
        asm volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(Left), "i"(Right));
    }
};
#endif

// What tiles see of a shift: byte - whole, and `rest` by one more example where it is not 0.
struct Shift {
    std::int32_t whole;
    float rest;
    std::size_t extra;  // examples

    explicit Shift(float shift)
        : whole(static_cast<std::int32_t>(std::lrint(shift))),
          rest(shift - static_cast<float>(whole)),
          extra(rest != 0 ? 1 : 0) {}
};

// The first n lanes; the others are 0, and nothing is read there.
TESSERA_INLINE void load_lanes(const float* from, std::size_t n, Floats& to) {
    if (n >= lanes) {
        std::memcpy(&to, from, sizeof to);
        return;
    }
    to = Floats{};
    std::memcpy(&to, from, n * sizeof(float));
}
TESSERA_INLINE void store_lanes(const Floats& from, std::size_t n, float* to) {
    if (n >= lanes) std::memcpy(to, &from, sizeof from);
    else std::memcpy(to, &from, n * sizeof(float));
}

// One level of a 16 x 16 transposition: swaps the off-diagonal blocks of Block lanes of every block of twice that.
template <std::size_t Block, class Row, std::size_t... Lane>
TESSERA_INLINE void swap_blocks(Row (&r)[lanes], std::index_sequence<Lane...>) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < lanes; ++i)
        if ((i & Block) == 0) {
            const Row a = r[i], b = r[i + Block];
            r[i] = __builtin_shufflevector(a, b, ((Lane & Block) == 0 ? Lane : lanes + Lane - Block)...);
            r[i + Block] = __builtin_shufflevector(a, b, ((Lane & Block) == 0 ? Lane + Block : lanes + Lane)...);
        }
}
template <class Row>
TESSERA_INLINE void transpose(Row (&r)[lanes]) {
    constexpr auto lane = std::make_index_sequence<lanes>{};
    swap_blocks<8>(r, lane);
    swap_blocks<4>(r, lane);
    swap_blocks<2>(r, lane);
    swap_blocks<1>(r, lane);
}

// Upper halves of `first` below those of `second`. A bf16 is the upper half of a float.
TESSERA_INLINE void pair_up(const Floats& first, const Floats& second, Words& to) {
    to = ((Words)first >> 16) | ((Words)second & upper_half);
}
// Dword p of 64 bytes gets bytes p, p + 16, p + 32 and p + 48.
template <std::size_t... Byte>
TESSERA_INLINE void deal(Bytes& bytes, std::index_sequence<Byte...>) {
    bytes = __builtin_shufflevector(bytes, bytes, (Byte % 4 * lanes + Byte / 4)...);
}
// 64 bytes, or the n there are and zeros.
TESSERA_INLINE void load_dealt(const std::uint8_t* from, std::size_t n, Words& to) {
    Bytes bytes{};
    if (n >= sizeof bytes) std::memcpy(&bytes, from, sizeof bytes);
    else std::memcpy(&bytes, from, n);
    deal(bytes, std::make_index_sequence<sizeof bytes>{});
    to = (Words)bytes;
}
// Byte `at` of each dword less a whole number, which `origin` has beside 2^23.
TESSERA_INLINE void byte_of(const Words& dwords, std::size_t at, float origin, Floats& to) {
    constexpr std::uint32_t two_to_23 = 0x4b000000;  // a float whose last bits count ones
    to = (Floats)((dwords >> (8 * at) & 0xff) | two_to_23) - origin;
}

// Pairs of numbers as pairs of bf16 terms, a tile apart: leading 8 bits, the next 8, what is left. Spends the numbers.
template <std::size_t Terms>
TESSERA_INLINE void split(Floats& first, Floats& second, std::uint32_t* to) {
    static_assert(Terms <= 3, "three terms of 8 bits are all of a float");
#pragma GCC unroll 3
    for (std::size_t t = 0; t < Terms; ++t) {
        Words pair;
        pair_up(first, second, pair);
        std::memcpy(to + t * tile_words, &pair, sizeof pair);
        first -= (Floats)((Words)first & upper_half);
        second -= (Floats)((Words)second & upper_half);
    }
}

// 16 rows of weights in fixed point, each with a unit of its own: w = unit * (d2 * 65536 + d1 * 256 + d0) to half a unit,
// and a row's largest weight is 2^21 (less 0.8 %) to 2^22 units. Adding `origin`, 1.5 * 2^e and 0x8080 units of
// 2^(e - 23), leaves in the low bytes of a float the digits plus 128, in the third plus 64, and there the last bit of the
// exponent is on top.
struct FixedPoint {
    alignas(64) float origin[lanes];
    alignas(64) std::uint32_t odd[lanes];  // that last bit
    Floats unit;                           // NaN where a weight is, or is infinite or beyond 2^125

    // What the largest magnitudes of a row need, of each lane; as bits, of which NaN has the largest.
    TESSERA_INLINE static void peaks_of(const float* row, std::size_t n, std::uint32_t* peaks) {
        Words most[2] = {};
        std::size_t at = 0;
        for (; at + 2 * lanes <= n; at += 2 * lanes)
#pragma GCC unroll 2
            for (std::size_t v = 0; v < 2; ++v) {
                Words bits;
                std::memcpy(&bits, row + at + v * lanes, sizeof bits);
                keep_larger(bits & magnitude, most[v]);
            }
        for (; at < n; at += lanes) {
            Floats left;
            load_lanes(row + at, n - at, left);
            keep_larger((Words)left & magnitude, most[0]);
        }
        keep_larger(most[1], most[0]);
        std::memcpy(peaks, &most[0], sizeof most[0]);
    }
    TESSERA_INLINE void fit(const std::uint32_t* peaks) {
        Words most[lanes];
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes; ++i) std::memcpy(&most[i], peaks + i * lanes, sizeof most[i]);
        transpose(most);
#pragma GCC unroll 16
        for (std::size_t i = 1; i < lanes; ++i) keep_larger(most[i], most[0]);
        constexpr std::uint32_t a_little_more = 0x00020400;  // the last bits, of which a unit has four, for the 0x8080
        const Words none{}, exponent = ((most[0] + a_little_more) >> 23) + 2;
        const Words start = exponent << 23 | 0x00408080, last = exponent & 1;
        const Words below = exponent > 23 ? exponent - 23 : none;
        const Words one = exponent > 254 ? none + 0x7fc00000 : below << 23;
        std::memcpy(origin, &start, sizeof start);
        std::memcpy(odd, &last, sizeof last);
        unit = (Floats)one;
    }
    // Digits of 64 weights of a row, a tile apart; bytes i to i + 3 are of weights i / 4 + 0, 16, 32 and 48.
    TESSERA_INLINE void digits(const float* w, std::size_t row, std::uint32_t* to) const {
        Floats v[4];
#pragma GCC unroll 4
        for (std::size_t q = 0; q < 4; ++q) {
            std::memcpy(&v[q], w + q * lanes, sizeof v[q]);
            v[q] += origin[row];
        }
        const Words a = (Words)v[0], b = (Words)v[1], c = (Words)v[2], d = (Words)v[3];
        const Words even_low = (a & 0xffff) | c << 16, odd_low = (b & 0xffff) | d << 16;
        const Words even_high = a >> 16 | (c & upper_half), odd_high = b >> 16 | (d & upper_half);
        const Words digit[3] = {(even_low & 0x00ff00ff) | (Words)((Halves)odd_low << 8),
                                (Words)((Halves)even_low >> 8) | (odd_low & 0xff00ff00),
                                (even_high & 0x00ff00ff) | (Words)((Halves)odd_high << 8)};
#pragma GCC unroll 3
        for (std::size_t q = 0; q < 3; ++q) std::memcpy(to + q * tile_words, &digit[q], sizeof digit[q]);
    }
    // Sums of digits times bytes as those of weights, in units; `bytes` are the sums of the bytes alone.
    TESSERA_INLINE void value(const Ints& d0, const Ints& d1, const Ints& d2, const Ints& bytes, std::size_t row,
                              Floats& to) const {
        const Ints middle = bytes * 128, top = bytes * 64 + (odd[row] ? middle : Ints{});
        const Floats low = __builtin_convertvector(d0 - middle, Floats);
        const Floats mid = __builtin_convertvector(d1 - middle, Floats);
        const Floats high = __builtin_convertvector(d2 - top, Floats);
        to = high * 65536.0f + (mid * 256.0f + low);
    }

private:
    static constexpr std::uint32_t magnitude = 0x7fffffff;
    TESSERA_INLINE static void keep_larger(const Words& a, Words& most) { most = a > most ? a : most; }
};

}  // namespace tessera::kernels::tiles
