// SPDX-License-Identifier: BSD-3-Clause
// The register-wide vector type the kernel bodies are written in, and flat-array arithmetic over it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tessera/core/mask.hpp>
#include <tessera/kernels/dispatch.hpp>

#define TESSERA_INLINE [[gnu::always_inline]] inline
// Bodies that call builtins of one set carry its target; only functions of the same set may call them.
#define TESSERA_AVX2 [[gnu::target("avx2,fma"), gnu::always_inline]] inline
#define TESSERA_AVX512 [[gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"), gnu::always_inline]] inline

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

// The bits of sixteen and of eight lanes, as the compiler's builtins take them.
#if defined(__clang__)
using Bits16 = unsigned short;
using Bits8 = unsigned char;
#else
using Bits16 = short;
using Bits8 = char;
#endif

// With the widest registers first, then with narrower ones, as short rows want it.
template <std::size_t Bytes, class F>
TESSERA_INLINE void by_registers(const F& f) {
    f.template operator()<Bytes>();
    if constexpr (Bytes > 16) by_registers<Bytes / 2>(f);
}

// The same pointer, of unknown origin: addresses of a tile are computed in the tile, and what is behind it is read
// there. Otherwise GCC carries one induction variable per row through memory from tile to tile, and all numbers of an
// update in registers, for which it spills sums.
template <class T>
TESSERA_INLINE T* forget(T* p) {
    asm volatile("" : "+r"(p));
    return p;
}

// Keeps a product from being fused with the addition behind it. (Clang fuses only inside one expression.)
template <class T>
TESSERA_INLINE void unfused([[maybe_unused]] T& product) {
#if defined(__clang__)
#elif defined(__x86_64__)
    asm("" : "+v"(product));
#elif defined(__aarch64__)
    asm("" : "+w"(product));
#endif
}

// Reads R, gives doubles.
template <class R, std::size_t Bytes>
TESSERA_INLINE void load_wide(const R* x, Held<double, Bytes>& out) {
    constexpr std::size_t lanes = VectorOf<double, Bytes>::lanes;
    const auto& narrow = *reinterpret_cast<const V<R, lanes * sizeof(R)>*>(x);
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (sizeof(R) == 4) {  // GCC makes it of pieces, some of which go through memory
        asm("%vcvtps2pd %1, %0" : "=v"(out) : "m"(narrow));
        return;
    }
#endif
    out = __builtin_convertvector(narrow, Held<double, Bytes>);
}

// v = sqrt(v), four floats or two doubles at a time: the divider takes no more at once on any x86.
template <class T>
TESSERA_INLINE void square_root(T& v) {
#ifdef TESSERA_X86
    constexpr std::size_t wide = sizeof(v[0]);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < sizeof(T); i += 16) {
        std::conditional_t<wide == 4, Held<float, 16>, Held<double, 16>> piece;
        std::memcpy(&piece, reinterpret_cast<const char*>(&v) + i, 16);
        if constexpr (wide == 4) piece = __builtin_ia32_sqrtps(piece);
        else piece = __builtin_ia32_sqrtpd(piece);
        std::memcpy(reinterpret_cast<char*>(&v) + i, &piece, 16);
    }
#else
    for (std::size_t l = 0; l < sizeof(T) / sizeof(v[0]); ++l) v[l] = std::sqrt(v[l]);
#endif
}

// The numbers of one update, hoisted out of the loop (Step in contracts/model.hpp).
template <class R>
struct UpdateNumbers {
    R rate, decay, prox_weight, momentum;
};

// What an update reads and writes beside x and the gradient; null: not there.
template <class R>
struct UpdateVectors {
    const R* prox_center;
    const R* linear;
    R* velocity;
    UpdateVectors at(std::size_t j) const {
        return {prox_center ? prox_center + j : nullptr, linear ? linear + j : nullptr,
                velocity ? velocity + j : nullptr};
    }
};

//   d += decay*x + prox_weight*(x - prox_center) + linear;   v = momentum*v + d;   x -= rate*v     for x number j
template <class R>
TESSERA_INLINE void move(R& x, R d, const UpdateVectors<R>& reads, std::size_t j, const UpdateNumbers<R>& s) {
    if (s.decay != 0) d += s.decay * x;
    if (reads.prox_center) d += s.prox_weight * (x - reads.prox_center[j]);
    if (reads.linear) d += reads.linear[j];
    if (reads.velocity) d = reads.velocity[j] = s.momentum * reads.velocity[j] + d;
    x -= s.rate * d;
}

