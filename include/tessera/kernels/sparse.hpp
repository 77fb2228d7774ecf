// SPDX-License-Identifier: BSD-3-Clause
// Affine layers whose weights exist only at the ones of a mask: forward, input gradient, weight gradient.
//
// Weights are packed in coordinate order, activations blocked (kernels/sparse_blocks.hpp): one weight meets a vector of
// examples, and what it meets lies in one piece. Columns go by panels whose activations stay in L1. Sums have one order
// per pattern, whatever the batch or the place in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/sparse_blocks.hpp>
#include <tessera/kernels/sparse_pattern.hpp>
#include <tessera/kernels/sparse_products.hpp>

namespace tessera::kernels {

namespace detail {

// One number in every lane.
template <class R, std::size_t Bytes>
TESSERA_INLINE void broadcast(const R& number, Held<R, Bytes>& out) {
#if defined(__x86_64__) && !defined(__clang__)  // GCC 12 would load it and then shuffle, where multiply-adds want to go
    if constexpr (hot_set<R, Bytes>) {
        asm("vbroadcastss %1, %0" : "=v"(out) : "m"(number));
        return;
    }
#endif
    out = Held<R, Bytes>{} + number;
}

// What becomes of a register of finished sums, of which the first `n` count: they are added to those of earlier
// blocks, and stored, or they move the values under them.
template <class R>
struct SparseEnd {
    R* sums = nullptr;    // of all blocks so far
    R* values = nullptr;  // null: do not update
    UpdateVectors<R> reads{};
    UpdateNumbers<R> numbers{};
    bool add = false;

