// SPDX-License-Identifier: BSD-3-Clause
// Sums of outer products, hand-tiled: c[m][j] = sum_k a[k*ak + m*am] b[k][j], both gradients of an affine layer
// (kernels/dense.hpp). What becomes of a finished tile is said by an Epilogue, so an update need not store a gradient.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/vector.hpp>

#if defined(__GNUC__) && !defined(__clang__)
// At -O3 GCC 12 makes copies of these loops for sizes it knows and complains of what a batch of 2^62 rows would do.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Waggressive-loop-optimizations"
#endif

namespace tessera::kernels::detail {

// What becomes of a finished tile of sums: it is stored, or moves the parameters under it. Chosen at run time, tile by
// tile, which no step notices: loops of their own for each cost every program that trains 3 s to compile.
template <class R>
struct Epilogue {
    enum class Kind : unsigned char { store, descend, pulled, by_any_term };  // the plain and the proximal step are hot
    Kind kind = Kind::store;
    UpdateVectors<R> reads{};
    UpdateNumbers<R> numbers{};

    static Epilogue update(const UpdateVectors<R>& reads, const UpdateNumbers<R>& numbers) {
        const bool any = numbers.decay != 0 || reads.linear || reads.velocity;
        return {any ? Kind::by_any_term : reads.prox_center ? Kind::pulled : Kind::descend, reads, numbers};
    }
    Epilogue at(std::size_t j) const { return {kind, reads.at(j), numbers}; }

