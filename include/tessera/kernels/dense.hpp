// SPDX-License-Identifier: BSD-3-Clause
// Affine layers on row-major matrices, hand-tiled: forward, input gradient, weight gradient.
//
// Weights are [out][in] (the layout of torch checkpoints). The forward pass is dot products along `in`,
// so rows of x and w are read as they lie; both gradients are outer products whose vectors run along `in`.
// Sums have one order per shape, whatever the position of a row in its tile. Each entry point does what
// its namesake in reference/dense.hpp says.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/lane_sums.hpp>
#include <tessera/kernels/outer.hpp>
#include <tessera/kernels/vector.hpp>

#if defined(__GNUC__) && !defined(__clang__)
// At -O3 GCC 12 makes copies of these loops for sizes it knows and complains of what a batch of 2^62 rows would do.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Waggressive-loop-optimizations"
#endif

namespace tessera::kernels {
namespace detail {

// 0, 1, 2, ... along the lanes.
template <class R>
using LaneNumber = std::conditional_t<sizeof(R) == 4, std::int32_t, std::int64_t>;
template <class R>
inline constexpr auto lane_numbers = []<std::size_t... Lane>(std::index_sequence<Lane...>) {
    return std::array<LaneNumber<R>, sizeof...(Lane)>{static_cast<LaneNumber<R>>(Lane)...};
}
(std::make_index_sequence<64 / sizeof(R)>{});

// M rows of x against N rows of w: M*N accumulators stay in registers. Every sum is added up along the same tree,
// whatever its place in the tile.
template <class R, std::size_t Bytes, std::size_t M, std::size_t N>
TESSERA_INLINE void dot_tile(const R* const* rows, const R* w, const R* bias, R* y, std::size_t in, std::size_t out) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    constexpr std::size_t groups = (M * N + lanes - 1) / lanes;
    const R* x[M];
#pragma GCC unroll 8
    for (std::size_t m = 0; m < M; ++m) x[m] = rows[m];
    Held<R, Bytes> acc[groups * lanes] = {};
    const auto add = [&](std::size_t i, const Held<R, Bytes>(&wv)[N], const auto& clear)
        __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (std::size_t m = 0; m < M; ++m) {
            Held<R, Bytes> xv = *reinterpret_cast<const Vec*>(x[m] + i);
            clear(xv);
#pragma GCC unroll 8
            for (std::size_t n = 0; n < N; ++n) acc[m * N + n] += xv * wv[n];
        }
    };
    Held<R, Bytes> wv[N];
    const std::size_t rest = in % lanes, whole = in - rest;
    for (std::size_t i = 0; i < whole; i += lanes) {
#pragma GCC unroll 8
        for (std::size_t n = 0; n < N; ++n) wv[n] = *reinterpret_cast<const Vec*>(w + n * in + i);
        add(i, wv, [](const Held<R, Bytes>&) {});
    }
    if (rest > 0 && whole > 0) {  // the last register once more, with the lanes that were counted set to zero
        const auto lane = *reinterpret_cast<const V<LaneNumber<R>, Bytes>*>(lane_numbers<R>.data());
        const auto counted = lane < static_cast<LaneNumber<R>>(lanes - rest);
        // On both sides: an infinite number times 0 would be none.
        const auto clear = [&](Held<R, Bytes> & v) __attribute__((always_inline)) {
            v = counted ? Held<R, Bytes>{} : v;
        };
#pragma GCC unroll 8
        for (std::size_t n = 0; n < N; ++n) {
            wv[n] = *reinterpret_cast<const Vec*>(w + n * in + in - lanes);
            clear(wv[n]);
        }
        add(in - lanes, wv, clear);
    }
    R sums[groups * lanes];
    const auto fold = [&](std::size_t g, auto count) __attribute__((always_inline)) {
        blend_lanes<R, Bytes, count()>(acc + g * lanes);
        *reinterpret_cast<Vec*>(sums + g * lanes) = acc[g * lanes];
    };
#pragma GCC unroll 8
    for (std::size_t g = 0; g + 1 < groups; ++g) fold(g, std::integral_constant<std::size_t, lanes>{});
    fold(groups - 1, std::integral_constant<std::size_t, M * N - (groups - 1) * lanes>{});
    if (whole == 0)
        for (std::size_t i = 0; i < in; ++i)
            for (std::size_t m = 0; m < M; ++m)
                for (std::size_t n = 0; n < N; ++n) sums[m * N + n] += x[m][i] * w[n * in + i];
    R start[N];
#pragma GCC unroll 8
    for (std::size_t n = 0; n < N; ++n) start[n] = bias ? bias[n] : R(0);
#pragma GCC unroll 8
    for (std::size_t m = 0; m < M; ++m)
#pragma GCC unroll 8
        for (std::size_t n = 0; n < N; ++n) y[m * out + n] = sums[m * N + n] + start[n];
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void affine_body(const R* const* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                                std::size_t out) {
    // 25 of 32 registers; 12 of 16, which leave room for one row of x and three of w; 8 where products need registers
    // too.
    constexpr std::size_t M = Bytes == 64 ? 5 : 4, N = Bytes == 64 ? 5 : Bytes == 32 ? 3 : 2;
    // Rows of x that stay in a cache while all of w goes by: in L1 if w fits L2 (784-100, batch 20: 2 % less time),
    // else in L2 (1,000 rows of 512 in half the time).
    constexpr std::size_t l1 = std::size_t{1} << 15, l2 = std::size_t{1} << 19;
    const auto fitting = [&](std::size_t bytes) { return bytes / (in * sizeof(R) + 1) / M * M; };
    const bool near = out * in * sizeof(R) <= l2 && fitting(l1) >= 2 * M;
    const std::size_t block = std::max(fitting(near ? l1 : l2), M);
    std::size_t begin = 0, end = 0;
    const auto rows_against = [&]<std::size_t Outputs>(std::size_t o) __attribute__((always_inline)) {
        const R* bo = bias ? bias + o : nullptr;
        std::size_t b = begin;
        for (; b + M <= end; b += M) dot_tile<R, Bytes, M, Outputs>(x + b, w + o * in, bo, y + b * out + o, in, out);
        for (; b < end; ++b) dot_tile<R, Bytes, 1, Outputs>(x + b, w + o * in, bo, y + b * out + o, in, out);
    };
    for (; begin < batch; begin = end) {
        end = std::min(batch, begin + block);
        std::size_t o = 0;
        for (; o + N <= out; o += N) rows_against.template operator()<N>(o);  // N rows of w stay in L1 meanwhile
        for (; o < out; ++o) rows_against.template operator()<1>(o);
    }
}

// The gradient of the bias, sum over the batch of dy[.][o], and what becomes of it.
template <class R, std::size_t Bytes>
TESSERA_INLINE void column_sums_body(const R* dy, std::size_t stride, R* c, std::size_t batch, std::size_t out,
                                     const Epilogue<R>& end) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t o = 0;
    for (; o + lanes <= out; o += lanes) {
        Held<R, Bytes> sum[1][1] = {};
        for (std::size_t b = 0; b < batch; ++b) sum[0][0] += *reinterpret_cast<const V<R, Bytes>*>(dy + b * stride + o);
        end.template tile<Bytes, 1, 1>(c + o, 0, o, sum, false);
    }
    for (; o < out; ++o) {
        R sum = 0;
        for (std::size_t b = 0; b < batch; ++b) sum += dy[b * stride + o];
        end.scalar(c + o, o, sum, false);
    }
}

}  // namespace detail