    bool plain() const { return values && !add && !reads.prox_center && !reads.linear && !reads.velocity; }
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
        if (reads.prox_center) d += numbers.prox_weight * (x - *reinterpret_cast<const Vec*>(reads.prox_center + k));
        if (reads.linear) d += *reinterpret_cast<const Vec*>(reads.linear + k);
        if (reads.velocity) {
            Vec& v = *reinterpret_cast<Vec*>(reads.velocity + k);
            d = numbers.momentum * v + d;
            v = counts ? d : Held<R, Bytes>(v);
        }
        const Held<R, Bytes> old = x, moved = old - numbers.rate * d;
        x = counts ? moved : old;
    }
    TESSERA_INLINE void scalar(std::size_t k, R sum) const {
        if (add) sum += sums[k];
        if (values) move(values[k], sum, reads, k, numbers);
        else sums[k] = sum;
    }
};

// sum over the examples of dy[r] x[column], for the ones of the matrix; a register of them is folded at once.
template <class R, std::size_t Bytes, std::size_t N>
TESSERA_INLINE void sampled_block(const SparseOrder& p, const R* x, const R* dy, const SparseEnd<R>& end) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    Blocks<const R, Bytes, N> in(x, p.columns);
    const Blocks<const R, Bytes, N> gradients(dy, p.rows);
    std::size_t k = 0, run = 0;
    for (std::size_t panel = 0; panel < p.columns; panel += p.panel, in.skip(p.panel))
        for (std::size_t i = 0; i < p.rows; ++i, ++run) {
            const std::size_t last = p.ends[run], there = p.first[run] - k;
            if (k == last) continue;
            auto own = gradients[p.row[run]];
            Held<R, Bytes> d[N];
#pragma GCC unroll 8
            for (std::size_t v = 0; v < N; ++v) d[v] = *reinterpret_cast<const Vec*>(own.at(v));
            // Side by side: one after the other, their chains of additions would wait for each other in the scheduler.
            const auto products = [&](auto several, const auto& column, Held<R, Bytes>* sum)
                                      __attribute__((always_inline)) {
                constexpr std::size_t M = decltype(several)::value;
                Registers<const R, Bytes, N> from[M];
#pragma GCC unroll 4
                for (std::size_t j = 0; j < M; ++j) {
                    from[j] = in[column(j)];
                    sum[j] = d[0] * *reinterpret_cast<const Vec*>(from[j].at(0));
                    in_register(sum[j]);  // not fused into a sum that begins with d[1]
                }
#pragma GCC unroll 8
                for (std::size_t v = 1; v < N; ++v)
#pragma GCC unroll 4
                    for (std::size_t j = 0; j < M; ++j) sum[j] += d[v] * *reinterpret_cast<const Vec*>(from[j].at(v));
            };
            if constexpr (hot_set<R, Bytes>) {  // four at a time are half folded at once, sixteen together to the end
                const auto four = [&](std::size_t begin, Held<R, Bytes>& half) __attribute__((always_inline)) {
                    Held<R, Bytes> acc[4];
                    const std::uint16_t* columns = p.column + k + begin;
                    products(Count<4>{}, [&](std::size_t j) { return std::size_t{columns[j]}; }, acc);
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
                    for (std::size_t l = 0; l < lanes; ++l)
                        products(Count<1>{}, [&](std::size_t) { return p.column[k + (l < n ? l : 0)]; }, acc + l);
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
    for_blocks<R, Bytes>(examples, true, [&](std::size_t e, auto registers) __attribute__((always_inline)) {
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
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    constexpr std::size_t several = hot_set<R, Bytes> ? 4 : 2;
    // The sums of some ones are finished only after the products of the next: waiting for them where they are made,
    // they would fill the scheduler (3 to 7 % of the pass).
    enum Move { plain, decayed, any };
    int move = !end.plain() ? any : end.numbers.decay != 0 ? decayed : plain;
    in_register(move);
    const R rate = end.numbers.rate, decay = end.numbers.decay;
    R* const to_move = end.values ? end.values : end.sums;
    std::size_t late = 0;                    // so many wait
    const std::uint32_t* places = p.source;  // and are there
    Held<R, Bytes> half = {};
    const auto finish = [&]() __attribute__((always_inline)) {
        fold_within<R, Bytes, lanes / several / 2>(half, std::make_index_sequence<lanes>{});
        alignas(64) R sums[lanes];
        *reinterpret_cast<Vec*>(sums) = half;
        const auto sum = [&](std::size_t j) { return sums[j * (lanes / several)]; };
        if (late == several && move == plain) {
#pragma GCC unroll 4
            for (std::size_t j = 0; j < several; ++j) to_move[places[j]] -= rate * sum(j);
            return;
        }
        if (late == several && move == decayed) {
#pragma GCC unroll 4
            for (std::size_t j = 0; j < several; ++j) {
                R& value = to_move[places[j]];
                value -= rate * (sum(j) + decay * value);
            }
            return;
        }
        for (std::size_t j = 0; j < late; ++j) {
            R& value = to_move[places[j]];
            if (move == any) end.scalar(places[j], sum(j));
            else value -= rate * (move == plain ? sum(j) : sum(j) + decay * value);
        }
    };
    const Blocks<const R, Bytes, N> inputs(x, p.rows);
    Blocks<const R, Bytes, N> gradients(dy, p.columns);
    const auto row = [&](std::size_t r, std::size_t k, std::size_t last, auto panel, bool more, auto to)
                         __attribute__((always_inline)) {
        auto input = inputs[r];
        auto before = to;
        Held<R, Bytes> sum[N] = {}, own[N];
#pragma GCC unroll 8
        for (std::size_t v = 0; v < N; ++v) {
            if (more) sum[v] = *reinterpret_cast<const Vec*>(before.at(v));
            own[v] = *reinterpret_cast<const Vec*>(input.at(v));
            in_register(own[v]);
        }
        const std::uint16_t *column = p.column + k, *const behind = p.column + last;
        const std::uint32_t* source = p.source + k;
        const auto next = [&](auto count) __attribute__((always_inline)) {
            constexpr std::size_t M = decltype(count)::value;
            Registers<const R, Bytes, N> from[M];
            Held<R, Bytes> w[M], product[several] = {};
#pragma GCC unroll 4
            for (std::size_t j = 0; j < M; ++j) {
                from[j] = panel[column[j]];
                broadcast<R, Bytes>(values[source[j]], w[j]);
            }
#pragma GCC unroll 8
            for (std::size_t v = 0; v < N; ++v)
#pragma GCC unroll 4
                for (std::size_t j = 0; j < M; ++j) {  // side by side, as in sampled_block
                    Held<R, Bytes> here = *reinterpret_cast<const Vec*>(from[j].at(v));
                    in_register(here);
                    sum[v] += w[j] * here;
                    product[j] = v == 0 ? own[0] * here : product[j] + own[v] * here;
                    if (v == 0) in_register(product[j]);  // as in sampled_block
                }
            finish();
            fold_lanes<R, Bytes, lanes / 2, several>(product);
            half = product[0];
            late = M;
            places = source;
            source += M;
            column += M;
        };
        while (column + several <= behind) next(Count<several>{});
        if constexpr (several > 2) {
            if (column + 3 == behind) next(Count<3>{});
            if (column + 2 == behind) next(Count<2>{});
        }
        if (column + 1 == behind) next(Count<1>{});
#pragma GCC unroll 8
        for (std::size_t v = 0; v < N; ++v) *reinterpret_cast<Vec*>(to.at(v)) = sum[v];
    };
    // With one panel rows of dx are finished at once, and can be turned while they are in L1.
    const bool passing = dx.rows && p.columns <= p.panel;
    const Blocks<R, Bytes, N> out(dx.blocks, passing && p.rows > rows_in_turn ? rows_in_turn : p.rows);
    std::size_t k = 0, list = 0;
    for (std::size_t panel = 0; panel == 0 || panel < p.columns; panel += p.panel, gradients.skip(p.panel))
        for (std::size_t group = 0; group < p.rows; group += rows_in_turn) {
            const std::size_t rows = p.rows - group < rows_in_turn ? p.rows - group : rows_in_turn;
            const std::size_t begin = passing ? 0 : group;
            for (std::size_t i = 0; i < rows; ++i, k = p.ends[list++]) {
                const std::size_t r = p.row[list], soon = p.row[i + 1 < rows ? list + 1 : list];
                auto soon_in = inputs[soon];
                auto soon_out = out[begin + soon - group];
#pragma GCC unroll 8
                for (std::size_t v = 0; v < N; ++v) {  // rows do not come one behind the other (2 % of the pass)
                    __builtin_prefetch(soon_in.at(v));
                    if (panel > 0) __builtin_prefetch(soon_out.at(v), 1);
                }
                row(r, k, p.ends[list], gradients, panel > 0, out[begin + r - group]);
            }
            if (!dx.rows || panel + p.panel < p.columns) continue;
            for (std::size_t tile = 0; tile < rows; tile += lanes) {
                auto from = out[begin + tile];
                for (std::size_t e = 0; e < N * lanes && e < dx.batch; e += lanes)
                    tile_to_rows<R, Bytes>(from.at(e / lanes), e < out.first_width ? out.first_width : out.second_width,
                                           dx.rows + e * p.rows + group + tile, p.rows, dx.batch - e, rows - tile);
            }
        }
    finish();
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void sparse_both_body(SparseOrder p, const R* values, const R* x, const R* dy, SparseOut<R> dx,
                                     SparseEnd<R> end, std::size_t examples) {
    for_blocks<R, Bytes>(examples, true, [&](std::size_t e, auto registers) __attribute__((always_inline)) {
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
                   const UpdateVectors<R>& reads, const UpdateNumbers<R>& numbers) {
    const Scratch<R> sums(pattern.count());  // of all blocks but the last
    sparse_weights(pattern.row_by_row(), x, dy,
                   detail::SparseEnd<R>{.sums = sums.data(), .values = w, .reads = reads, .numbers = numbers},
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
                     const UpdateVectors<R>& reads, const UpdateNumbers<R>& numbers) {
    const Scratch<R> sums(pattern.count());  // of all blocks but the last
    dx.batch = batch;
    sparse_both(pattern.transposed(), static_cast<const R*>(w), x, dy, dx,
                detail::SparseEnd<R>{.sums = sums.data(), .values = w, .reads = reads, .numbers = numbers},
                padded<R>(batch));
}

}  // namespace tessera::kernels