// The same with d = scale*g.
template <class R, std::size_t Bytes>
TESSERA_INLINE void update_body(R* x, const R* g, const R* prox_center, const R* linear, R* velocity, std::size_t n,
                                R scale, UpdateNumbers<R> s) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        Vec& xj = *reinterpret_cast<Vec*>(x + j);
        Vec d = *reinterpret_cast<const Vec*>(g + j) * scale;
        if (s.decay != 0) d += s.decay * xj;
        if (prox_center) d += s.prox_weight * (xj - *reinterpret_cast<const Vec*>(prox_center + j));
        if (linear) d += *reinterpret_cast<const Vec*>(linear + j);
        if (velocity) {
            Vec& v = *reinterpret_cast<Vec*>(velocity + j);
            d = v = s.momentum * v + d;
        }
        xj -= s.rate * d;
    }
    for (; j < n; ++j) move(x[j], g[j] * scale, UpdateVectors<R>{prox_center, linear, velocity}, j, s);
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void axpy_body(R a, const R* x, R* y, std::size_t n) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) *reinterpret_cast<Vec*>(y + j) += a * *reinterpret_cast<const Vec*>(x + j);
    for (; j < n; ++j) y[j] += a * x[j];
}

// y = a*x + b*y
template <class R, std::size_t Bytes>
TESSERA_INLINE void blend_body(R a, const R* x, R b, R* y, std::size_t n) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        Vec& yj = *reinterpret_cast<Vec*>(y + j);
        yj = a * *reinterpret_cast<const Vec*>(x + j) + b * yj;
    }
    for (; j < n; ++j) y[j] = a * x[j] + b * y[j];
}

// w -= a*(mu - theta)
template <class R, std::size_t Bytes>
TESSERA_INLINE void pulled_body(R a, const R* mu, const R* theta, R* w, std::size_t n) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes)
        *reinterpret_cast<Vec*>(w + j) -=
            a * (*reinterpret_cast<const Vec*>(mu + j) - *reinterpret_cast<const Vec*>(theta + j));
    for (; j < n; ++j) w[j] -= a * (mu[j] - theta[j]);
}

// x = sign(x) max(|x| - t, 0): the proximal step of t |x|_1. A NaN stays.
template <class R, std::size_t Bytes>
TESSERA_INLINE void soft_threshold_body(R t, R* x, std::size_t n) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    const Held<R, Bytes> zero{};
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        const Held<R, Bytes> old = *reinterpret_cast<const Vec*>(x + j), less = old - t, more = old + t;
        const Held<R, Bytes> low = more < zero ? more : old * zero;
        *reinterpret_cast<Vec*>(x + j) = less > zero ? less : low;
    }
    for (; j < n; ++j) x[j] = x[j] - t > 0 ? x[j] - t : x[j] + t < 0 ? x[j] + t : x[j] * 0;
}

// x /= 1 + t: the proximal step of t/2 |x|^2.
template <class R, std::size_t Bytes>
TESSERA_INLINE void shrink_body(R t, R* x, std::size_t n) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    const R factor = 1 / (1 + t);
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) *reinterpret_cast<Vec*>(x + j) *= factor;
    for (; j < n; ++j) x[j] *= factor;
}

