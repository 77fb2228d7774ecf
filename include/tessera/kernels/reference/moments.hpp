// SPDX-License-Identifier: BSD-3-Clause
// The moment steps as plain loops: the specification, and the oracle of every kernel test.
#pragma once

#include <cmath>
#include <cstddef>

namespace tessera::kernels::reference {

// How v moves, by the squared direction. Names as in kernels::SecondMoment.
enum class Second { adagrad, adam, yogi };

template <class T, class Numbers>
T advance(Second kind, T& m, T& v, T d, const Numbers& s) {
    m = T(s.b1) * m + (1 - T(s.b1)) * d;
    switch (kind) {
        case Second::adagrad: v = v + d * d; break;
        case Second::adam: v = T(s.b2) * v + (1 - T(s.b2)) * d * d; break;
        case Second::yogi: v = v - (1 - T(s.b2)) * d * d * static_cast<T>((v > d * d) - (v < d * d)); break;
    }
    return m * T(s.unbias_m) / (std::sqrt(v * T(s.unbias_v)) + T(s.floor));
}

// w[j] += rate * step along to[j] - w[j]; m and v in the wider type W
template <class R, class W, class Numbers>
void adapt_toward(R* w, const R* to, W* m, W* v, std::size_t n, Second kind, const Numbers& s) {
    for (std::size_t j = 0; j < n; ++j) {
        const W d = static_cast<W>(to[j]) - static_cast<W>(w[j]);
        w[j] = static_cast<R>(static_cast<W>(w[j]) + W(s.rate) * advance(kind, m[j], v[j], d, s));
    }
}

// x[j] -= rate * step along g[j] + prox_weight (x[j] - prox_center[j]) + linear[j]; prox_center and linear may be null
template <class R, class Numbers>
void adam(R* x, const R* g, const R* prox_center, R prox_weight, const R* linear, R* m, R* v, std::size_t n,
          const Numbers& s) {
    for (std::size_t j = 0; j < n; ++j) {
        R d = g[j];
        if (prox_center) d += prox_weight * (x[j] - prox_center[j]);
        if (linear) d += linear[j];
        x[j] -= R(s.rate) * advance(Second::adam, m[j], v[j], d, s);
    }
}

}  // namespace tessera::kernels::reference
