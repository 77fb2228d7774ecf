// SPDX-License-Identifier: BSD-3-Clause
// Blocked activations, on which the sparse kernels work: examples innermost, [block][number][width], where a block has
// `width` examples of a batch padded with zeros to a multiple of `example_lanes`, an empty batch to one of them. Copies
// between rows and blocks. A kernel takes a block at a time, or two, and then reads a list of columns and weights once
// for both.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include <tessera/kernels/dense.hpp>

namespace tessera::kernels {

// Examples come in vectors of this many, whatever the kernel set.
template <class R>
inline constexpr std::size_t example_lanes = 64 / sizeof(R);
template <class R>
constexpr std::size_t padded(std::size_t batch) {
    return batch == 0 ? example_lanes<R> : (batch + example_lanes<R> - 1) / example_lanes<R> * example_lanes<R>;
}

namespace detail {

// The set that is tuned, with 32 registers of 16 floats.
template <class R, std::size_t Bytes>
inline constexpr bool hot_set = Bytes == 64 && sizeof(R) == 4;
inline constexpr std::size_t whole_block = 4;  // registers of examples
template <std::size_t N>
using Count = std::integral_constant<std::size_t, N>;

// Blocks of a padded batch: whole ones, and for what is left over 2 registers and 1; with 16 bytes, whose padding are
// whole blocks, and for doubles 1 alone. With AVX2 sixteen examples in two blocks take twice the time of one.
template <class R, std::size_t Bytes>
inline constexpr bool has_halves = Bytes >= 32 && sizeof(R) == 4;
template <class R, std::size_t Bytes>
constexpr std::size_t block_width(std::size_t left) {
    std::size_t registers = whole_block;
    while (registers * VectorOf<R, Bytes>::lanes > left)
        registers = has_halves<R, Bytes> && registers > 2 ? registers - 2 : 1;
    return registers * VectorOf<R, Bytes>::lanes;
}
// f(first example, registers) for each block, or, in the hot set, for two of them where there are two large ones: one
// row's sums then fill a quarter of the registers, three rows' three quarters.
template <class R, std::size_t Bytes, class F>
TESSERA_INLINE void for_blocks(std::size_t examples, bool in_pairs, const F& f) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    for (std::size_t e = 0, width = 0; e < examples; e += width) {
        const std::size_t left = examples - e;
        width = block_width<R, Bytes>(left);
        if constexpr (hot_set<R, Bytes>) {
            if (in_pairs && left >= 6 * lanes) width = left >= 8 * lanes ? 8 * lanes : 6 * lanes;
            if (width == 8 * lanes) f(e, Count<8>{});
            if (width == 6 * lanes) f(e, Count<6>{});
        }
        if constexpr (has_halves<R, Bytes>)
            if (width == 2 * lanes) f(e, Count<2>{});
        if (width == 4 * lanes) f(e, Count<4>{});
        if (width == lanes) f(e, Count<1>{});
    }
}

// The N registers of one number's examples, met one after the other: in one block, or the first four in one and the
// others in the next. One address serves both: with two, both gradients take 2 to 3 % longer.
template <class T, std::size_t Bytes, std::size_t N>
struct Registers {
    using R = std::remove_const_t<T>;
    static constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, head = N < whole_block ? N : whole_block;
    T* here;
    std::ptrdiff_t to_second;

    TESSERA_INLINE T* at(std::size_t v) {
        if (N > head && v == head) here = forget(here + to_second);
        return here + v % head * lanes;
    }
};
// All numbers of one block or of two.
template <class T, std::size_t Bytes, std::size_t N>
struct Blocks {
    using Place = Registers<T, Bytes, N>;
    static constexpr std::size_t first_width = Place::head * Place::lanes;
    static constexpr std::size_t second_width = N * Place::lanes - first_width;
    T *first, *second;

