// SPDX-License-Identifier: BSD-3-Clause
// exp, the logistic function and tanh of registers of floats, for kernels that are made of them,
// and what such kernels read and write: whole registers, or the first numbers of one.
//
// The exponential is a polynomial of degree 6 on [-ln 2 / 2, ln 2 / 2] (2 ulp, tested over its whole range; below -87
// it is 0, so no denormal is born). Above 88 it is not asked. A NaN stays one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <tessera/kernels/vector.hpp>

namespace tessera::kernels::detail {

// `lanes` numbers from there, of which the first n are: the others are 0.
template <std::size_t Bytes>
TESSERA_INLINE void load_first(const float* from, std::size_t n, Held<float, Bytes>& to) {
    if (n >= VectorOf<float, Bytes>::lanes) {
        std::memcpy(&to, from, sizeof to);
        return;
    }
    to = Held<float, Bytes>{};
    for (std::size_t j = 0; j < n; ++j) to[j] = from[j];
}
template <std::size_t Bytes>
TESSERA_INLINE void keep_first(const Held<float, Bytes>& from, std::size_t n, float* to) {
    if (n >= VectorOf<float, Bytes>::lanes) {
        std::memcpy(to, &from, sizeof from);
        return;
    }
    for (std::size_t j = 0; j < n; ++j) to[j] = from[j];
}

// v = exp(v), v <= 88.
template <std::size_t Bytes>
TESSERA_INLINE void exponential(Held<float, Bytes>& v) {
    using Whole = Held<std::int32_t, Bytes>;
    using Bits = Held<std::uint32_t, Bytes>;  // wraps around where nobody looks: below -87
    const Held<float, Bytes> x = v;
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
    const Bits power = reinterpret_cast<Bits>(shifted) << 23;  // 2^n, added to the exponent
    const Bits scaled = reinterpret_cast<Bits>(p) + power;
    const Whole finite = x >= -87.0f;
    v = x != x ? x : reinterpret_cast<Held<float, Bytes>>(scaled & reinterpret_cast<Bits>(finite));
}
template <std::size_t Bytes>
TESSERA_INLINE void exponential(float* at) {
    V<float, Bytes>& out = *reinterpret_cast<V<float, Bytes>*>(at);
    Held<float, Bytes> v = out;
    exponential<Bytes>(v);
    out = v;
}

// v = 1 / (1 + exp(-v)), by exp(-|v|): nothing overflows, and far below 0 no digit is lost.
template <std::size_t Bytes>
TESSERA_INLINE void logistic(Held<float, Bytes>& v) {
    const Held<float, Bytes> x = v;
    Held<float, Bytes> e = x < 0.0f ? x : -x;
    exponential<Bytes>(e);
    const Held<float, Bytes> above = 1.0f / (1.0f + e), below = e * above;
    v = x < 0.0f ? below : above;
}

// v = tanh(v): (1 - e) / (1 + e) with e = exp(-2 |v|), and near 0, where that loses digits, Cephes' polynomial.
template <std::size_t Bytes>
TESSERA_INLINE void tangent(Held<float, Bytes>& v) {
    const Held<float, Bytes> x = v, away = x < 0.0f ? x : -x;
    Held<float, Bytes> e = away + away;
    exponential<Bytes>(e);
    const Held<float, Bytes> far = (1.0f - e) / (1.0f + e), back = -far;
    const Held<float, Bytes> square = x * x;
    Held<float, Bytes> p = square * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * square + -5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square + -3.33332819422e-1f;
    p = p * (square * x) + x;
    const Held<float, Bytes> whole = x < 0.0f ? back : far;
    v = away > -0.625f ? p : whole;
}

}  // namespace tessera::kernels::detail
