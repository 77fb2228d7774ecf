// SPDX-License-Identifier: BSD-3-Clause
// Row-wise softmax over a vectorised exponential, and the pointwise activations.
//
// In float the exponential is a polynomial of degree 6 on [-ln 2 / 2, ln 2 / 2] (2 ulp, tested over its whole
// range; below -87 it is 0, so no denormal is born); in double it is the library's.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

template <std::size_t Bytes>
TESSERA_INLINE void exponential(float* at) {
    using Vec = V<float, Bytes>;
    using Whole = Held<std::int32_t, Bytes>;
    using Bits = Held<std::uint32_t, Bytes>;  // wraps around where nobody looks: below -87
    Vec& out = *reinterpret_cast<Vec*>(at);
    const Held<float, Bytes> x = out;
    // Adding 1.5 * 2^23 leaves x / ln 2, rounded to a whole number, in the low bits.
    constexpr float shifter = 12582912.0f;
    const Held<float, Bytes> shifted = x * 1.44269504f + shifter, n = shifted - shifter;
    Held<float, Bytes> r = x - n * 0.693359375f;  // ln 2 in two pieces, the first exact in 9 bits
    r = r - n * -2.12194440e-4f;
    Held<float, Bytes> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    const Bits power = (Bits)shifted << 23;  // 2^n, added to the exponent
    const Bits scaled = (Bits)p + power;
    const Whole finite = x >= -87.0f;
    out = x != x ? x : (Held<float, Bytes>)(scaled & (Bits)finite);  // a NaN stays one
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void exponentials(R* x, std::size_t n) {
    if constexpr (std::is_same_v<R, float>) {
        constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
        float rest[lanes] = {};
        if (n < lanes) {
            for (std::size_t j = 0; j < n; ++j) rest[j] = x[j];
            exponential<Bytes>(rest);
            for (std::size_t j = 0; j < n; ++j) x[j] = rest[j];
            return;
        }
        std::memcpy(rest, x + n - lanes, sizeof rest);  // before its first numbers are done: they are done twice
        for (std::size_t j = 0; j + lanes <= n; j += lanes) exponential<Bytes>(x + j);
        exponential<Bytes>(rest);
        std::memcpy(x + n - lanes, rest, sizeof rest);
    } else {
        for (std::size_t j = 0; j < n; ++j) x[j] = std::exp(x[j]);
    }
}

// z[b][.] <- exp(z[b][.] - top[b]) with top[b] the largest of the row, sum[b] what they add up to.
template <class R, std::size_t Bytes>
TESSERA_INLINE void softmax_rows_body(R* z, std::size_t batch, std::size_t classes, R* top, R* sum) {
    for (std::size_t b = 0; b < batch; ++b) {
        R* row = z + b * classes;
        R most = row[0];
        for (std::size_t c = 1; c < classes; ++c) most = row[c] > most ? row[c] : most;
        for (std::size_t c = 0; c < classes; ++c) row[c] -= most;
        top[b] = most;
    }
    exponentials<R, Bytes>(z, batch * classes);
    for (std::size_t b = 0; b < batch; ++b) {
        R total = 0;
        for (std::size_t c = 0; c < classes; ++c) total += z[b * classes + c];
        sum[b] = total;
    }
}

// y = x where x > 0, slope * x elsewhere; slope 0 gives exactly 0.
template <class R, std::size_t Bytes>
TESSERA_INLINE void leaky_relu_body(const R* x, R* y, std::size_t n, R slope) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        Held<R, Bytes> v = *reinterpret_cast<const Vec*>(x + j);
        unfused(v);  // GCC would read it three times
        const Held<R, Bytes> below = slope != 0 ? slope * v : Held<R, Bytes>{};
        *reinterpret_cast<Vec*>(y + j) = v > R(0) ? v : below;
    }
    for (; j < n; ++j) y[j] = x[j] > 0 ? x[j] : slope != 0 ? slope * x[j] : R(0);
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void leaky_relu_gradient_body(const R* x, const R* dy, R* dx, std::size_t n, R slope) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        const Held<R, Bytes> v = *reinterpret_cast<const Vec*>(x + j), d = *reinterpret_cast<const Vec*>(dy + j);
        const Held<R, Bytes> below = slope != 0 ? slope * d : Held<R, Bytes>{};
        *reinterpret_cast<Vec*>(dx + j) = v > R(0) ? d : below;
    }
    for (; j < n; ++j) dx[j] = x[j] > 0 ? dy[j] : slope != 0 ? slope * dy[j] : R(0);
}

}  // namespace detail

#define TESSERA_SOFTMAX_KERNELS(R)                                                                         \
    TESSERA_DISPATCH(softmax_rows, R, (R * z, std::size_t batch, std::size_t classes, R* top, R* sum),     \
                     (z, batch, classes, top, sum))                                                        \
    TESSERA_DISPATCH(leaky_relu, R, (const R* x, R* y, std::size_t n, R slope), (x, y, n, slope))          \
    TESSERA_DISPATCH(leaky_relu_gradient, R, (const R* x, const R* dy, R* dx, std::size_t n, R slope),     \
                     (x, dy, dx, n, slope))
TESSERA_SOFTMAX_KERNELS(float)
TESSERA_SOFTMAX_KERNELS(double)
#undef TESSERA_SOFTMAX_KERNELS

}  // namespace tessera::kernels