using detail::UpdateNumbers;
using detail::UpdateVectors;

// Kernels read x (and, for the input gradient, w) by a table of row pointers, so a minibatch needs no gathering.
#define TESSERA_DENSE_KERNELS(R)                                                                                     \
    TESSERA_DISPATCH(                                                                                                \
        affine, R,                                                                                                   \
        (const R* const* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in, std::size_t out),    \
        (x, w, bias, y, batch, in, out))                                                                             \
    TESSERA_DISPATCH(                                                                                                \
        outer_sums, R,                                                                                               \
        (const R* a, std::size_t ak, std::size_t am, const R* const* b, R* c, std::size_t rows, std::size_t columns, \
         std::size_t depth, std::size_t deep, const kernels::detail::Epilogue<R>& end),                              \
        (a, ak, am, b, c, rows, columns, depth, deep, end))                                                          \
    TESSERA_DISPATCH(                                                                                                \
        outer_of_few, R,                                                                                             \
        (const R* a, std::size_t ak, std::size_t am, const R* const* b, R* c, std::size_t rows, std::size_t columns, \
         std::size_t depth, std::size_t deep),                                                                       \
        (a, ak, am, b, c, rows, columns, depth, deep))                                                               \
    TESSERA_DISPATCH(column_sums, R,                                                                                 \
                     (const R* dy, std::size_t stride, R* c, std::size_t batch, std::size_t out,                     \
                      const kernels::detail::Epilogue<R>& end),                                                      \
                     (dy, stride, c, batch, out, end))
