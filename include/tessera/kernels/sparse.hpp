// SPDX-License-Identifier: BSD-3-Clause
// Affine layers whose weights exist only at the ones of a mask: forward, input gradient, weight gradient.
//
// Weights are packed in coordinate order, activations blocked (kernels/sparse_blocks.hpp): one weight meets a vector of
// examples, and what it meets lies in one piece. Columns go by panels whose activations stay in L1. Sums have one order
// per pattern, whatever the batch or the place in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/sparse_blocks.hpp>
#include <tessera/kernels/sparse_pattern.hpp>

namespace tessera::kernels {

namespace detail {

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
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, width = N * lanes;
    constexpr auto all = std::make_index_sequence<lanes>{};
    std::size_t k = 0, run = 0;
    for (std::size_t panel = 0; panel == 0 || panel < p.columns; panel += p.panel, x += p.panel * width)
        for (std::size_t r = 0; r < p.rows; ++r, ++run) {
            const std::size_t end = p.ends[run];
            const R* value = Elsewhere ? values : values + p.first[run] - k;
            R* to = y + r * width;
            Held<R, Bytes> sum[N];
            if (panel == 0) {
                const Held<R, Bytes> first = Held<R, Bytes>{} + (start ? start[r] : R(0));
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v) sum[v] = first;
            } else {
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v) sum[v] = *reinterpret_cast<const Vec*>(to + v * lanes);
            }
            const auto add = [&](std::size_t column, const auto& w) __attribute__((always_inline)) {
                const R* from = forget(x + column * width);
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v) sum[v] += w * *reinterpret_cast<const Vec*>(from + v * lanes);
            };
            const auto at = [&](std::size_t i) __attribute__((always_inline)) {
                return value[Elsewhere ? p.source[i] : i];
            };
            if constexpr (hot_set<R, Bytes>)
                for (; k + 4 <= end; k += 4) {
                    std::uint64_t columns;
                    std::memcpy(&columns, p.column + k, sizeof columns);
                    const auto column = [&](std::size_t i) { return columns >> (16 * i) & 0xFFFF; };
                    if constexpr (Elsewhere) {
#pragma GCC unroll 4
                        for (std::size_t i = 0; i < 4; ++i) add(column(i), at(k + i));
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
#pragma GCC unroll 8
            for (std::size_t v = 0; v < N; ++v) *reinterpret_cast<Vec*>(to + v * lanes) = sum[v];
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
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, width = N * lanes;
    alignas(64) R spare[width];  // for rows behind the last
    const std::uint32_t* end = p.ends;
    const std::uint32_t* first_of = p.first;
    const std::uint8_t* offset = p.offset;
    std::size_t k = 0;
    for (std::size_t panel = 0; panel < p.columns; panel += p.panel, x += p.panel * width, first_of += p.rows)
        for (std::size_t r = 0; r < p.rows; r += 3) {
            const R* value[3];
#pragma GCC unroll 3
            for (std::size_t q = 0; q < 3; ++q) value[q] = values + first_of[r + q < p.rows ? r + q : r];
            Held<R, Bytes> sum[3][N];
            const auto to = [&](std::size_t q) __attribute__((always_inline)) {
                return r + q < p.rows ? y + (r + q) * width : spare;
            };
#pragma GCC unroll 3
            for (std::size_t q = 0; q < 3; ++q) {
                const Held<R, Bytes> first = Held<R, Bytes>{} + (start && r + q < p.rows ? start[r + q] : R(0));
                const R* from = to(q);
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v)
                    sum[q][v] = panel == 0 ? first : Held<R, Bytes>(*reinterpret_cast<const Vec*>(from + v * lanes));
            }
            const auto list = [&](auto subset) __attribute__((always_inline)) {
                constexpr std::size_t which = decltype(subset)::value;
                for (const std::size_t last = *end++; k < last; ++k) {
                    const R* from = forget(x + p.column[k] * width);
                    R w[3] = {};
#pragma GCC unroll 3
                    for (std::size_t q = 0; q < 3; ++q)
                        if (which >> q & 1) w[q] = value[q][*offset++];
#pragma GCC unroll 8
                    for (std::size_t v = 0; v < N; ++v) {
                        Held<R, Bytes> here = *reinterpret_cast<const Vec*>(from + v * lanes);
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
                R* there = to(q);
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v) *reinterpret_cast<Vec*>(there + v * lanes) = sum[q][v];
            }
        }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void sparse_products_body(SparseOrder p, const R* values, const R* start, const R* x, R* y,
                                         std::size_t examples) {
    for_blocks<R, Bytes>(examples, [&](std::size_t e, auto registers) __attribute__((always_inline)) {
        if (p.together == 3)
            sparse_block_of_three<R, Bytes, registers()>(p, values, start, x + e * p.columns, y + e * p.rows);
        else if (!p.first)
            sparse_block<R, Bytes, registers(), true>(p, values, start, x + e * p.columns, y + e * p.rows);
        else
            sparse_block<R, Bytes, registers(), false>(p, values, start, x + e * p.columns, y + e * p.rows);
    });
}

// What becomes of a register of finished sums, of which the first `n` count: they are added to those of earlier
// blocks, and stored, or they move the values under them.
template <class R>
struct SparseEnd {
    R* sums = nullptr;    // of all blocks so far
    R* values = nullptr;  // null: do not update
    UpdatePulls<R> pulls{};
    UpdateNumbers<R> numbers{};
    bool add = false;

    bool plain() const { return values && !add && !pulls.toward && !pulls.also && !pulls.velocity; }
    SparseEnd of_block(std::size_t begin, std::size_t width, std::size_t examples) const {
        SparseEnd block = *this;
        block.add = begin > 0;
        if (begin + width < examples) block.values = nullptr;
        return block;
    }
    template <std::size_t Bytes>
    TESSERA_INLINE void take(std::size_t k, std::size_t n, std::size_t count, const Held<R, Bytes>& fresh) const {
        using Vec = V<R, Bytes>;
        constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
        if (k + lanes > count) {
            for (std::size_t i = 0; i < n; ++i) scalar(k + i, fresh[i]);
            return;
        }
        Held<R, Bytes> sum = fresh;
        const auto lane = *reinterpret_cast<const V<LaneNumber<R>, Bytes>*>(lane_numbers<R>.data());
        const auto counts = lane < static_cast<LaneNumber<R>>(n);
        if (add) sum += *reinterpret_cast<const Vec*>(sums + k);
        if (!values) {
            Vec& to = *reinterpret_cast<Vec*>(sums + k);
            to = counts ? sum : Held<R, Bytes>(to);
            return;
        }
        Vec& x = *reinterpret_cast<Vec*>(values + k);
        Held<R, Bytes> d = sum;
        if (numbers.decay != 0) d += numbers.decay * x;
        if (pulls.toward) d += numbers.pull * (x - *reinterpret_cast<const Vec*>(pulls.toward + k));
        if (pulls.also) d += *reinterpret_cast<const Vec*>(pulls.also + k);
        if (pulls.velocity) {
            Vec& v = *reinterpret_cast<Vec*>(pulls.velocity + k);
            d = numbers.momentum * v + d;
            v = counts ? d : Held<R, Bytes>(v);
        }
        const Held<R, Bytes> old = x, moved = old - numbers.rate * d;
        x = counts ? moved : old;
    }
    TESSERA_INLINE void scalar(std::size_t k, R sum) const {
        if (add) sum += sums[k];
        if (values) UpdateTile<R, Pulled::by_any_term>{pulls, numbers}.scalar(values + k, k, sum);
        else sums[k] = sum;
    }
};

// sum over the examples of dy[r] x[column], for the ones of the matrix; a register of them is folded at once.
template <class R, std::size_t Bytes, std::size_t N>
TESSERA_INLINE void sampled_block(const SparseOrder& p, const R* x, const R* dy, const SparseEnd<R>& end) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, width = N * lanes;
    std::size_t k = 0, run = 0;
    for (std::size_t panel = 0; panel < p.columns; panel += p.panel, x += p.panel * width)
        for (std::size_t r = 0; r < p.rows; ++r, ++run) {
            const std::size_t last = p.ends[run], there = p.first[run] - k;
            if (k == last) continue;
            Held<R, Bytes> d[N];
#pragma GCC unroll 8
            for (std::size_t v = 0; v < N; ++v) d[v] = *reinterpret_cast<const Vec*>(dy + r * width + v * lanes);
            // Side by side: one after the other, their chains of additions would wait for each other in the scheduler.
            const auto products = [&](auto several, const auto& column, Held<R, Bytes>* sum)
                                      __attribute__((always_inline)) {
                constexpr std::size_t M = decltype(several)::value;
                const R* from[M];
#pragma GCC unroll 4
                for (std::size_t j = 0; j < M; ++j) {
                    from[j] = forget(x + column(j) * width);
                    sum[j] = d[0] * *reinterpret_cast<const Vec*>(from[j]);
                    in_register(sum[j]);  // not fused into a sum that begins with d[1]
                }
#pragma GCC unroll 8
                for (std::size_t v = 1; v < N; ++v)
#pragma GCC unroll 4
                    for (std::size_t j = 0; j < M; ++j)
                        sum[j] += d[v] * *reinterpret_cast<const Vec*>(from[j] + v * lanes);
            };
            if constexpr (hot_set<R, Bytes>) {  // four at a time are half folded at once, sixteen together to the end
                const auto four = [&](std::size_t i, Held<R, Bytes>& half) __attribute__((always_inline)) {
                    std::uint64_t columns;
                    std::memcpy(&columns, p.column + k + i, sizeof columns);
                    Held<R, Bytes> acc[4];
                    products(Count<4>{}, [&](std::size_t j) { return columns >> (16 * j) & 0xFFFF; }, acc);
                    fold_lanes<R, Bytes, lanes / 2, 4>(acc);
                    half = acc[0];
                };
                for (std::size_t n; k < last; k += n) {
                    n = last - k < lanes ? last - k : lanes;
                    Held<R, Bytes> half[4] = {};
                    four(0, half[0]);
                    if (n > 4) four(4, half[1]);
                    if (n > 8) four(8, half[2]);
                    if (n > 12) four(12, half[3]);
                    fold_lanes<R, Bytes, lanes / 8, 4>(half);
                    const Held<R, Bytes> sums = half[0];
                    end.template take<Bytes>(k + there, n, p.count, sums);
                }
            } else {
                for (std::size_t n; k < last; k += n) {
                    n = last - k < lanes ? last - k : lanes;
                    Held<R, Bytes> acc[lanes];
#pragma GCC unroll 16
                    for (std::size_t i = 0; i < lanes; ++i)
                        products(Count<1>{}, [&](std::size_t) { return p.column[k + (i < n ? i : 0)]; }, acc + i);
                    fold_lanes<R, Bytes, lanes / 2, lanes>(acc);
                    const Held<R, Bytes> sums = acc[0];
                    end.template take<Bytes>(k + there, n, p.count, sums);
                }
            }
        }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void sparse_weights_body(SparseOrder p, const R* x, const R* dy, SparseEnd<R> end,
                                        std::size_t examples) {
    for_blocks<R, Bytes>(examples, [&](std::size_t e, auto registers) __attribute__((always_inline)) {
        sampled_block<R, Bytes, registers()>(p, x + e * p.columns, dy + e * p.rows,
                                             end.of_block(e, registers() * VectorOf<R, Bytes>::lanes, examples));
    });
}

// Every lane of 2 * Width neighbours becomes the sum of all of them, in the order of fold_lanes.
template <class R, std::size_t Bytes, std::size_t Width, std::size_t... Lane>
TESSERA_INLINE void fold_within(Held<R, Bytes>& a, std::index_sequence<Lane...> all) {
    if constexpr (Width > 0) {
        const Held<R, Bytes> other = __builtin_shufflevector(a, a, (Lane ^ Width)...);
        a += other;
        fold_within<R, Bytes, Width / 2>(a, all);
    }
}

// Where an input gradient goes: to blocks, or, if there are rows, to [batch][numbers]; then blocks are scratch.
template <class R>
struct SparseOut {
    R* blocks = nullptr;
    R* rows = nullptr;
    std::size_t batch = 0;
};

// Both gradients, of a turned matrix: dx[r] = sum of values dy[column], and for `end` the sums over the examples of
// x[r] dy[column]. Either alone loads a register of dy for each multiply-add, both load it for two, which L2 can feed.
template <class R, std::size_t Bytes, std::size_t N>
TESSERA_INLINE void both_block(const SparseOrder& p, const R* values, const R* x, const R* dy, SparseOut<R> dx,
                               const SparseEnd<R>& end) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, width = N * lanes;
    constexpr std::size_t several = hot_set<R, Bytes> ? 4 : 2;
    // The sums of some ones are finished only after the products of the next: waiting for them where they are made, they
    // would fill the scheduler (3 to 7 % of the pass). Ones that are not there move what is `nowhere`.
    enum Move { plain, decayed, any };
    int move = !end.plain() ? any : end.numbers.decay != 0 ? decayed : plain;
    in_register(move);
    const R rate = end.numbers.rate, decay = end.numbers.decay;
    R* const to_move = end.values ? end.values : end.sums;
    R nowhere[several] = {};
    R* at[several];
    std::size_t late = 0;
    Held<R, Bytes> half = {};
#pragma GCC unroll 4
    for (std::size_t j = 0; j < several; ++j) at[j] = nowhere + j;
    const auto finish = [&]() __attribute__((always_inline)) {
        fold_within<R, Bytes, lanes / several / 2>(half, std::make_index_sequence<lanes>{});
        alignas(64) R sums[lanes];
        *reinterpret_cast<Vec*>(sums) = half;
        const auto sum = [&](std::size_t j) { return sums[j * (lanes / several)]; };
        if (move == plain) {
#pragma GCC unroll 4
            for (std::size_t j = 0; j < several; ++j) *at[j] -= rate * sum(j);
        } else if (move == decayed) {
#pragma GCC unroll 4
            for (std::size_t j = 0; j < several; ++j) *at[j] -= rate * (sum(j) + decay * *at[j]);
        } else {
            for (std::size_t j = 0; j < late; ++j) end.scalar(static_cast<std::size_t>(at[j] - to_move), sum(j));
        }
    };
    const auto row = [&](std::size_t r, std::size_t k, std::size_t last, const R* panel, bool more, R* to)
                         __attribute__((always_inline)) {
        Held<R, Bytes> sum[N] = {}, own[N];
#pragma GCC unroll 8
        for (std::size_t v = 0; v < N; ++v) {
            if (more) sum[v] = *reinterpret_cast<const Vec*>(to + v * lanes);
            own[v] = *reinterpret_cast<const Vec*>(x + r * width + v * lanes);
            in_register(own[v]);
        }
        const auto next = [&](auto count) __attribute__((always_inline)) {
            constexpr std::size_t M = decltype(count)::value;
            const R* from[M];
            R w[M];
            Held<R, Bytes> product[several] = {};
#pragma GCC unroll 4
            for (std::size_t j = 0; j < M; ++j) {
                from[j] = forget(panel + p.column[k + j] * width);
                w[j] = values[p.source[k + j]];
            }
#pragma GCC unroll 8
            for (std::size_t v = 0; v < N; ++v)
#pragma GCC unroll 4
                for (std::size_t j = 0; j < M; ++j) {  // side by side, as in sampled_block
                    Held<R, Bytes> here = *reinterpret_cast<const Vec*>(from[j] + v * lanes);
                    in_register(here);
                    sum[v] += w[j] * here;
                    product[j] = v == 0 ? own[0] * here : product[j] + own[v] * here;
                    if (v == 0) in_register(product[j]);  // as in sampled_block
                }
            finish();
            fold_lanes<R, Bytes, lanes / 2, several>(product);
            half = product[0];
            late = M;
#pragma GCC unroll 4
            for (std::size_t j = 0; j < several; ++j) at[j] = j < M ? to_move + p.source[k + j] : nowhere + j;
            k += M;
        };
        while (k + several <= last) next(Count<several>{});
        if constexpr (several > 2) {
            if (k + 3 == last) next(Count<3>{});
            if (k + 2 == last) next(Count<2>{});
        }
        if (k + 1 == last) next(Count<1>{});
#pragma GCC unroll 8
        for (std::size_t v = 0; v < N; ++v) *reinterpret_cast<Vec*>(to + v * lanes) = sum[v];
    };
    // With one panel a tile of dx is finished at once, and rows can be made of it while it is in L1.
    const bool passing = dx.rows && p.columns <= p.panel;
    std::size_t k = 0, list = 0;
    for (std::size_t panel = 0; panel == 0 || panel < p.columns; panel += p.panel)
        for (std::size_t r = 0; r < p.rows; ++r, k = p.ends[list++]) {
            const std::size_t tile = r / lanes * lanes;
            R* tile_of_dx = passing ? dx.blocks : dx.blocks + tile * width;
            row(r, k, p.ends[list], dy + panel * width, panel > 0, tile_of_dx + (r - tile) * width);
            if (!dx.rows || panel + p.panel < p.columns || (r + 1 < tile + lanes && r + 1 < p.rows)) continue;
            for (std::size_t e = 0; e < width && e < dx.batch; e += lanes)
                tile_to_rows<R, Bytes>(tile_of_dx + e, width, dx.rows + e * p.rows + tile, p.rows, dx.batch - e,
                                       r + 1 - tile);
        }
    finish();
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void sparse_both_body(SparseOrder p, const R* values, const R* x, const R* dy, SparseOut<R> dx,
                                     SparseEnd<R> end, std::size_t examples) {
    for_blocks<R, Bytes>(examples, [&](std::size_t e, auto registers) __attribute__((always_inline)) {
        const SparseOut<R> here{dx.blocks + e * p.rows, dx.rows ? dx.rows + e * p.rows : nullptr,
                                dx.batch > e ? dx.batch - e : 0};
        both_block<R, Bytes, registers()>(p, values, x + e * p.rows, dy + e * p.columns, here,
                                          end.of_block(e, registers() * VectorOf<R, Bytes>::lanes, examples));
    });
}

}  // namespace detail

#define TESSERA_SPARSE_KERNELS(R)                                                                                    \
    TESSERA_DISPATCH(sparse_products, R,                                                                             \
                     (kernels::SparseOrder places, const R* values, const R* start, const R* x, R* y,               \
                      std::size_t examples),                                                                         \
                     (places, values, start, x, y, examples))                                                        \
    TESSERA_DISPATCH(sparse_weights, R,                                                                              \
                     (kernels::SparseOrder places, const R* x, const R* dy, kernels::detail::SparseEnd<R> end,      \
                      std::size_t examples),                                                                         \
                     (places, x, dy, end, examples))                                                                 \
    TESSERA_DISPATCH(sparse_both, R,                                                                                 \
                     (kernels::SparseOrder places, const R* values, const R* x, const R* dy,                        \
                      kernels::detail::SparseOut<R> dx, kernels::detail::SparseEnd<R> end, std::size_t examples),    \
                     (places, values, x, dy, dx, end, examples))
TESSERA_SPARSE_KERNELS(float)
TESSERA_SPARSE_KERNELS(double)
#undef TESSERA_SPARSE_KERNELS

// The entry points. x, y, dx and dy are blocked, weights packed; `start` holds a number a row, or is null.
// y[r] = start[r] + sum of w[r][c] x[c]
template <class R>
void sparse_affine(const SparsePattern& pattern, const R* w, const R* start, const R* x, R* y, std::size_t batch) {
    sparse_products(pattern.places(), w, start, x, y, padded<R>(batch));
}
// dx[c] = sum of w[r][c] dy[r]
template <class R>
void sparse_input_gradient(const SparsePattern& pattern, const R* w, const R* dy, R* dx, std::size_t batch) {
    sparse_products(pattern.transposed(), w, static_cast<const R*>(nullptr), dy, dx, padded<R>(batch));
}
// dw[r][c] = sum over the examples of dy[r] x[c], where w[r][c] exists
template <class R>
void sparse_weight_gradient(const SparsePattern& pattern, const R* dy, const R* x, R* dw, std::size_t batch) {
    sparse_weights(pattern.row_by_row(), x, dy, detail::SparseEnd<R>{.sums = dw}, padded<R>(batch));
}
// The same gradient, and the update of w with it.
template <class R>
void sparse_update(const SparsePattern& pattern, const R* dy, const R* x, R* w, std::size_t batch,
                   const UpdatePulls<R>& pulls, const UpdateNumbers<R>& numbers) {
    const Scratch<R> sums(pattern.count());  // of all blocks but the last
    sparse_weights(pattern.row_by_row(), x, dy,
                   detail::SparseEnd<R>{.sums = sums.data(), .values = w, .pulls = pulls, .numbers = numbers},
                   padded<R>(batch));
}
// Both gradients, with the bits of one after the other; dx alone if dw is null. dx goes to `rows` if there are any;
// `blocks` has room for it all the same.
template <class R>
using SparseOut = detail::SparseOut<R>;
template <class R>
void sparse_gradients(const SparsePattern& pattern, const R* w, const R* dy, const R* x, SparseOut<R> dx, R* dw,
                      std::size_t batch) {
    const auto turned = pattern.transposed();
    dx.batch = batch;
    if (dw) {
        sparse_both(turned, w, x, dy, dx, detail::SparseEnd<R>{.sums = dw}, padded<R>(batch));
        return;
    }
    sparse_input_gradient(pattern, w, dy, dx.blocks, batch);
    if (dx.rows) from_blocks(dx.blocks, dx.rows, batch, turned.rows, padded<R>(batch));
}
// The input gradient with w as it is, and the update of w.
template <class R>
void sparse_backward(const SparsePattern& pattern, const R* dy, const R* x, R* w, SparseOut<R> dx, std::size_t batch,
                     const UpdatePulls<R>& pulls, const UpdateNumbers<R>& numbers) {
    const Scratch<R> sums(pattern.count());  // of all blocks but the last
    dx.batch = batch;
    sparse_both(pattern.transposed(), static_cast<const R*>(w), x, dy, dx,
                detail::SparseEnd<R>{.sums = sums.data(), .values = w, .pulls = pulls, .numbers = numbers},
                padded<R>(batch));
}

}  // namespace tessera::kernels
