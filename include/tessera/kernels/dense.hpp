// SPDX-License-Identifier: BSD-3-Clause
// Affine layers on row-major matrices, hand-tiled: forward, input gradient, weight gradient.
//
// Weights are [out][in] (the layout of torch checkpoints). The forward pass is dot products along `in`,
// so rows of x and w are read as they lie; both gradients are outer products whose vectors run along `in`.
// Sums have one order per shape, whatever the position of a row in its tile. Each entry point does what
// its namesake in reference/dense.hpp says.
#pragma once

#include <cstddef>
#include <utility>

#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

// One step of a transposed reduction: folds lanes of a and of b onto each other, `width` lanes apart, and packs
// both results into one register. log2(lanes) levels of it turn `lanes` accumulators into one register of sums.
template <class R, std::size_t Bytes, std::size_t Width, std::size_t... Lane>
TESSERA_INLINE void fold_pair(Held<R, Bytes>* acc, std::size_t i, std::index_sequence<Lane...>) {
    constexpr std::size_t lanes = sizeof...(Lane), half = lanes / 2;
    const Held<R, Bytes> a = acc[2 * i], b = acc[2 * i + 1];
    // Output lane l reads accumulator l / half; inside it, group (l % half) / Width starts every 2 * Width lanes.
    acc[i] = __builtin_shufflevector(a, b, (Lane / half * lanes + Lane % half / Width * 2 * Width + Lane % Width)...) +
             __builtin_shufflevector(a, b,
                                     (Lane / half * lanes + Lane % half / Width * 2 * Width + Width + Lane % Width)...);
}
template <class R, std::size_t Bytes, std::size_t Width, std::size_t Count>
TESSERA_INLINE void fold_lanes(Held<R, Bytes>* acc) {
    if constexpr (Count > 1) {
#pragma GCC unroll 16
        for (std::size_t i = 0; i < Count / 2; ++i)
            fold_pair<R, Bytes, Width>(acc, i, std::make_index_sequence<VectorOf<R, Bytes>::lanes>{});
        fold_lanes<R, Bytes, Width / 2, Count / 2>(acc);
    }
}

// M rows of x against N rows of w: M*N accumulators stay in registers. Every sum is added up along the same tree,
// whatever its place in the tile.
template <class R, std::size_t Bytes, std::size_t M, std::size_t N>
TESSERA_INLINE void dot_tile(const R* x, const R* w, const R* bias, R* y, std::size_t in, std::size_t out) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    constexpr std::size_t groups = (M * N + lanes - 1) / lanes;
    Held<R, Bytes> acc[groups * lanes] = {};
    std::size_t i = 0;
    for (; i + lanes <= in; i += lanes) {
        Held<R, Bytes> wv[N];
#pragma GCC unroll 8
        for (std::size_t n = 0; n < N; ++n) wv[n] = *reinterpret_cast<const Vec*>(w + n * in + i);
#pragma GCC unroll 8
        for (std::size_t m = 0; m < M; ++m) {
            const Held<R, Bytes> xv = *reinterpret_cast<const Vec*>(x + m * in + i);
#pragma GCC unroll 8
            for (std::size_t n = 0; n < N; ++n) acc[m * N + n] += xv * wv[n];
        }
    }
#pragma GCC unroll 4
    for (std::size_t g = 0; g < groups; ++g) {
        fold_lanes<R, Bytes, lanes / 2, lanes>(acc + g * lanes);
        const Held<R, Bytes> sums = acc[g * lanes];
#pragma GCC unroll 16
        for (std::size_t l = 0; l < lanes; ++l) {
            const std::size_t m = (g * lanes + l) / N, n = (g * lanes + l) % N;
            if (m >= M) break;
            R sum = sums[l];
            for (std::size_t t = i; t < in; ++t) sum += x[m * in + t] * w[n * in + t];
            y[m * out + n] = sum + (bias ? bias[n] : R(0));
        }
    }
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void affine_body(const R* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                                std::size_t out) {
    constexpr std::size_t M = 4, N = Bytes == 64 ? 4 : 2;  // 16 of 32 registers, 8 of 16
    std::size_t o = 0;
    for (; o + N <= out; o += N) {  // the N rows of w stay in L1 while the batch passes
        const R* bo = bias ? bias + o : nullptr;
        std::size_t b = 0;
        for (; b + M <= batch; b += M) dot_tile<R, Bytes, M, N>(x + b * in, w + o * in, bo, y + b * out + o, in, out);
        for (; b < batch; ++b) dot_tile<R, Bytes, 1, N>(x + b * in, w + o * in, bo, y + b * out + o, in, out);
    }
    for (; o < out; ++o) {
        const R* bo = bias ? bias + o : nullptr;
        std::size_t b = 0;
        for (; b + M <= batch; b += M) dot_tile<R, Bytes, M, 1>(x + b * in, w + o * in, bo, y + b * out + o, in, out);
        for (; b < batch; ++b) dot_tile<R, Bytes, 1, 1>(x + b * in, w + o * in, bo, y + b * out + o, in, out);
    }
}