    TESSERA_INLINE Blocks(T* begin, std::size_t numbers) : first(begin), second(begin + numbers * first_width) {}
    TESSERA_INLINE Place operator[](std::size_t number) const {
        T* const here = first + number * first_width;
        return {forget(here), second_width == first_width ? second - first : second + number * second_width - here};
    }
    TESSERA_INLINE void skip(std::size_t numbers) {
        first += numbers * first_width;
        second += numbers * second_width;
    }
};

// a[i][l] becomes a[l][i]: each of log2(lanes) rounds interleaves register i with the one half the rows away.
template <class R, std::size_t Bytes, std::size_t... Lane>
TESSERA_INLINE void interleave(const Held<R, Bytes>& a, const Held<R, Bytes>& b, Held<R, Bytes>* out,
                               std::index_sequence<Lane...>) {
    constexpr std::size_t lanes = sizeof...(Lane);
    out[0] = __builtin_shufflevector(a, b, (Lane / 2 + Lane % 2 * lanes)...);
    out[1] = __builtin_shufflevector(a, b, (lanes / 2 + Lane / 2 + Lane % 2 * lanes)...);
}
template <class R, std::size_t Bytes, std::size_t Rounds = 0>
TESSERA_INLINE void turn(Held<R, Bytes>* a) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    if constexpr ((std::size_t{1} << Rounds) < lanes) {
        Held<R, Bytes> next[lanes];
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes / 2; ++i)
            interleave<R, Bytes>(a[i], a[i + lanes / 2], next + 2 * i, std::make_index_sequence<lanes>{});
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes; ++i) a[i] = next[i];
        turn<R, Bytes, Rounds + 1>(a);
    }
}

// f(first example, where its first number stands in the blocks, how far numbers are apart) for every register of
// examples.
template <class R, std::size_t Bytes, class F>
TESSERA_INLINE void for_strips(std::size_t examples, std::size_t numbers, const F& f) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    for (std::size_t begin = 0, width = 0; begin < examples; begin += width) {
        width = block_width<R, Bytes>(examples - begin);
        for (std::size_t e = begin; e < begin + width; e += lanes) f(e, begin * numbers + (e - begin), width);
    }
}
// Long rows, as of planes, are copied by pieces through a small matrix: read and written one after the other they come
// in order, and rows whose distance is a power of two do not fight for the same lines.
inline constexpr std::size_t row_piece = 256;
template <class R, std::size_t Bytes>
struct RowPieces {
    static constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, pitch = row_piece + lanes;
    alignas(64) R numbers[lanes * pitch];
};

