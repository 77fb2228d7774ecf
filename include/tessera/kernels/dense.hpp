// SPDX-License-Identifier: BSD-3-Clause
// Affine layers on row-major matrices, hand-tiled: forward, input gradient, weight gradient.
//
// Weights are [out][in] (the layout of torch checkpoints). The forward pass is dot products along `in`,
// so rows of x and w are read as they lie; both gradients are outer products whose vectors run along `in`.
// Sums have one order per shape, whatever the position of a row in its tile. Each entry point does what
// its namesake in reference/dense.hpp says.
#pragma once

#include <cstddef>

#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

template <class Vec, std::size_t Lanes, class R>
TESSERA_INLINE R sum_of_lanes(const Vec& v) {
    R sum = 0;
    for (std::size_t l = 0; l < Lanes; ++l) sum += v[l];
    return sum;
}

// M rows of x against N rows of w: M*N accumulators stay in registers.
template <class R, std::size_t Bytes, std::size_t M, std::size_t N>
TESSERA_INLINE void dot_tile(const R* x, const R* w, const R* bias, R* y, std::size_t in, std::size_t out) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    Vec acc[M][N] = {};
    std::size_t i = 0;
    for (; i + lanes <= in; i += lanes) {
        Vec wv[N];
#pragma GCC unroll 8
        for (std::size_t n = 0; n < N; ++n) wv[n] = *reinterpret_cast<const Vec*>(w + n * in + i);
#pragma GCC unroll 8
        for (std::size_t m = 0; m < M; ++m) {
            const Vec xv = *reinterpret_cast<const Vec*>(x + m * in + i);
#pragma GCC unroll 8
            for (std::size_t n = 0; n < N; ++n) acc[m][n] += xv * wv[n];
        }
    }
    for (std::size_t m = 0; m < M; ++m)
        for (std::size_t n = 0; n < N; ++n) {
            R sum = sum_of_lanes<Vec, lanes, R>(acc[m][n]);
            for (std::size_t t = i; t < in; ++t) sum += x[m * in + t] * w[n * in + t];
            y[m * out + n] = sum + (bias ? bias[n] : R(0));
        }
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void affine_body(const R* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                                std::size_t out) {
    constexpr std::size_t M = Bytes == 64 ? 5 : 3, N = Bytes == 64 ? 4 : 3;  // 20 of 32, 9 of 16 registers
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
template <class R, std::size_t Bytes, std::size_t M, std::size_t NV>
TESSERA_INLINE void outer_tile(const R* a, std::size_t ak, std::size_t am, const R* b, std::size_t ldb, R* c,
                               std::size_t ldc, std::size_t depth) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    Vec acc[M][NV] = {};
    for (std::size_t k = 0; k < depth; ++k) {
        Vec bv[NV];
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
        for (std::size_t v = 0; v < NV; ++v) *reinterpret_cast<Vec*>(c + m * ldc + v * lanes) = acc[m][v];
}

template <class R, std::size_t Bytes, std::size_t M>
TESSERA_INLINE void outer_rows(const R* a, std::size_t ak, std::size_t am, const R* b, std::size_t ldb, R* c,
                               std::size_t ldc, std::size_t columns, std::size_t depth) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    constexpr std::size_t NV = Bytes == 64 ? 4 : 2;
    std::size_t j = 0;
    for (; j + NV * lanes <= columns; j += NV * lanes)
        outer_tile<R, Bytes, M, NV>(a, ak, am, b + j, ldb, c + j, ldc, depth);
    for (; j + lanes <= columns; j += lanes) outer_tile<R, Bytes, M, 1>(a, ak, am, b + j, ldb, c + j, ldc, depth);
    for (; j < columns; ++j)
        for (std::size_t m = 0; m < M; ++m) {
            R sum = 0;
            for (std::size_t k = 0; k < depth; ++k) sum += a[k * ak + m * am] * b[k * ldb + j];
            c[m * ldc + j] = sum;
        }
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void outer(const R* a, std::size_t ak, std::size_t am, const R* b, std::size_t ldb, R* c,
                          std::size_t ldc, std::size_t rows, std::size_t columns, std::size_t depth) {
    constexpr std::size_t M = Bytes == 64 ? 5 : 4;
    std::size_t m = 0;
    for (; m + M <= rows; m += M) outer_rows<R, Bytes, M>(a + m * am, ak, am, b, ldb, c + m * ldc, ldc, columns, depth);
    for (; m < rows; ++m) outer_rows<R, Bytes, 1>(a + m * am, ak, am, b, ldb, c + m * ldc, ldc, columns, depth);
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void affine_input_gradient_body(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                                               std::size_t out) {
    outer<R, Bytes>(dy, 1, out, w, in, dx, in, batch, in, out);
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void affine_weight_gradient_body(const R* dy, const R* x, R* dw, R* dbias, std::size_t batch,
                                                std::size_t in, std::size_t out) {
    outer<R, Bytes>(dy, out, 1, x, in, dw, in, out, in, batch);
    if (!dbias) return;
    for (std::size_t o = 0; o < out; ++o) {
        R sum = 0;
        for (std::size_t b = 0; b < batch; ++b) sum += dy[b * out + o];
        dbias[o] = sum;
    }
}

}  // namespace detail

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
                     (dy, x, dw, dbias, batch, in, out))
TESSERA_DENSE_KERNELS(float)
TESSERA_DENSE_KERNELS(double)
#undef TESSERA_DENSE_KERNELS

}  // namespace tessera::kernels
