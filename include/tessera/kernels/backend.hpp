// SPDX-License-Identifier: BSD-3-Clause
// Backends: who does the matrix work of a layer. A backend is a stateless policy with these functions.
#pragma once

#include <cstddef>

#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/reference/dense.hpp>

namespace tessera::backend {

// Our own kernels, the widest set this CPU has. Rows of x are a matrix (const R*), a table of pointers,
// or bytes (in float).
struct Simd {
    template <class R>
    static void affine(auto x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in, std::size_t out) {
        kernels::affine(x, w, bias, y, batch, in, out);
    }
    template <class R>
    static void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                                      std::size_t out) {
        kernels::affine_input_gradient(dy, w, dx, batch, in, out);
    }
    template <class R>
    static void affine_weight_gradient(const R* dy, auto x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                                       std::size_t out) {
        kernels::affine_weight_gradient(dy, x, dw, dbias, batch, in, out);
    }
    template <class R>
    static void affine_update(const R* dy, auto x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                              const kernels::UpdatePulls<R>& pulls, const kernels::UpdateNumbers<R>& numbers) {
        kernels::affine_update(dy, x, w, batch, in, out, pulls, numbers);
    }
};

// Plain loops; slow, and the definition of right.
struct Reference {
    template <class R>
    static void affine(const R* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                       std::size_t out) {
        kernels::reference::affine(x, w, bias, y, batch, in, out);
    }
    template <class R>
    static void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                                      std::size_t out) {
        kernels::reference::affine_input_gradient(dy, w, dx, batch, in, out);
    }
    template <class R>
    static void affine_weight_gradient(const R* dy, const R* x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                                       std::size_t out) {
        kernels::reference::affine_weight_gradient(dy, x, dw, dbias, batch, in, out);
    }
    template <class R>
    static void affine_update(const R* dy, const R* x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                              const kernels::UpdatePulls<R>& pulls, const kernels::UpdateNumbers<R>& numbers) {
        kernels::reference::affine_update(dy, x, w, batch, in, out, pulls, numbers);
    }
};

}  // namespace tessera::backend