template <class R, std::size_t Bytes>
TESSERA_INLINE void to_blocks_body(const R* const* rows, R* blocks, std::size_t batch, std::size_t numbers,
                                   std::size_t examples) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    // `n` numbers of the first `present` rows at `from`.
    const auto tile = [&](const R* const* from, std::size_t j, std::size_t n, std::size_t present, R* to,
                          std::size_t apart) __attribute__((always_inline)) {
        if (n >= lanes) {
            Held<R, Bytes> square[lanes] = {};
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i) __builtin_prefetch(to + (lanes + i) * apart, 1);  // what comes next
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i)
                if (i < present) square[i] = *reinterpret_cast<const Vec*>(from[i] + j);
            turn<R, Bytes>(square);
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i) *reinterpret_cast<Vec*>(to + i * apart) = square[i];
            return;
        }
        for (std::size_t k = 0; k < n; ++k)
            for (std::size_t i = 0; i < lanes; ++i) to[k * apart + i] = i < present ? from[i][j + k] : R(0);
    };
    const bool staged = numbers >= 2 * row_piece;
    const std::size_t piece = staged ? row_piece : lanes;
    RowPieces<R, Bytes> stage;
    const R* staged_rows[lanes];
    for (std::size_t i = 0; i < lanes; ++i) staged_rows[i] = stage.numbers + i * stage.pitch;
    // All examples of a block before the next numbers: what is written lies in one piece (7 % less time).
    for (std::size_t begin = 0, width = 0; begin < examples; begin += width) {
        width = block_width<R, Bytes>(examples - begin);
        for (std::size_t j = 0; j < numbers; j += piece) {
            const std::size_t n = numbers - j < piece ? numbers - j : piece;
            for (std::size_t e = 0; e < width; e += lanes) {
                const std::size_t row = begin + e, present = row < batch ? batch - row : 0;
                R* const to = blocks + begin * numbers + j * width + e;
                if (!staged) {
                    tile(rows + row, j, n, present, to, width);
                    continue;
                }
                for (std::size_t i = 0; i < lanes && i < present; ++i)
                    std::memcpy(stage.numbers + i * stage.pitch, rows[row + i] + j, n * sizeof(R));
                for (std::size_t k = 0; k < n; k += lanes)
                    tile(staged_rows, k, n - k, present, to + k * width, width);
            }
        }
    }
}
// A register of examples of at most `lanes` numbers, to rows.
template <class R, std::size_t Bytes>
TESSERA_INLINE void tile_to_rows(const R* from, std::size_t apart, R* rows, std::size_t stride, std::size_t examples,
                                 std::size_t numbers) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    if (numbers >= lanes) {
        Held<R, Bytes> tile[lanes];
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes; ++i) __builtin_prefetch(rows + i * stride + lanes, 1);  // what comes next
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes; ++i) tile[i] = *reinterpret_cast<const Vec*>(from + i * apart);
        turn<R, Bytes>(tile);
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes; ++i)
            if (i < examples) *reinterpret_cast<Vec*>(rows + i * stride) = tile[i];
        return;
    }
    for (std::size_t j = 0; j < numbers && j < lanes; ++j)
        for (std::size_t i = 0; i < examples && i < lanes; ++i) rows[i * stride + j] = from[j * apart + i];
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void from_blocks_body(const R* blocks, R* rows, std::size_t batch, std::size_t numbers,
                                     std::size_t examples) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    const bool staged = numbers >= 2 * row_piece;
    const std::size_t piece = staged ? row_piece : numbers;
    RowPieces<R, Bytes> stage;
    for_strips<R, Bytes>(examples, numbers, [&](std::size_t e, std::size_t at, std::size_t apart)
                                                __attribute__((always_inline)) {
        if (e >= batch) return;
        for (std::size_t from = 0; from < numbers; from += piece) {
            const std::size_t n = numbers - from < piece ? numbers - from : piece;
            R* const to = staged ? stage.numbers : rows + e * numbers;
            for (std::size_t j = 0; j < n; j += lanes)
                tile_to_rows<R, Bytes>(blocks + at + (from + j) * apart, apart, to + j, staged ? stage.pitch : numbers,
                                       batch - e, n - j);
            for (std::size_t i = 0; staged && i < lanes && e + i < batch; ++i)
                std::memcpy(rows + (e + i) * numbers + from, stage.numbers + i * stage.pitch, n * sizeof(R));
        }
    });
}

// sums[j] = sum over the examples of number j
template <class R, std::size_t Bytes>
TESSERA_INLINE void block_sums_body(const R* blocks, R* sums, std::size_t numbers, std::size_t examples) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    for_strips<R, Bytes>(examples, numbers, [&](std::size_t e, std::size_t at, std::size_t apart)
                                                __attribute__((always_inline)) {
        const R* from = blocks + at;
        std::size_t j = 0;
        for (; j + lanes <= numbers; j += lanes) {
            Held<R, Bytes> tile[lanes];
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i) tile[i] = *reinterpret_cast<const Vec*>(from + (j + i) * apart);
            fold_lanes<R, Bytes, lanes / 2, lanes>(tile);
            Vec& to = *reinterpret_cast<Vec*>(sums + j);
            to = e > 0 ? to + tile[0] : tile[0];
        }
        for (; j < numbers; ++j) {
            R sum = e > 0 ? sums[j] : R(0);
            for (std::size_t i = 0; i < lanes; ++i) sum += from[j * apart + i];
            sums[j] = sum;
        }
    });
}

}  // namespace detail

#define TESSERA_BLOCK_KERNELS(R)                                                                                     \
    TESSERA_DISPATCH(to_blocks, R,                                                                                   \
                     (const R* const* rows, R* blocks, std::size_t batch, std::size_t numbers, std::size_t examples),\
                     (rows, blocks, batch, numbers, examples))                                                       \
    TESSERA_DISPATCH(from_blocks, R,                                                                                 \
                     (const R* blocks, R* rows, std::size_t batch, std::size_t numbers, std::size_t examples),       \
                     (blocks, rows, batch, numbers, examples))                                                       \
    TESSERA_DISPATCH(block_sums, R, (const R* blocks, R* sums, std::size_t numbers, std::size_t examples),           \
                     (blocks, sums, numbers, examples))
TESSERA_BLOCK_KERNELS(float)
TESSERA_BLOCK_KERNELS(double)
#undef TESSERA_BLOCK_KERNELS

}  // namespace tessera::kernels
