// SPDX-License-Identifier: BSD-3-Clause
// The flat-array kernels as plain loops: the specification, and the oracle of every kernel test.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::kernels::reference {

// d = scale*g + decay*x + prox_weight*(x - prox_center) + linear;   v = momentum*v + d;   x -= rate*v
// prox_center, linear and velocity may be null: their terms are absent, and without a velocity v is d.
template <class R, class Numbers>
void update(R* x, const R* g, const R* prox_center, const R* linear, R* velocity, std::size_t n, R scale,
            Numbers numbers) {
    for (std::size_t j = 0; j < n; ++j) {
        R d = scale * g[j] + numbers.decay * x[j];
        if (prox_center) d += numbers.prox_weight * (x[j] - prox_center[j]);
        if (linear) d += linear[j];
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

// sum_j x[j]^2, sum_j (x[j] - a y[j])^2, sum_j x[j]: in double, as dot
template <class R, class Sum>
void squared_norm(const R* x, std::size_t n, Sum* result) {
    dot(x, x, n, result);
}
template <class R, class Sum>
void squared_distance(const R* x, double a, const R* y, std::size_t n, Sum* result) {
    Sum sum = 0;
    for (std::size_t j = 0; j < n; ++j) {
        const Sum d = static_cast<Sum>(x[j]) - static_cast<Sum>(a) * static_cast<Sum>(y[j]);
        sum += d * d;
    }
    *result = sum;
}
template <class R, class Sum>
void sum(const R* x, std::size_t n, Sum* result) {
    *result = 0;
    for (std::size_t j = 0; j < n; ++j) *result += static_cast<Sum>(x[j]);
}

// y[j] = a x[j] + b y[j]
template <class R>
void blend(R a, const R* x, R b, R* y, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) y[j] = a * x[j] + b * y[j];
}

// w[j] -= a (mu[j] - theta[j])
template <class R>
void pulled(R a, const R* mu, const R* theta, R* w, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) w[j] -= a * (mu[j] - theta[j]);
}

// argmin_z t |z|_1 + |z - x|^2 / 2, coordinate by coordinate
template <class R>
void soft_threshold(R t, R* x, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) {
        if (x[j] > t) x[j] -= t;
        else if (x[j] < -t) x[j] += t;
        else x[j] *= 0;  // a NaN stays
    }
}

// argmin_z t |z|^2 / 2 + |z - x|^2 / 2
template <class R>
void shrink(R t, R* x, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) x[j] /= 1 + t;
}

// out[j] = (in[j] - shift) * scale
template <class R>
void widen_bytes(const std::uint8_t* in, R* out, std::size_t n, R shift, R scale) {
    for (std::size_t j = 0; j < n; ++j) out[j] = (static_cast<R>(in[j]) - shift) * scale;
}

}  // namespace tessera::kernels::reference
