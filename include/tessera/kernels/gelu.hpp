// SPDX-License-Identifier: BSD-3-Clause
// GELU and its slope by registers, in both forms: what reference/gelu.hpp says. In double it is those loops.
//
// 1 - Phi(a) = exp(-a^2/2) q(a) for a >= 0, and q(a) = p(s) / (a + 2.5) with s = (a - 2.5) / (a + 2.5) and a polynomial
// p of degree 9, fitted by Remez' exchange on [0, 14] (1.5e-8 of the value). The exponential's argument is rounded, as
// that of std::erfc is: x^2/2 roundings far below 0. Errors and where they are tested: tests/kernels/gelu_test.cpp.
#pragma once

#include <cstddef>

#include <tessera/kernels/exponential.hpp>
#include <tessera/kernels/reference/gelu.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

// x = what is nearest to it in [-14, 14], where both forms have long become 0 or x. A NaN stays one.
template <std::size_t Bytes>
TESSERA_INLINE void within_14(Held<float, Bytes>& x) {
    const Held<float, Bytes> most = Held<float, Bytes>{} + 14.0f, least = -most;
    const Held<float, Bytes> below = x > most ? most : x;
    x = below < least ? least : below;
}
// Phi(x), and exp(-x^2/2).
template <std::size_t Bytes>
TESSERA_INLINE void below_normal(const Held<float, Bytes>& x, Held<float, Bytes>& below, Held<float, Bytes>& bell) {
    const Held<float, Bytes> a = x < 0.0f ? -x : x;
    bell = a * a * -0.5f;
    exponential<Bytes>(bell);
    const Held<float, Bytes> r = 1.0f / (a + 2.5f), s = (a - 2.5f) * r;
    Held<float, Bytes> p = s * -1.567321473e-4f + -3.099239504e-4f;
    p = p * s + 6.842832056e-4f;
    p = p * s + 2.522524676e-3f;
    p = p * s + -1.601132001e-3f;
    p = p * s + -1.638582619e-2f;
    p = p * s + 9.235963726e-3f;
    p = p * s + 1.319869496e-1f;
    p = p * s + -4.336920171e-1f;
    p = p * s + 7.066566603e-1f;
    const Held<float, Bytes> beyond = p * r * bell, rest = 1.0f - beyond;
    below = x < 0.0f ? beyond : rest;
}
inline constexpr float gelu_root = 0.797884561f, gelu_cube = 0.044715f;

// (1 + tanh(u)) / 2, the logistic function of 2u, and its slope in 2u, which keeps its bits on both sides.
template <std::size_t Bytes>
TESSERA_INLINE void nearly_below_normal(const Held<float, Bytes>& x, Held<float, Bytes>& below,
                                        Held<float, Bytes>& bell) {
    const Held<float, Bytes> twice = 2 * gelu_root * (x + gelu_cube * x * x * x);
    Held<float, Bytes> e = twice < 0.0f ? twice : -twice;
    exponential<Bytes>(e);
    const Held<float, Bytes> above = 1.0f / (1.0f + e), rest = e * above;
    bell = rest * above;
    below = x < 0.0f ? rest : above;
}

template <class, std::size_t Bytes>
TESSERA_INLINE void gelu_body(const float* x, float* y, std::size_t n, bool tanh) {
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    for (std::size_t j = 0; j < n; j += lanes) {
        Held<float, Bytes> all, near, below, bell;
        load_first<Bytes>(x + j, n - j, all);
        near = all;
        within_14<Bytes>(near);
        if (tanh) nearly_below_normal<Bytes>(near, below, bell);
        else below_normal<Bytes>(near, below, bell);
        all *= below;
        keep_first<Bytes>(all, n - j, y + j);
    }
}
template <class, std::size_t Bytes>
TESSERA_INLINE void gelu_gradient_body(const float* x, const float* dy, float* dx, std::size_t n, bool tanh) {
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    for (std::size_t j = 0; j < n; j += lanes) {
        Held<float, Bytes> at, d, below, bell;
        load_first<Bytes>(x + j, n - j, at);
        load_first<Bytes>(dy + j, n - j, d);
        within_14<Bytes>(at);
        if (tanh) {
            nearly_below_normal<Bytes>(at, below, bell);
            below += at * bell * (2 * gelu_root + 6 * gelu_root * gelu_cube * at * at);
        } else {
            below_normal<Bytes>(at, below, bell);
            below += at * (bell * (gelu_root / 2));
        }
        d *= below;
        keep_first<Bytes>(d, n - j, dx + j);
    }
}

}  // namespace detail

TESSERA_DISPATCH(gelu, float, (const float* x, float* y, std::size_t n, bool tanh), (x, y, n, tanh))
TESSERA_DISPATCH(gelu_gradient, float, (const float* x, const float* dy, float* dx, std::size_t n, bool tanh),
                 (x, dy, dx, n, tanh))

inline void gelu(const double* x, double* y, std::size_t n, bool tanh) { reference::gelu(x, y, n, tanh); }
inline void gelu_gradient(const double* x, const double* dy, double* dx, std::size_t n, bool tanh) {
    reference::gelu_gradient(x, dy, dx, n, tanh);
}

}  // namespace tessera::kernels
