// SPDX-License-Identifier: BSD-3-Clause
// The register-wide vector type the kernel bodies are written in, and flat-array arithmetic over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <tessera/core/mask.hpp>
#include <tessera/kernels/dispatch.hpp>

#define TESSERA_INLINE [[gnu::always_inline]] inline

namespace tessera::kernels {
namespace detail {

// Bytes of one register: 64 for AVX-512, 32 for AVX2, 16 for SSE2 and NEON.
template <class R, std::size_t Bytes>
struct VectorOf {
    typedef R type __attribute__((vector_size(Bytes), aligned(alignof(R)), may_alias));  // in memory, anywhere
    typedef R held __attribute__((vector_size(Bytes)));                                  // in a register
    static constexpr std::size_t lanes = Bytes / sizeof(R);
};
template <class R, std::size_t Bytes>
using V = typename VectorOf<R, Bytes>::type;
template <class R, std::size_t Bytes>
using Held = typename VectorOf<R, Bytes>::held;

// The numbers of one update, hoisted out of the loop (Step in contracts/model.hpp).
template <class R>
struct UpdateNumbers {
    R rate, decay, pull, momentum;
};

// What an update reads and writes beside x and the gradient; null: not there.
template <class R>
struct UpdatePulls {
    const R* toward;
    const R* also;
    R* velocity;
    UpdatePulls at(std::size_t j) const {
        return {toward ? toward + j : nullptr, also ? also + j : nullptr, velocity ? velocity + j : nullptr};
    }
};

//   d = scale*g + decay*x + pull*(x - toward) + also;   v = momentum*v + d;   x -= rate*v
template <class R, std::size_t Bytes>
TESSERA_INLINE void update_body(R* x, const R* g, const R* toward, const R* also, R* velocity, std::size_t n, R scale,
                                UpdateNumbers<R> s) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        Vec& xj = *reinterpret_cast<Vec*>(x + j);
        Vec d = *reinterpret_cast<const Vec*>(g + j) * scale;
        if (s.decay != 0) d += s.decay * xj;
        if (toward) d += s.pull * (xj - *reinterpret_cast<const Vec*>(toward + j));
        if (also) d += *reinterpret_cast<const Vec*>(also + j);
        if (velocity) {
            Vec& v = *reinterpret_cast<Vec*>(velocity + j);
            d = v = s.momentum * v + d;
        }
        xj -= s.rate * d;
    }
    for (; j < n; ++j) {
        R d = g[j] * scale;
        if (s.decay != 0) d += s.decay * x[j];
        if (toward) d += s.pull * (x[j] - toward[j]);
        if (also) d += also[j];
        if (velocity) d = velocity[j] = s.momentum * velocity[j] + d;
        x[j] -= s.rate * d;
    }
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void axpy_body(R a, const R* x, R* y, std::size_t n) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes)
        *reinterpret_cast<Vec*>(y + j) += a * *reinterpret_cast<const Vec*>(x + j);
    for (; j < n; ++j) y[j] += a * x[j];
}

// Four partial sums a lane, so the order of additions is fixed by n alone.
template <class R, std::size_t Bytes>
TESSERA_INLINE void dot_body(const R* x, const R* y, std::size_t n, double* result) {
    using Vec = V<double, Bytes>;
    constexpr std::size_t lanes = VectorOf<double, Bytes>::lanes;
    Vec sum[4] = {};
    std::size_t j = 0;
    for (; j + 4 * lanes <= n; j += 4 * lanes)
        for (std::size_t k = 0; k < 4; ++k) {
            Vec a{}, b{};
            for (std::size_t l = 0; l < lanes; ++l) {
                a[l] = static_cast<double>(x[j + k * lanes + l]);
                b[l] = static_cast<double>(y[j + k * lanes + l]);
            }
            sum[k] += a * b;
        }
    double total = 0;
    for (; j < n; ++j) total += static_cast<double>(x[j]) * static_cast<double>(y[j]);
    const Vec all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (std::size_t l = 0; l < lanes; ++l) total += all[l];
    *result = total;
}

// out = (byte - shift) * scale
template <class R, std::size_t Bytes>
TESSERA_INLINE void widen_bytes_body(const std::uint8_t* in, R* out, std::size_t n, R shift, R scale) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    typedef std::uint8_t Small __attribute__((vector_size(lanes)));
    const std::size_t whole = n - n % lanes;
    for (std::size_t j = 0; j < whole; j += lanes) {
        Small raw;
        std::memcpy(&raw, in + j, lanes);
        *reinterpret_cast<Vec*>(out + j) = (__builtin_convertvector(raw, Vec) - shift) * scale;
    }
    for (std::size_t j = whole; j < n; ++j) out[j] = (R(in[j]) - shift) * scale;
}

}  // namespace detail

#define TESSERA_VECTOR_KERNELS(R)                                                                              \
    TESSERA_DISPATCH(update, R,                                                                                \
                     (R * x, const R* g, const R* toward, const R* also, R* velocity, std::size_t n, R scale,  \
                      kernels::detail::UpdateNumbers<R> numbers),                                              \
                     (x, g, toward, also, velocity, n, scale, numbers))                                        \
    TESSERA_DISPATCH(axpy, R, (R a, const R* x, R* y, std::size_t n), (a, x, y, n))                            \
    TESSERA_DISPATCH(dot, R, (const R* x, const R* y, std::size_t n, double* result), (x, y, n, result))       \
    TESSERA_DISPATCH(widen_bytes, R, (const std::uint8_t* in, R* out, std::size_t n, R shift, R scale),        \
                     (in, out, n, shift, scale))
TESSERA_VECTOR_KERNELS(float)
TESSERA_VECTOR_KERNELS(double)
#undef TESSERA_VECTOR_KERNELS

}  // namespace tessera::kernels
