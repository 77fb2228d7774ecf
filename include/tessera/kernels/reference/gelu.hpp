// SPDX-License-Identifier: BSD-3-Clause
// GELU number by number: the specification, what double uses, and the oracle of the kernel test.
#pragma once

#include <cmath>
#include <cstddef>

namespace tessera::kernels::reference {

inline constexpr double root_2_over_pi = 0.79788456080286535588, root_half = 0.70710678118654752440;

// Phi(x), by erfc: 1 + erf would lose all of its bits far below 0.
template <class R>
R normal_below(R x) {
    return std::erfc(-x * R(root_half)) / 2;
}
// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)) keeps its bits far below 0 too.
template <class R>
R nearly_below(R x) {
    const R u = R(root_2_over_pi) * (x + R(0.044715) * x * x * x);
    return u < 0 ? std::exp(2 * u) / (1 + std::exp(2 * u)) : 1 / (1 + std::exp(-2 * u));
}

// y = x Phi(x), or with `tanh` x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2.
template <class R>
void gelu(const R* x, R* y, std::size_t n, bool tanh) {
    for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * (tanh ? nearly_below(x[i]) : normal_below(x[i]));
}
// dx = dy times the slope of that in x. dx may be dy.
template <class R>
void gelu_gradient(const R* x, const R* dy, R* dx, std::size_t n, bool tanh) {
    for (std::size_t i = 0; i < n; ++i) {
        const R v = x[i];
        R slope = 0;
        if (tanh) {
            const R s = nearly_below(v);
            slope = s + 2 * v * s * (1 - s) * R(root_2_over_pi) * (1 + R(3 * 0.044715) * v * v);
        } else {
            slope = normal_below(v) + v * std::exp(-v * v / 2) * R(root_2_over_pi / 2);  // Phi + x phi
        }
        dx[i] = dy[i] * slope;
    }
}

}  // namespace tessera::kernels::reference