    // `at` is the coordinate of *c among the parameters that `reads` counts from. `add`: a sum to store is added to
    // what an earlier block of depth left there.
    template <std::size_t Bytes, std::size_t M, std::size_t NV>
    TESSERA_INLINE void tile(R* c, std::size_t ldc, std::size_t at, const Held<R, Bytes> (&sum)[M][NV],
                             bool add) const {
        using Vec = V<R, Bytes>;
        constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
        const Epilogue& own = *forget(this);
        // f by address: a reference to a register in memory would lose, for Clang, that it may lie anywhere.
        const auto each = [&](const auto& f) __attribute__((always_inline)) {
#pragma GCC unroll 8
            for (std::size_t m = 0; m < M; ++m, c = forget(c + ldc))
#pragma GCC unroll 8
                for (std::size_t v = 0; v < NV; ++v) f(c + v * lanes, sum[m][v]);
        };
        if (own.kind == Kind::store && !add) {
            each([](R * x, const Held<R, Bytes>& d) __attribute__((always_inline)) { *reinterpret_cast<Vec*>(x) = d; });
        } else if (own.kind <= Kind::descend) {  // x - (-1)d has the bits of x + d
            const R by = own.kind == Kind::store ? R(-1) : own.numbers.rate;
            each([=](R * x, const Held<R, Bytes>& d)
                     __attribute__((always_inline)) { *reinterpret_cast<Vec*>(x) -= by * d; });
        } else if (own.kind == Kind::pulled) {
            const R by = own.numbers.rate, back = own.numbers.prox_weight;
            const R* to = own.reads.prox_center + at;
#pragma GCC unroll 8
            for (std::size_t m = 0; m < M; ++m) {
#pragma GCC unroll 8
                for (std::size_t v = 0; v < NV; ++v) {
                    Vec& x = *reinterpret_cast<Vec*>(c + v * lanes);
                    const Held<R, Bytes> away = x - *reinterpret_cast<const Vec*>(to + v * lanes);
                    x -= by * (sum[m][v] + back * away);
                }
                c = forget(c + ldc);
                to = forget(to + ldc);
            }
        } else {  // by rows that are not unrolled: a copy of the sums may lie in memory, they themselves must not
            Held<R, Bytes> d[M * NV];
#pragma GCC unroll 8
            for (std::size_t m = 0; m < M; ++m)
#pragma GCC unroll 8
                for (std::size_t v = 0; v < NV; ++v) d[m * NV + v] = sum[m][v];
            const UpdateVectors<R> from = own.reads.at(at);
            const UpdateNumbers<R> by = own.numbers;
#pragma GCC unroll 1
            for (std::size_t m = 0; m < M; ++m)
#pragma GCC unroll 8
                for (std::size_t v = 0; v < NV; ++v)
                    move_vector<Bytes>(c + m * ldc + v * lanes, m * ldc + v * lanes, d[m * NV + v], from, by);
        }
    }
    TESSERA_INLINE void scalar(R* c, std::size_t j, R sum, bool add) const {
        if (kind == Kind::store) *c = add ? *c + sum : sum;
        else move(*c, sum, reads, j, numbers);
    }

private:
    template <std::size_t Bytes>
    TESSERA_INLINE static void move_vector(R* c, std::size_t j, const Held<R, Bytes>& sum,
                                           const UpdateVectors<R>& reads, const UpdateNumbers<R>& numbers) {
        using Vec = V<R, Bytes>;
        Vec& x = *reinterpret_cast<Vec*>(c);
        Held<R, Bytes> d = sum;
        if (numbers.decay != 0) d += numbers.decay * x;
        if (reads.prox_center) d += numbers.prox_weight * (x - *reinterpret_cast<const Vec*>(reads.prox_center + j));
        if (reads.linear) d += *reinterpret_cast<const Vec*>(reads.linear + j);
        if (reads.velocity) {
            Vec& v = *reinterpret_cast<Vec*>(reads.velocity + j);
            v = d = numbers.momentum * v + d;
        }
        x -= numbers.rate * d;
    }
};

// sum_k a[k*ak + m*am] b[k][j - first] for M rows m and NV vectors of columns j, and what becomes of it.
template <class R, std::size_t Bytes, std::size_t M, std::size_t NV>
TESSERA_INLINE void outer_tile(const R* a, std::size_t ak, std::size_t am, const R* const* b, std::size_t first,
                               std::size_t j, R* c, std::size_t ldc, std::size_t depth, std::size_t at, bool add,
                               const Epilogue<R>& end) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    Held<R, Bytes> acc[M][NV] = {};
    for (std::size_t k = 0; k < depth; ++k) {
        const R* row = b[k] + (j - first);
        Held<R, Bytes> bv[NV];
#pragma GCC unroll 8
        for (std::size_t v = 0; v < NV; ++v) bv[v] = *reinterpret_cast<const Vec*>(row + v * lanes);
#pragma GCC unroll 8
        for (std::size_t m = 0; m < M; ++m) {
            const R am_k = a[k * ak + m * am];
#pragma GCC unroll 8
            for (std::size_t v = 0; v < NV; ++v) acc[m][v] += am_k * bv[v];
        }
    }
    end.template tile<Bytes, M, NV>(forget(c + j), ldc, at + j, acc, add);
}

// Which tiles there are: larger ones where 32 registers hold floats. Every shape of tile costs every program compile
// time.
template <class R, std::size_t Bytes>
inline constexpr bool large_tiles = Bytes == 64 && sizeof(R) == 4;

// Columns [from, to) of M rows: whole registers, then 16 bytes at a time, then one by one.
template <class R, std::size_t Bytes, std::size_t M>
TESSERA_INLINE void outer_rows(const R* a, std::size_t ak, std::size_t am, const R* const* b, std::size_t first, R* c,
                               std::size_t ldc, std::size_t from, std::size_t to, std::size_t depth, std::size_t at,
                               bool add, const Epilogue<R>& end) {
    constexpr std::size_t NV = large_tiles<R, Bytes> ? 4 : M == 1 ? 1 : 2, lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = from;
    const auto take = [&]<std::size_t Wide, std::size_t Count>(std::size_t until) __attribute__((always_inline)) {
        constexpr std::size_t columns = Count * VectorOf<R, Wide>::lanes;
        for (; j + columns <= until; j += columns)
            outer_tile<R, Wide, M, Count>(a, ak, am, b, first, j, c, ldc, depth, at, add, end);
    };
    if constexpr (NV == 4) {
        // A tile of one register has too few sums in flight: the last ones are three wide instead (17 = 2*4 + 3*3).
        const std::size_t vectors = (to - from) / lanes, odd = (4 - vectors % 4) % 4;
        const std::size_t threes = 3 * odd <= vectors ? odd : 0;
        take.template operator()<Bytes, 4>(from + (vectors - 3 * threes) * lanes);
        take.template operator()<Bytes, 3>(from + (threes > 0 ? vectors * lanes : 0));
    } else if constexpr (NV > 1) {
        take.template operator()<Bytes, NV>(to);
    }
    take.template operator()<Bytes, 1>(to);
    if constexpr (Bytes > 16) take.template operator()<16, 1>(to);
    for (; j < to; ++j)
        for (std::size_t m = 0; m < M; ++m) {
            R sum = 0;
            for (std::size_t k = 0; k < depth; ++k) sum += a[k * ak + m * am] * b[k][j - first];
            end.scalar(c + m * ldc + j, at + m * ldc + j, sum, add);
        }
}

