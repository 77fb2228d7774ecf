// SPDX-License-Identifier: BSD-3-Clause
// Normal numbers of a key, many at once: the sequence of Stream(key).normal() within 1e-14, the same bits in every
// kernel set, in any pieces (kernels/philox.hpp).
//
//   radius = sqrt(-2 ln u), u in (0, 1) of 53 bits;   angle = 2 pi t;   radius * (cos, sin)
//
// ln u = e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)); the angle is cut to +-pi/4 exactly.
// All three series are Taylor's, to less than 1e-16 of their sum, and nothing is fused.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>
#include <tessera/kernels/philox.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

// p = sum_k c_k z^k, the last coefficient first
template <class T, std::size_t N>
TESSERA_INLINE void horner(T& p, const T& z, const double (&c)[N]) {
    p = T{} + c[0];
#pragma GCC unroll 16
    for (std::size_t k = 1; k < N; ++k) {
        p *= z;
        unfused(p);
        p += c[k];
    }
}

// Two normal numbers of 128 bits.
struct NormalPair {
    template <std::size_t Bytes>
    TESSERA_INLINE void draw(const Held<std::uint64_t, Bytes>& first, const Held<std::uint64_t, Bytes>& second,
                             Held<double, Bytes>& cosine, Held<double, Bytes>& sine) const {
        using U = Held<std::uint64_t, Bytes>;
        using D = Held<double, Bytes>;
        constexpr std::uint64_t one = std::bit_cast<std::uint64_t>(1.0);
        constexpr std::uint64_t half_step = std::bit_cast<std::uint64_t>(0x1p-53);
        // Exactly Stream's uniform_open and uniform: 52 bits as a mantissa, then half a step or the 53rd bit.
        const D u = reinterpret_cast<D>(first >> 12 | one) - 1.0 + 0x1p-53;
        const D t = reinterpret_cast<D>(second >> 12 | one) - 1.0 +
                    reinterpret_cast<D>((U{} - (second >> 11 & 1)) & half_step);

        // ln u. Exponents are counted from sqrt(1/2), so that m is near 1 where u is.
        constexpr std::uint64_t bits_of_root_half = std::bit_cast<std::uint64_t>(0x1.6a09e667f3bcdp-1);
        constexpr std::uint64_t exponent = std::uint64_t{0xFFF} << 52, magic = std::bit_cast<std::uint64_t>(0x1.8p52);
        const U shifted = reinterpret_cast<U>(u) - bits_of_root_half;
        const D m = reinterpret_cast<D>(reinterpret_cast<U>(u) - (shifted & exponent));
        const D e = reinterpret_cast<D>((shifted >> 52) - (shifted >> 63 << 12) + magic) - 0x1.8p52;
        const D s = (m - 1.0) / (m + 1.0);
        D z = s * s, p;
        horner(p, z, {2 / 21.0, 2 / 19.0, 2 / 17.0, 2 / 15.0, 2 / 13.0, 2 / 11.0, 2 / 9.0, 2 / 7.0, 2 / 5.0, 2 / 3.0,
                      2.0});
        p *= s;
        unfused(p);
        D radius = e * 0x1.62e42fefa39efp-1;
        unfused(radius);
        radius = (radius + p) * -2.0;
        square_root(radius);

        // The nearest quarter turn and the rest of it; both are exact.
        const D quarters = t * 4.0 + 0x1.8p52;
        const U turn = reinterpret_cast<U>(quarters);
        const D angle = (t * 4.0 - (quarters - 0x1.8p52)) * 0x1.921fb54442d18p0;
        z = angle * angle;
        D sin_series, cos_series;
        horner(sin_series, z, {-1 / 1307674368000.0, 1 / 6227020800.0, -1 / 39916800.0, 1 / 362880.0, -1 / 5040.0,
                               1 / 120.0, -1 / 6.0, 1.0});
        horner(cos_series, z, {1 / 20922789888000.0, -1 / 87178291200.0, 1 / 479001600.0, -1 / 3628800.0, 1 / 40320.0,
                               -1 / 720.0, 1 / 24.0, -1 / 2.0, 1.0});
        sin_series *= angle;
        // Turns 1 and 3 exchange the two; signs are bits: cos is negative in turns 1 and 2, sin in 2 and 3.
        const auto odd = (turn & 1) != 0;
        const U cos_sign = ((turn + 1) & 2) << 62, sin_sign = (turn & 2) << 62;
        const D c = odd ? sin_series : cos_series, r = odd ? cos_series : sin_series;
        cosine = reinterpret_cast<D>(reinterpret_cast<U>(c) ^ cos_sign) * radius;
        sine = reinterpret_cast<D>(reinterpret_cast<U>(r) ^ sin_sign) * radius;
    }
};

template <class R, std::size_t Bytes>
TESSERA_INLINE void normal_body(const Key* key, std::uint64_t first, R* out, std::size_t n) {
    fill_pairs<R, Bytes>(NormalPair{}, *key, first, out, n);
}

}  // namespace detail

#define TESSERA_NORMAL_KERNELS(R) \
    TESSERA_DISPATCH(normal, R, (const Key* key, std::uint64_t first, R* out, std::size_t n), (key, first, out, n))
TESSERA_NORMAL_KERNELS(float)
TESSERA_NORMAL_KERNELS(double)
#undef TESSERA_NORMAL_KERNELS

// Numbers first, first + 1, ... of the key's sequence.
inline void fill_normal(Key key, Out<float> out, std::uint64_t first = 0) {
    normal(&key, first, out.data(), out.size());
}
inline void fill_normal(Key key, Out<double> out, std::uint64_t first = 0) {
    normal(&key, first, out.data(), out.size());
}

}  // namespace tessera::kernels
