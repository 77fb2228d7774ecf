// SPDX-License-Identifier: BSD-3-Clause
// backend::XtensorBlas: the matrix work of a layer by xtensor-blas and the BLAS it is linked with (component `blas`).
//
// It agrees with the reference loops within the rounding of a sum. Debian's OpenBLAS does not know newer CPUs and
// falls back to old kernels there: OPENBLAS_CORETYPE=SkylakeX helps. Threads belong to executors: set
// OPENBLAS_NUM_THREADS=1.
#pragma once

#include <array>
#include <cstddef>

#include <xtensor-blas/xblas.hpp>
#include <xtensor/xadapt.hpp>
#include <xtensor/xmanipulation.hpp>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/dense.hpp>

namespace tessera::backend {

struct XtensorBlas {
    template <class R>
    static void affine(const R* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                       std::size_t out) {
        for (std::size_t b = 0; b < batch; ++b)
            for (std::size_t o = 0; o < out; ++o) y[b * out + o] = bias ? bias[o] : R(0);
        if (batch == 0 || in == 0 || out == 0) return;
        auto to = matrix(y, batch, out);
        xt::blas::gemm(matrix(x, batch, in), matrix(w, out, in), to, false, true, R(1), R(1));
    }
    template <class R>
    static void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                                      std::size_t out) {
        if (empty(dx, batch * in, out)) return;
        auto to = matrix(dx, batch, in);
        xt::blas::gemm(matrix(dy, batch, out), matrix(w, out, in), to, false, false, R(1), R(0));
    }
    template <class R>
    static void affine_weight_gradient(const R* dy, const R* x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                                       std::size_t out) {
        if (dbias) kernels::bias_gradient(dy, dbias, batch, out);
        if (empty(dw, out * in, batch)) return;
        auto to = matrix(dw, out, in);
        xt::blas::gemm(matrix(dy, batch, out), matrix(x, batch, in), to, true, false, R(1), R(0));
    }
    template <class R>
    static void affine_update(const R* dy, const R* x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                              const kernels::UpdateVectors<R>& reads, const kernels::UpdateNumbers<R>& numbers) {
        const std::size_t n = out * in + out;
        const Scratch<R> gradient(n);
        affine_weight_gradient(dy, x, gradient.data(), gradient.data() + out * in, batch, in, out);
        kernels::update(w, gradient.data(), reads.prox_center, reads.linear, reads.velocity, n, R(1), numbers);
    }

private:
    template <class R>
    static auto matrix(R* p, std::size_t rows, std::size_t columns) {
        return xt::adapt(p, rows * columns, xt::no_ownership(), std::array<std::size_t, 2>{rows, columns});
    }
    // BLAS refuses matrices without entries; a sum over nothing is zero.
    template <class R>
    static bool empty(R* to, std::size_t entries, std::size_t depth) {
        if (entries > 0 && depth > 0) return false;
        for (std::size_t j = 0; j < entries; ++j) to[j] = 0;
        return true;
    }
};

}  // namespace tessera::backend