// f(m, M) for blocks of M rows that cover them all.
template <class R, std::size_t Bytes, class F>
TESSERA_INLINE void for_row_blocks(std::size_t rows, F&& f) {
    std::size_t m = 0;
    const auto take = [&](std::size_t until, auto block) __attribute__((always_inline)) {
        for (; m + block() <= until; m += block()) f(m, block);
    };
    if constexpr (large_tiles<R, Bytes>) {  // 24 of 32 registers; from 20 rows on, sixes and fives are enough
        const std::size_t odd = (6 - rows % 6) % 6, fives = 5 * odd <= rows ? 5 * odd : 0;
        const bool by_fours = fives == 0 && (rows % 6 == 2 || rows % 6 == 3) && rows >= 8;
        take(rows - fives - (by_fours ? 6 : 0), std::integral_constant<std::size_t, 6>{});
        take(m + fives, std::integral_constant<std::size_t, 5>{});
    } else if constexpr (Bytes == 32) {  // what fours leave, as two of ten classes, would go one by one
        const std::size_t fives = 5 * (rows % 4);
        if (fives <= rows) take(fives, std::integral_constant<std::size_t, 5>{});
    }
    take(rows, std::integral_constant<std::size_t, 4>{});
    take(rows, std::integral_constant<std::size_t, 1>{});
}

// Whether a block of depth of b lies so that its rows fight for the same lines of L1, or b is larger than L2.
template <class R>
bool lies_badly(std::size_t columns, std::size_t depth, std::size_t deep) {
    // Twelve lines 4096 bytes apart, or of any stride with that period, fill their places.
    const std::size_t period = 4096 | columns * sizeof(R), step = period & (~period + 1);  // at most 4096
    constexpr std::size_t l2 = 1024 * 1024;
    return depth * columns * sizeof(R) > l2 || std::min(depth, deep) > 12 * (4096 / step);
}
// Rows of a from which on a copy of b is worth its time. On Zen 4, with 1024 columns: four rows with a copy take twice
// as long as without, 20 a quarter longer, 128 3 % (AVX-512); with AVX2 10 rows 1.4 times as long, 20 four fifths.
// Copies of a, whose rows may fight too, never paid.
template <std::size_t Bytes>
inline constexpr std::size_t rows_to_pack = Bytes == 64   ? 48
                                            : Bytes == 32 ? 12
                                                          : 5;