TESSERA_DENSE_KERNELS(float)
TESSERA_DENSE_KERNELS(double)
#undef TESSERA_DENSE_KERNELS

// The rows of a matrix that lies in one piece.
template <class R>
class RowTable {
public:
    RowTable(const R* matrix, std::size_t rows, std::size_t stride) : far_(rows > here ? rows : 0) {
        const R** at = rows > here ? far_.data() : here_.data();
        for (std::size_t i = 0; i < rows; ++i) at[i] = matrix + i * stride;
        rows_ = at;
    }
    RowTable(const RowTable&) = delete;
    RowTable& operator=(const RowTable&) = delete;
    const R* const* rows() const { return rows_; }

private:
    static constexpr std::size_t here = 64;
    std::array<const R*, here> here_;
    const Scratch<const R*> far_;
    const R* const* rows_;
};

template <class R>
void affine(const R* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in, std::size_t out) {
    affine(RowTable<R>(x, batch, in).rows(), w, bias, y, batch, in, out);
}
// c[m][j] = sum_k a[k*ak + m*am] b[k][j]: both gradients.
template <class R>
void outer_products(const R* a, std::size_t ak, std::size_t am, const R* const* b, R* c, std::size_t rows,
                    std::size_t columns, std::size_t depth, std::size_t deep) {
    if (rows <= detail::few_rows && detail::lies_badly<R>(columns, depth, deep))
        return outer_of_few(a, ak, am, b, c, rows, columns, depth, deep);
    outer_sums(a, ak, am, b, c, rows, columns, depth, deep, detail::Epilogue<R>{});
}
inline constexpr std::size_t input_deep = 128;  // what input gradients add up by itself
template <class R>
void bias_gradient(const R* dy, R* dbias, std::size_t batch, std::size_t out) {
    column_sums(dy, out, dbias, batch, out, detail::Epilogue<R>{});
}
template <class R>
void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in, std::size_t out) {
    outer_products(dy, 1, out, RowTable<R>(w, out, in).rows(), dx, batch, in, out, input_deep);
}
template <class R>
void affine_weight_gradient(const R* dy, const R* const* x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                            std::size_t out) {
    outer_products(dy, out, 1, x, dw, out, in, batch, batch);  // summed as the fused update sums it
    if (dbias) bias_gradient(dy, dbias, batch, out);
}
template <class R>
void affine_weight_gradient(const R* dy, const R* x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                            std::size_t out) {
    affine_weight_gradient(dy, RowTable<R>(x, batch, in).rows(), dw, dbias, batch, in, out);
}
// The weight gradient and the update in one pass over rows [first, last) of w ([out][in], then out biases) and their
// biases: dW is never stored.
template <class R>
void affine_update_rows(const R* dy, const R* const* x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                        std::size_t first, std::size_t last, const UpdateVectors<R>& reads,
                        const UpdateNumbers<R>& numbers) {
    const auto end = detail::Epilogue<R>::update(reads, numbers);
    const std::size_t weight = first * in, bias = out * in + first;
    outer_sums(dy + first, out, 1, x, w + weight, last - first, in, batch, batch, end.at(weight));
    column_sums(dy + first, out, w + bias, batch, last - first, end.at(bias));
}
template <class R>
void affine_update(const R* dy, const R* const* x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                   const UpdateVectors<R>& reads, const UpdateNumbers<R>& numbers) {
    affine_update_rows(dy, x, w, batch, in, out, 0, out, reads, numbers);
}
template <class R>
void affine_update(const R* dy, const R* x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                   const UpdateVectors<R>& reads, const UpdateNumbers<R>& numbers) {
    affine_update(dy, RowTable<R>(x, batch, in).rows(), w, batch, in, out, reads, numbers);
}

}  // namespace tessera::kernels
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
