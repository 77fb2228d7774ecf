// SPDX-License-Identifier: BSD-3-Clause
// The flat-array kernels as plain loops: the specification, and the oracle of every kernel test.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::kernels::reference {

// d = scale*g + decay*x + pull*(x - toward) + also;   v = momentum*v + d;   x -= rate*v
// toward, also and velocity may be null: their terms are absent, and without a velocity v is d.
template <class R, class Numbers>
void update(R* x, const R* g, const R* toward, const R* also, R* velocity, std::size_t n, R scale, Numbers numbers) {
    for (std::size_t j = 0; j < n; ++j) {
        R d = scale * g[j] + numbers.decay * x[j];
        if (toward) d += numbers.pull * (x[j] - toward[j]);
        if (also) d += also[j];
        if (velocity) d = velocity[j] = numbers.momentum * velocity[j] + d;
        x[j] -= numbers.rate * d;
    }
}

// y[j] += a x[j]
template <class R>
void axpy(R a, const R* x, R* y, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) y[j] += a * x[j];
}

// sum_j x[j] y[j]; the kernel accumulates in double whatever R is.
template <class R, class Sum>
void dot(const R* x, const R* y, std::size_t n, Sum* result) {
    Sum sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += static_cast<Sum>(x[j]) * static_cast<Sum>(y[j]);
    *result = sum;
}

// out[j] = (in[j] - shift) * scale
template <class R>
void widen_bytes(const std::uint8_t* in, R* out, std::size_t n, R shift, R scale) {
    for (std::size_t j = 0; j < n; ++j) out[j] = (static_cast<R>(in[j]) - shift) * scale;
}

}  // namespace tessera::kernels::reference
