// SPDX-License-Identifier: BSD-3-Clause
// Matrix tiles of the processor, and vectors around them (kernels/amx.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <tessera/kernels/dispatch.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels::tiles {

inline constexpr std::size_t lanes = 16, tile_words = 256, row_bytes = 64;

// The operand of LDTILECFG: rows and bytes per row of the eight tiles.
struct alignas(64) Shapes {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
};
static_assert(sizeof(Shapes) == 64);

// Tiles 0 to 2 are sums, 3 to 5 left factors, all of `rows` rows; 6 and 7 are right ones, `pairs` rows of bf16 pairs.
TESSERA_INLINE void shape(Shapes& s, std::size_t rows, std::size_t pairs) {
    for (std::size_t t = 0; t < 8; ++t) {
        s.row_bytes[t] = 64;
        s.rows[t] = static_cast<std::uint8_t>(t < 6 ? rows : pairs);
    }
    s.row_bytes[3] = s.row_bytes[4] = s.row_bytes[5] = static_cast<std::uint16_t>(4 * pairs);
}

// For products of bytes: tiles 0 to 5 are sums, 6 is the left factor, 7 the right one.
TESSERA_INLINE void shape_of_bytes(Shapes& s) {
    for (std::size_t t = 0; t < 8; ++t) {
        s.row_bytes[t] = 64;
        s.rows[t] = lanes;
    }
}

using Floats = detail::Held<float, 64>;
using Words = detail::Held<std::uint32_t, 64>;  // each a pair of bf16, the first in the low half
using Halves = detail::Held<std::uint16_t, 64>;
using Bytes = detail::Held<std::uint8_t, 64>;
using Ints = detail::Held<std::int32_t, 64>;
inline constexpr std::uint32_t upper_half = 0xffff0000;

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

inline constexpr std::uint32_t magnitude = 0x7fffffff;
TESSERA_INLINE void keep_larger(const Words& a, Words& most) { most = a > most ? a : most; }
TESSERA_INLINE std::uint32_t largest_lane(const Words& w) {
    std::uint32_t lane[lanes], most = 0;
    std::memcpy(lane, &w, sizeof lane);
    for (const std::uint32_t one : lane) most = one > most ? one : most;
    return most;
}
TESSERA_INLINE bool any_of(const Words& bits) { return largest_lane(bits) != 0; }

// Upper halves of `first` below those of `second`. A bf16 is the upper half of a float.
TESSERA_INLINE void pair_up(const Words& first, const Words& second, Words& to) {
    to = (first >> 16) | (second & upper_half);
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
    to = reinterpret_cast<Words>(bytes);
}
// Byte `at` of each dword as a number.
TESSERA_INLINE void byte_of(const Words& dwords, std::size_t at, Floats& to) {
    to = __builtin_convertvector(reinterpret_cast<Ints>(dwords >> (8 * at) & 0xff), Floats);
}

}  // namespace tessera::kernels::tiles