// Columns go by panels, so that what all rows read of b stays in L1. Where that pays b is packed, a panel at a time.
// Depth goes by blocks of `deep`, whose sums add up in c; that and nothing else decides the order of a sum.
template <class R, std::size_t Bytes>
TESSERA_INLINE void outer_sums_body(const R* a, std::size_t ak, std::size_t am, const R* const* b, R* c,
                                    std::size_t rows, std::size_t columns, std::size_t depth, std::size_t deep,
                                    const Epilogue<R>& end) {
    constexpr std::size_t least = 4 * VectorOf<R, Bytes>::lanes, l1 = 24 * 1024;
    const bool packs = rows >= rows_to_pack<Bytes> && lies_badly<R>(columns, depth, deep);
    deep = deep < depth ? deep : depth;
    const std::size_t fitting = l1 / sizeof(R) / (depth > 0 ? depth : 1);
    const std::size_t panel = packs || fitting < least ? least : fitting - fitting % least;

    const Scratch<R> packed(packs ? deep * panel : 0);
    const Scratch<const R*> packed_rows(packs ? deep : 0);
    for (std::size_t k = 0; k < packed_rows.size(); ++k) packed_rows[k] = packed.data() + k * panel;
    for (std::size_t from = 0, to = 0; from < columns; from = to) {
        to = columns - from < panel + (packs ? 1 : least) ? columns : from + panel;  // no sliver at the end
        for (std::size_t k0 = 0; k0 == 0 || k0 < depth; k0 += deep) {
            const std::size_t n = depth - k0 < deep ? depth - k0 : deep;
            for (std::size_t k = 0; packs && k < n; ++k)
                std::memcpy(packed.data() + k * panel, b[k0 + k] + from, (to - from) * sizeof(R));
            for_row_blocks<R, Bytes>(
                rows, [&](std::size_t m, auto block) __attribute__((always_inline)) {
                    constexpr std::size_t M = block();
                    outer_rows<R, Bytes, M>(a + k0 * ak + m * am, ak, am, packs ? packed_rows.data() : b + k0,
                                            packs ? from : 0, c + m * columns, columns, from, to, n, m * columns,
                                            k0 > 0, end);
                });
            if (deep == 0) break;
        }
    }
}

// s[j] (+)= the products of K rows of b, one after the other.
template <class R, std::size_t Bytes, std::size_t K>
TESSERA_INLINE void add_rows(const R* a, std::size_t ak, const R* const* b, R* s, std::size_t columns, bool add) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    const R* row[K];
    R factor[K];
#pragma GCC unroll 8
    for (std::size_t k = 0; k < K; ++k) {
        row[k] = b[k];
        factor[k] = a[k * ak];
    }
    std::size_t j = 0;
    for (; j + lanes <= columns; j += lanes) {
        Vec& to = *reinterpret_cast<Vec*>(s + j);
        Held<R, Bytes> sum = {};
        if (add) sum = to;
#pragma GCC unroll 8
        for (std::size_t k = 0; k < K; ++k) sum += factor[k] * *reinterpret_cast<const Vec*>(row[k] + j);
        to = sum;
    }
    for (; j < columns; ++j) {
        R sum = add ? s[j] : R(0);
#pragma GCC unroll 8
        for (std::size_t k = 0; k < K; ++k) sum += factor[k] * row[k][j];
        s[j] = sum;
    }
}
// The same for so few rows that a tile of them is idle while it waits for b (one row, 1024x1024: 54 instead of 78 us on
// Zen 4): b is read eight rows at a time, and sums wait in c. They add up in the same order.
inline constexpr std::size_t few_rows = 3;
template <class R, std::size_t Bytes>
TESSERA_INLINE void outer_of_few_body(const R* a, std::size_t ak, std::size_t am, const R* const* b, R* c,
                                      std::size_t rows, std::size_t columns, std::size_t depth, std::size_t deep) {
    const Scratch<R> later(depth > deep ? rows * columns : 0);  // the sums of a block of depth but the first
    for (std::size_t k0 = 0; k0 < depth; k0 += deep) {
        const std::size_t end = depth - k0 < deep ? depth : k0 + deep;
        R* const sums = k0 > 0 ? later.data() : c;
        std::size_t k = k0;
        const auto take = [&](auto count) __attribute__((always_inline)) {
            for (; k + count() <= end; k += count())
                for (std::size_t m = 0; m < rows; ++m)
                    add_rows<R, Bytes, count()>(a + k * ak + m * am, ak, b + k, sums + m * columns, columns, k > k0);
        };
        take(std::integral_constant<std::size_t, 8>{});
        take(std::integral_constant<std::size_t, 1>{});
        for (std::size_t j = 0; k0 > 0 && j < rows * columns; ++j) c[j] += sums[j];
    }
}

}  // namespace tessera::kernels::detail
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
