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
#include <utility>

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

// f<bytes of a register>() for the widest registers that a row of n numbers fills; one number is the narrowest.
template <class R, std::size_t Bytes, class F>
TESSERA_INLINE void by_width(std::size_t n, const F& f) {
    if constexpr (Bytes > sizeof(R))
        if (n < VectorOf<R, Bytes>::lanes) return by_width<R, (Bytes > 16 ? Bytes / 2 : sizeof(R))>(n, f);
    f.template operator()<Bytes>();
}
// f(register, by(row)), which may change it, over rows of n numbers. The last one of a row reaches back, so it is read
// before others are written.
template <class R, std::size_t Bytes, class By, class F>
TESSERA_INLINE void change_rows(R* z, std::size_t batch, std::size_t n, const By& by, const F& f) {
    by_width<R, Bytes>(n, [&]<std::size_t Wide>() __attribute__((always_inline)) {
        using Vec = V<R, Wide>;
        constexpr std::size_t lanes = VectorOf<R, Wide>::lanes;
        for (std::size_t b = 0; b < batch; ++b, z += n) {
            const R number = by(b);
            Held<R, Wide> last = *reinterpret_cast<const Vec*>(z + n - lanes);
            for (std::size_t c = 0; c + lanes < n; c += lanes) {
                Held<R, Wide> v = *reinterpret_cast<const Vec*>(z + c);
                f(v, number);
                *reinterpret_cast<Vec*>(z + c) = v;
            }
            f(last, number);
            *reinterpret_cast<Vec*>(z + n - lanes) = last;
        }
    });
}
template <class R, std::size_t Bytes, std::size_t Width, std::size_t... Lane>
TESSERA_INLINE R largest_lane(const Held<R, Bytes>& v, std::index_sequence<Lane...> lanes) {
    if constexpr (Width > 0) {
        const Held<R, Bytes> other = __builtin_shufflevector(v, v, (Lane ^ Width)...);
        const Held<R, Bytes> most = v > other ? v : other;
        return largest_lane<R, Bytes, Width / 2>(most, lanes);
    } else {
        return v[0];
    }
}

// z[b][.] -= by[b]
template <class R, std::size_t Bytes>
TESSERA_INLINE void lower_rows_body(R* z, std::size_t batch, std::size_t classes, const R* by) {
    change_rows<R, Bytes>(
        z, batch, classes, [=](std::size_t b) __attribute__((always_inline)) { return by[b]; },
        [](auto& v, R less) __attribute__((always_inline)) { v -= less; });
}

// z[b][.] <- exp(z[b][.] - top[b]) with top[b] the largest of the row, sum[b] what they add up to; with `scale`, times
// scale[b] / sum[b].
template <class R, std::size_t Bytes>
TESSERA_INLINE void softmax_rows_body(R* z, std::size_t batch, std::size_t classes, R* top, R* sum, const R* scale) {
    by_width<R, Bytes>(classes, [&]<std::size_t Wide>() __attribute__((always_inline)) {
        using Vec = V<R, Wide>;
        constexpr std::size_t lanes = VectorOf<R, Wide>::lanes;
        const R* row = z;
        for (std::size_t b = 0; b < batch; ++b, row += classes) {
            Held<R, Wide> most = *reinterpret_cast<const Vec*>(row + classes - lanes);
            for (std::size_t c = 0; c + lanes < classes; c += lanes) {
                const Held<R, Wide> v = *reinterpret_cast<const Vec*>(row + c);
                most = v > most ? v : most;
            }
            top[b] = largest_lane<R, Wide, lanes / 2>(most, std::make_index_sequence<lanes>{});
        }
    });
    lower_rows_body<R, Bytes>(z, batch, classes, top);
    exponentials<R, Bytes>(z, batch * classes);
    const R* row = z;
    for (std::size_t b = 0; b < batch; ++b, row += classes) {
        R total = 0;
#pragma GCC unroll 8
        for (std::size_t c = 0; c < classes; ++c) {
            total += row[c];
            unfused(total);  // GCC would add up in order from shuffled registers: three times the instructions
        }
        sum[b] = total;
    }
    if (!scale) return;
    change_rows<R, Bytes>(
        z, batch, classes, [=](std::size_t b) __attribute__((always_inline)) { return scale[b] / sum[b]; },
        [](auto& v, R part) __attribute__((always_inline)) { v *= part; });
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

#define TESSERA_SOFTMAX_KERNELS(R)                                                                               \
    TESSERA_DISPATCH(softmax_rows, R,                                                                            \
                     (R * z, std::size_t batch, std::size_t classes, R* top, R* sum, const R* scale),            \
                     (z, batch, classes, top, sum, scale))                                                       \
    TESSERA_DISPATCH(lower_rows, R, (R * z, std::size_t batch, std::size_t classes, const R* by),                \
                     (z, batch, classes, by))                                                                    \
    TESSERA_DISPATCH(leaky_relu, R, (const R* x, R* y, std::size_t n, R slope), (x, y, n, slope))                \
    TESSERA_DISPATCH(leaky_relu_gradient, R, (const R* x, const R* dy, R* dx, std::size_t n, R slope),           \
                     (x, dy, dx, n, slope))
TESSERA_SOFTMAX_KERNELS(float)
TESSERA_SOFTMAX_KERNELS(double)
#undef TESSERA_SOFTMAX_KERNELS

}  // namespace tessera::kernels