// Adds up n terms in double. Four partial sums a lane, so the order of additions is fixed by n alone.
template <class R, std::size_t Bytes, class VectorTerm, class ScalarTerm>
TESSERA_INLINE void reduce(std::size_t n, double* result, const VectorTerm& term, const ScalarTerm& last) {
    constexpr std::size_t lanes = VectorOf<double, Bytes>::lanes;
    Held<double, Bytes> sum[4] = {};
    std::size_t j = 0;
    for (; j + 4 * lanes <= n; j += 4 * lanes)
#pragma GCC unroll 4
        for (std::size_t k = 0; k < 4; ++k) term(j + k * lanes, sum[k]);
    double total = 0;
    for (; j < n; ++j) total += last(j);
    const Held<double, Bytes> all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (std::size_t l = 0; l < lanes; ++l) total += all[l];
    *result = total;
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void dot_body(const R* x, const R* y, std::size_t n, double* result) {
    reduce<R, Bytes>(
        n, result,
        [=](std::size_t j, Held<double, Bytes> & sum) __attribute__((always_inline)) {
            Held<double, Bytes> a, b;
            load_wide<R, Bytes>(x + j, a);
            load_wide<R, Bytes>(y + j, b);
            sum += a * b;
        },
        [=](std::size_t j)
            __attribute__((always_inline)) { return static_cast<double>(x[j]) * static_cast<double>(y[j]); });
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void squared_norm_body(const R* x, std::size_t n, double* result) {
    reduce<R, Bytes>(
        n, result,
        [=](std::size_t j, Held<double, Bytes> & sum) __attribute__((always_inline)) {
            Held<double, Bytes> a;
            load_wide<R, Bytes>(x + j, a);
            sum += a * a;
        },
        [=](std::size_t j)
            __attribute__((always_inline)) { return static_cast<double>(x[j]) * static_cast<double>(x[j]); });
}

// |x - a*y|^2
template <class R, std::size_t Bytes>
TESSERA_INLINE void squared_distance_body(const R* x, double a, const R* y, std::size_t n, double* result) {
    reduce<R, Bytes>(
        n, result,
        [=](std::size_t j, Held<double, Bytes> & sum) __attribute__((always_inline)) {
            Held<double, Bytes> d, b;
            load_wide<R, Bytes>(x + j, d);
            load_wide<R, Bytes>(y + j, b);
            d -= a * b;
            sum += d * d;
        },
        [=](std::size_t j) __attribute__((always_inline)) {
            const double d = static_cast<double>(x[j]) - a * static_cast<double>(y[j]);
            return d * d;
        });
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void sum_body(const R* x, std::size_t n, double* result) {
    reduce<R, Bytes>(
        n, result,
        [=](std::size_t j, Held<double, Bytes> & sum) __attribute__((always_inline)) {
            Held<double, Bytes> a;
            load_wide<R, Bytes>(x + j, a);
            sum += a;
        },
        [=](std::size_t j) __attribute__((always_inline)) { return static_cast<double>(x[j]); });
}

// Bytes as whole numbers of four bytes each. GCC 12 converts lane by lane, so x86 gets the instruction by name
// (20 rows of 784: 9 us by lanes, 2 us so).
template <std::size_t Lanes>
TESSERA_INLINE void widen(const std::uint8_t* in, Held<std::int32_t, 4 * Lanes>& out) {
    const auto& raw = *reinterpret_cast<const V<std::uint8_t, Lanes>*>(in);
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (Lanes >= 8) {
        asm("vpmovzxbd %1, %0" : "=v"(out) : "m"(raw));
        return;
    }
#endif
    out = __builtin_convertvector(__builtin_convertvector(raw, Held<std::uint16_t, 2 * Lanes>),
                                  Held<std::int32_t, 4 * Lanes>);
}

// out = (byte - shift) * scale
template <class R, std::size_t Bytes>
TESSERA_INLINE void widen_bytes_body(const std::uint8_t* in, R* out, std::size_t n, R shift, R scale) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    const std::size_t whole = n - n % lanes;
    for (std::size_t j = 0; j < whole; j += lanes) {
        Held<std::int32_t, 4 * lanes> number;
        widen<lanes>(in + j, number);
        *reinterpret_cast<Vec*>(out + j) = (__builtin_convertvector(number, Vec) - shift) * scale;
    }
    for (std::size_t j = whole; j < n; ++j) out[j] = (R(in[j]) - shift) * scale;
}

}  // namespace detail

#define TESSERA_VECTOR_KERNELS(R)                                                                                    \
    TESSERA_DISPATCH(update, R,                                                                                      \
                     (R * x, const R* g, const R* prox_center, const R* linear, R* velocity, std::size_t n, R scale, \
                      kernels::detail::UpdateNumbers<R> numbers),                                                    \
                     (x, g, prox_center, linear, velocity, n, scale, numbers))                                       \
    TESSERA_DISPATCH(axpy, R, (R a, const R* x, R* y, std::size_t n), (a, x, y, n))                                  \
    TESSERA_DISPATCH(dot, R, (const R* x, const R* y, std::size_t n, double* result), (x, y, n, result))             \
    TESSERA_DISPATCH(squared_norm, R, (const R* x, std::size_t n, double* result), (x, n, result))                   \
    TESSERA_DISPATCH(squared_distance, R, (const R* x, double a, const R* y, std::size_t n, double* result),         \
                     (x, a, y, n, result))                                                                           \
    TESSERA_DISPATCH(sum, R, (const R* x, std::size_t n, double* result), (x, n, result))                            \
    TESSERA_DISPATCH(blend, R, (R a, const R* x, R b, R* y, std::size_t n), (a, x, b, y, n))                         \
    TESSERA_DISPATCH(pulled, R, (R a, const R* mu, const R* theta, R* w, std::size_t n), (a, mu, theta, w, n))       \
    TESSERA_DISPATCH(soft_threshold, R, (R t, R * x, std::size_t n), (t, x, n))                                      \
    TESSERA_DISPATCH(shrink, R, (R t, R * x, std::size_t n), (t, x, n))                                              \
    TESSERA_DISPATCH(widen_bytes, R, (const std::uint8_t* in, R* out, std::size_t n, R shift, R scale),              \
                     (in, out, n, shift, scale))
TESSERA_VECTOR_KERNELS(float)
TESSERA_VECTOR_KERNELS(double)
#undef TESSERA_VECTOR_KERNELS

}  // namespace tessera::kernels
