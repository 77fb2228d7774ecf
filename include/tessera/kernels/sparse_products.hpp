// SPDX-License-Identifier: BSD-3-Clause
// Products of a sparse matrix with blocked activations: row by row, or three rows together
// (kernels/sparse_pattern.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/sparse_blocks.hpp>
#include <tessera/kernels/sparse_pattern.hpp>

namespace tessera::kernels::detail {

// Every lane of out is lane I of its four neighbours.
template <class R, std::size_t Bytes, std::size_t I, std::size_t... Lane>
TESSERA_INLINE void spread(const Held<R, Bytes>& in, Held<R, Bytes>& out, std::index_sequence<Lane...>) {
    out = __builtin_shufflevector(in, in, (Lane / 4 * 4 + I)...);
}
// Four numbers, again and again: one load and then four shuffles, not four loads, of which the loop has too many.
template <class R, std::size_t Bytes, std::size_t... Lane>
TESSERA_INLINE void repeat_four(const R* four, Held<R, Bytes>& out, std::index_sequence<Lane...>) {
    const auto& in = *reinterpret_cast<const V<R, 4 * sizeof(R)>*>(four);
#if defined(__x86_64__) && !defined(__clang__)  // GCC 12 would go through memory
    asm("vbroadcastf32x4 %1, %0" : "=v"(out) : "m"(in));
#else
    const Held<R, 4 * sizeof(R)> held = in;
    out = __builtin_shufflevector(held, held, (Lane % 4)...);
#endif
}

// y[r] = start[r] + sum of values x[column] over the ones of row r, in their order.
template <class R, std::size_t Bytes, std::size_t N, bool Elsewhere>
TESSERA_INLINE void sparse_block(const SparseOrder& p, const R* values, const R* start, const R* x, R* y) {
    using Vec = V<R, Bytes>;
    constexpr auto all = std::make_index_sequence<VectorOf<R, Bytes>::lanes>{};
    Blocks<const R, Bytes, N> in(x, p.columns);
    const Blocks<R, Bytes, N> out(y, p.rows);
    std::size_t k = 0, run = 0;
    for (std::size_t panel = 0; panel == 0 || panel < p.columns; panel += p.panel, in.skip(p.panel))
        for (std::size_t i = 0; i < p.rows; ++i, ++run) {
            const std::size_t end = p.ends[run], r = p.row[run];
            const R* value = Elsewhere ? values : values + p.first[run] - k;
            Held<R, Bytes> sum[N];
            if (panel == 0) {
                const Held<R, Bytes> first = Held<R, Bytes>{} + (start ? start[r] : R(0));
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v) sum[v] = first;
            } else {
                auto before = out[r];
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v) sum[v] = *reinterpret_cast<const Vec*>(before.at(v));
            }
            const auto add = [&](std::size_t column, const auto& w) __attribute__((always_inline)) {
                auto from = in[column];
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v) sum[v] += w * *reinterpret_cast<const Vec*>(from.at(v));
            };
            const auto at = [&](std::size_t one) __attribute__((always_inline)) {
                return value[Elsewhere ? p.source[one] : one];
            };
            if constexpr (hot_set<R, Bytes>)
                for (; k + 4 <= end; k += 4) {
                    const std::uint16_t* columns = p.column + k;
                    const auto column = [&](std::size_t j) { return std::size_t{columns[j]}; };
                    if constexpr (Elsewhere) {
#pragma GCC unroll 4
                        for (std::size_t j = 0; j < 4; ++j) add(column(j), at(k + j));
                    } else {
                        Held<R, Bytes> four, w;
                        repeat_four<R, Bytes>(value + k, four, all);
                        add(column(0), (spread<R, Bytes, 0>(four, w, all), w));
                        add(column(1), (spread<R, Bytes, 1>(four, w, all), w));
                        add(column(2), (spread<R, Bytes, 2>(four, w, all), w));
                        add(column(3), (spread<R, Bytes, 3>(four, w, all), w));
                    }
                }
            for (; k < end; ++k) add(p.column[k], at(k));
            auto to = out[r];
#pragma GCC unroll 8
            for (std::size_t v = 0; v < N; ++v) *reinterpret_cast<Vec*>(to.at(v)) = sum[v];
        }
}

