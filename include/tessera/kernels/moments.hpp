// SPDX-License-Identifier: BSD-3-Clause
// Steps scaled by a running second moment, one pass over all vectors. Each entry point does what its namesake in
// reference/moments.hpp says.
//
//   m = b1 m + (1 - b1) d;   x -= rate (m unbias_m) / (sqrt(v unbias_v) + floor)
//   Adagrad  v = v + d^2        Adam  v = b2 v + (1 - b2) d^2        Yogi  v = v - (1 - b2) d^2 sign(v - d^2)
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

enum class SecondMoment : std::uint8_t { adagrad, adam, yogi };

template <class R>
struct MomentNumbers {
    R rate, b1, b2;
    R floor;                      // added to the root
    R unbias_m = 1, unbias_v = 1; // 1 / (1 - b^k), or 1
};

// Of Adam's k-th step, k = 1, 2, ...
template <class R>
MomentNumbers<R> unbiased(double rate, double b1, double b2, double eps, double k) {
    return {.rate = R(rate),
            .b1 = R(b1),
            .b2 = R(b2),
            .floor = R(eps),
            .unbias_m = R(1 / (1 - std::pow(b1, k))),
            .unbias_v = R(1 / (1 - std::pow(b2, k)))};
}

namespace detail {

// Moves m and v along d, which becomes the step before it is scaled by the rate.
template <SecondMoment Kind, class T, class R>
TESSERA_INLINE void advance(T& m, T& v, T& d, const MomentNumbers<R>& s) {
    m = s.b1 * m + (1 - s.b1) * d;
    const T square = d * d;
    if constexpr (Kind == SecondMoment::adagrad) {
        v += square;
    } else if constexpr (Kind == SecondMoment::adam) {
        v = s.b2 * v + (1 - s.b2) * square;
    } else {
        const T change = (1 - s.b2) * square, zero{};
        v = v > square ? v - change : v < square ? v + change : v + zero * change;
    }
    T root = v * s.unbias_v;
    if constexpr (sizeof(T) == sizeof(R)) root = std::sqrt(root);
    else square_root(root);
    d = m * s.unbias_m / (root + s.floor);
}

template <SecondMoment Kind, class R, std::size_t Bytes>
TESSERA_INLINE void adapt(R* w, const R* to, double* m, double* v, std::size_t n, const MomentNumbers<double>& s) {
    constexpr std::size_t lanes = VectorOf<double, Bytes>::lanes;
    using Narrow = Held<R, lanes * sizeof(R)>;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        Held<double, Bytes> x, d, mj = *reinterpret_cast<const V<double, Bytes>*>(m + j),
                                  vj = *reinterpret_cast<const V<double, Bytes>*>(v + j);
        load_wide<R, Bytes>(w + j, x);
        load_wide<R, Bytes>(to + j, d);
        d -= x;
        advance<Kind>(mj, vj, d, s);
        *reinterpret_cast<V<double, Bytes>*>(m + j) = mj;
        *reinterpret_cast<V<double, Bytes>*>(v + j) = vj;
        x += s.rate * d;
        *reinterpret_cast<V<R, lanes * sizeof(R)>*>(w + j) = __builtin_convertvector(x, Narrow);
    }
    for (; j < n; ++j) {
        const double x = static_cast<double>(w[j]);
        double d = static_cast<double>(to[j]) - x;
        advance<Kind>(m[j], v[j], d, s);
        w[j] = static_cast<R>(x + s.rate * d);
    }
}

// Moves w toward `to`: the server's step, where `to` is what an inner fold made of the cohort.
template <class R, std::size_t Bytes>
TESSERA_INLINE void adapt_toward_body(R* w, const R* to, double* m, double* v, std::size_t n, SecondMoment kind,
                                      const MomentNumbers<double>* s) {
    switch (kind) {
        case SecondMoment::adagrad: return adapt<SecondMoment::adagrad, R, Bytes>(w, to, m, v, n, *s);
        case SecondMoment::adam: return adapt<SecondMoment::adam, R, Bytes>(w, to, m, v, n, *s);
        case SecondMoment::yogi: return adapt<SecondMoment::yogi, R, Bytes>(w, to, m, v, n, *s);
    }
}

// A client's step: d = g + prox_weight (x - prox_center) + linear, either of which may be null.
template <class R, std::size_t Bytes>
TESSERA_INLINE void adam_body(R* x, const R* g, const R* prox_center, R prox_weight, const R* linear, R* m, R* v,
                              std::size_t n, const MomentNumbers<R>* numbers) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    const MomentNumbers<R> s = *numbers;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        Held<R, Bytes> xj = *reinterpret_cast<const Vec*>(x + j), d = *reinterpret_cast<const Vec*>(g + j);
        Held<R, Bytes> mj = *reinterpret_cast<const Vec*>(m + j), vj = *reinterpret_cast<const Vec*>(v + j);
        if (prox_center) d += prox_weight * (xj - *reinterpret_cast<const Vec*>(prox_center + j));
        if (linear) d += *reinterpret_cast<const Vec*>(linear + j);
        advance<SecondMoment::adam>(mj, vj, d, s);
        *reinterpret_cast<Vec*>(m + j) = mj;
        *reinterpret_cast<Vec*>(v + j) = vj;
        *reinterpret_cast<Vec*>(x + j) = xj - s.rate * d;
    }
    for (; j < n; ++j) {
        R d = g[j];
        if (prox_center) d += prox_weight * (x[j] - prox_center[j]);
        if (linear) d += linear[j];
        advance<SecondMoment::adam>(m[j], v[j], d, s);
        x[j] -= s.rate * d;
    }
}

}  // namespace detail

#define TESSERA_MOMENT_KERNELS(R)                                                                          \
    TESSERA_DISPATCH(adapt_toward, R,                                                                      \
                     (R * w, const R* to, double* m, double* v, std::size_t n, SecondMoment kind,          \
                      const MomentNumbers<double>* numbers),                                               \
                     (w, to, m, v, n, kind, numbers))                                                      \
    TESSERA_DISPATCH(adam, R,                                                                              \
                     (R * x, const R* g, const R* prox_center, R prox_weight, const R* linear, R* m, R* v, \
                      std::size_t n, const MomentNumbers<R>* numbers),                                     \
                     (x, g, prox_center, prox_weight, linear, m, v, n, numbers))
TESSERA_MOMENT_KERNELS(float)
TESSERA_MOMENT_KERNELS(double)
#undef TESSERA_MOMENT_KERNELS

}  // namespace tessera::kernels