// c[m][j] = sum_k a[k*ak + m*am] b[k*ldb + j] for M rows and NV vectors of columns.
template <class R, std::size_t Bytes, std::size_t M, std::size_t NV, class End>
TESSERA_INLINE void outer_tile(const R* a, std::size_t ak, std::size_t am, const R* b, std::size_t ldb, R* c,
                               std::size_t ldc, std::size_t depth, std::size_t at, const End& end) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    Held<R, Bytes> acc[M][NV] = {};
    for (std::size_t k = 0; k < depth; ++k) {
        Held<R, Bytes> bv[NV];
#pragma GCC unroll 8
        for (std::size_t v = 0; v < NV; ++v) bv[v] = *reinterpret_cast<const Vec*>(b + k * ldb + v * lanes);
#pragma GCC unroll 8
        for (std::size_t m = 0; m < M; ++m) {
            const R am_k = a[k * ak + m * am];
#pragma GCC unroll 8
            for (std::size_t v = 0; v < NV; ++v) acc[m][v] += am_k * bv[v];
        }
    }
    for (std::size_t m = 0; m < M; ++m)
        for (std::size_t v = 0; v < NV; ++v) {
            const std::size_t j = m * ldc + v * lanes;
            end.template vector<Bytes>(c + j, at + j, acc[m][v]);
        }
}

template <class R, std::size_t Bytes, std::size_t M, class End>
TESSERA_INLINE void outer_rows(const R* a, std::size_t ak, std::size_t am, const R* b, std::size_t ldb, R* c,
                               std::size_t ldc, std::size_t columns, std::size_t depth, std::size_t at, const End& end) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    constexpr std::size_t NV = Bytes == 64 ? 4 : 2;
    const std::size_t tiles = columns - columns % (NV * lanes), vectors = columns - columns % lanes;
    for (std::size_t j = 0; j < tiles; j += NV * lanes)
        outer_tile<R, Bytes, M, NV>(a, ak, am, b + j, ldb, c + j, ldc, depth, at + j, end);
    for (std::size_t j = tiles; j < vectors; j += lanes)
        outer_tile<R, Bytes, M, 1>(a, ak, am, b + j, ldb, c + j, ldc, depth, at + j, end);
    for (std::size_t j = vectors; j < columns; ++j)
        for (std::size_t m = 0; m < M; ++m) {
            R sum = 0;
            for (std::size_t k = 0; k < depth; ++k) sum += a[k * ak + m * am] * b[k * ldb + j];
            end.scalar(c + m * ldc + j, at + m * ldc + j, sum);
        }
}

template <class R, std::size_t Bytes, class End>
TESSERA_INLINE void outer(const R* a, std::size_t ak, std::size_t am, const R* b, std::size_t ldb, R* c,
                          std::size_t ldc, std::size_t rows, std::size_t columns, std::size_t depth, const End& end) {
    constexpr std::size_t M = Bytes == 64 ? 5 : 4;
    const std::size_t tiles = rows - rows % M;
    for (std::size_t m = 0; m < tiles; m += M)
        outer_rows<R, Bytes, M>(a + m * am, ak, am, b, ldb, c + m * ldc, ldc, columns, depth, m * ldc, end);
    for (std::size_t m = tiles; m < rows; ++m)
        outer_rows<R, Bytes, 1>(a + m * am, ak, am, b, ldb, c + m * ldc, ldc, columns, depth, m * ldc, end);
}

// What becomes of a finished tile: it is stored, or it updates the parameters under it and is forgotten.
template <class R>
struct StoreTile {
    template <std::size_t Bytes>
    TESSERA_INLINE void vector(R* c, std::size_t, const Held<R, Bytes>& sum) const {
        *reinterpret_cast<V<R, Bytes>*>(c) = sum;
    }
    TESSERA_INLINE void scalar(R* c, std::size_t, R sum) const { *c = sum; }
};
template <class R>
struct UpdateTile {
    UpdatePulls<R> pulls;
    UpdateNumbers<R> numbers;