// Keeps a number that is used several times from being loaded each time, as GCC would.
template <class T>
TESSERA_INLINE void in_register([[maybe_unused]] T& loaded) {
#if defined(__clang__)
#elif defined(__x86_64__)
    if constexpr (std::is_integral_v<T>) asm("" : "+r"(loaded));
    else asm("" : "+v"(loaded));
#elif defined(__aarch64__)
    if constexpr (std::is_integral_v<T>) asm("" : "+r"(loaded));
    else asm("" : "+w"(loaded));
#endif
}

// The same, three rows at a time: a register of x that two or three of them want is loaded once.
template <class R, std::size_t Bytes, std::size_t N>
TESSERA_INLINE void sparse_block_of_three(const SparseOrder& p, const R* values, const R* start, const R* x, R* y) {
    using Vec = V<R, Bytes>;
    Blocks<const R, Bytes, N> in(x, p.columns);
    const Blocks<R, Bytes, N> out(y, p.rows);
    alignas(64) R room[N * VectorOf<R, Bytes>::lanes];
    const Blocks<R, Bytes, N> spare(room, 1);  // for rows behind the last
    const std::uint32_t* end = p.ends;
    const std::uint32_t* first_of = p.first;
    const std::uint8_t* offset = p.offset;
    std::size_t k = 0;
    for (std::size_t panel = 0; panel < p.columns; panel += p.panel, in.skip(p.panel), first_of += p.rows)
        for (std::size_t r = 0; r < p.rows; r += 3) {
            const R* value[3];
#pragma GCC unroll 3
            for (std::size_t q = 0; q < 3; ++q) value[q] = values + first_of[r + q < p.rows ? r + q : r];
            Held<R, Bytes> sum[3][N];
            const auto to = [&](std::size_t q) __attribute__((always_inline)) {
                return r + q < p.rows ? out[r + q] : spare[0];
            };
#pragma GCC unroll 3
            for (std::size_t q = 0; q < 3; ++q) {
                const Held<R, Bytes> first = Held<R, Bytes>{} + (start && r + q < p.rows ? start[r + q] : R(0));
                auto from = to(q);
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v)
                    sum[q][v] = panel == 0 ? first : Held<R, Bytes>(*reinterpret_cast<const Vec*>(from.at(v)));
            }
            const auto list = [&](auto subset) __attribute__((always_inline)) {
                constexpr std::size_t which = decltype(subset)::value;
                for (const std::size_t last = *end++; k < last; ++k) {
                    auto from = in[p.column[k]];
                    R w[3] = {};
#pragma GCC unroll 3
                    for (std::size_t q = 0; q < 3; ++q)
                        if (which >> q & 1) w[q] = value[q][*offset++];
#pragma GCC unroll 8
                    for (std::size_t v = 0; v < N; ++v) {
                        Held<R, Bytes> here = *reinterpret_cast<const Vec*>(from.at(v));
                        if constexpr (which != 1 && which != 2 && which != 4) in_register(here);
#pragma GCC unroll 3
                        for (std::size_t q = 0; q < 3; ++q)
                            if (which >> q & 1) sum[q][v] += w[q] * here;
                    }
                }
            };
            list(Count<7>{}), list(Count<6>{}), list(Count<5>{}), list(Count<4>{});
            list(Count<3>{}), list(Count<2>{}), list(Count<1>{});
#pragma GCC unroll 3
            for (std::size_t q = 0; q < 3; ++q) {
                auto there = to(q);
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v) *reinterpret_cast<Vec*>(there.at(v)) = sum[q][v];
            }
        }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void sparse_products_body(SparseOrder p, const R* values, const R* start, const R* x, R* y,
                                         std::size_t examples) {
    for_blocks<R, Bytes>(examples, p.in_pairs, [&](std::size_t e, auto registers) __attribute__((always_inline)) {
        if (p.together == 3)
            sparse_block_of_three<R, Bytes, registers()>(p, values, start, x + e * p.columns, y + e * p.rows);
        else if (!p.first)
            sparse_block<R, Bytes, registers(), true>(p, values, start, x + e * p.columns, y + e * p.rows);
        else
            sparse_block<R, Bytes, registers(), false>(p, values, start, x + e * p.columns, y + e * p.rows);
    });
}

}  // namespace tessera::kernels::detail