    // `j` is the coordinate of *c among the parameters that `pulls` counts from.
    template <std::size_t Bytes>
    TESSERA_INLINE void vector(R* c, std::size_t j, const Held<R, Bytes>& sum) const {
        using Vec = V<R, Bytes>;
        Vec& x = *reinterpret_cast<Vec*>(c);
        Vec d = sum;
        if (numbers.decay != 0) d += numbers.decay * x;
        if (pulls.toward) d += numbers.pull * (x - *reinterpret_cast<const Vec*>(pulls.toward + j));
        if (pulls.also) d += *reinterpret_cast<const Vec*>(pulls.also + j);
        if (pulls.velocity) {
            Vec& v = *reinterpret_cast<Vec*>(pulls.velocity + j);
            d = v = numbers.momentum * v + d;
        }
        x -= numbers.rate * d;
    }
    TESSERA_INLINE void scalar(R* c, std::size_t j, R sum) const {
        R d = sum;
        if (numbers.decay != 0) d += numbers.decay * *c;
        if (pulls.toward) d += numbers.pull * (*c - pulls.toward[j]);
        if (pulls.also) d += pulls.also[j];
        if (pulls.velocity) d = pulls.velocity[j] = numbers.momentum * pulls.velocity[j] + d;
        *c -= numbers.rate * d;
    }
};

template <class R, std::size_t Bytes>
TESSERA_INLINE void affine_input_gradient_body(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                                               std::size_t out) {
    outer<R, Bytes>(dy, 1, out, w, in, dx, in, batch, in, out, StoreTile<R>{});
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void affine_weight_gradient_body(const R* dy, const R* x, R* dw, R* dbias, std::size_t batch,
                                                std::size_t in, std::size_t out) {
    outer<R, Bytes>(dy, out, 1, x, in, dw, in, out, in, batch, StoreTile<R>{});
    if (!dbias) return;
    for (std::size_t o = 0; o < out; ++o) {
        R sum = 0;
        for (std::size_t b = 0; b < batch; ++b) sum += dy[b * out + o];
        dbias[o] = sum;
    }
}

// The weight gradient and the update in one pass over w ([out][in], then out biases): dW is never stored.
template <class R, std::size_t Bytes>
TESSERA_INLINE void affine_update_body(const R* dy, const R* x, R* w, std::size_t batch, std::size_t in,
                                       std::size_t out, UpdatePulls<R> pulls, UpdateNumbers<R> numbers) {
    const UpdateTile<R> end{pulls, numbers};
    outer<R, Bytes>(dy, out, 1, x, in, w, in, out, in, batch, end);
    for (std::size_t o = 0; o < out; ++o) {
        R sum = 0;
        for (std::size_t b = 0; b < batch; ++b) sum += dy[b * out + o];
        end.scalar(w + out * in + o, out * in + o, sum);
    }
}

}  // namespace detail

using detail::UpdateNumbers;
using detail::UpdatePulls;

#define TESSERA_DENSE_KERNELS(R)                                                                                     \
    TESSERA_DISPATCH(affine, R,                                                                                      \
                     (const R* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,                \
                      std::size_t out),                                                                              \
                     (x, w, bias, y, batch, in, out))                                                                \
    TESSERA_DISPATCH(affine_input_gradient, R,                                                                       \
                     (const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in, std::size_t out),           \
                     (dy, w, dx, batch, in, out))                                                                    \
    TESSERA_DISPATCH(affine_weight_gradient, R,                                                                      \
                     (const R* dy, const R* x, R* dw, R* dbias, std::size_t batch, std::size_t in, std::size_t out), \
                     (dy, x, dw, dbias, batch, in, out))                                                             \
    TESSERA_DISPATCH(affine_update, R,                                                                               \
                     (const R* dy, const R* x, R* w, std::size_t batch, std::size_t in, std::size_t out,             \
                      kernels::detail::UpdatePulls<R> pulls, kernels::detail::UpdateNumbers<R> numbers),             \
                     (dy, x, w, batch, in, out, pulls, numbers))
TESSERA_DENSE_KERNELS(float)
TESSERA_DENSE_KERNELS(double)
#undef TESSERA_DENSE_KERNELS

}  // namespace tessera::kernels
