// SPDX-License-Identifier: BSD-3-Clause
// Row-wise softmax over a vectorised exponential, and the pointwise activations.
//
// In float the exponential is that of kernels/exponential.hpp; in double it is the library's.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <tessera/kernels/exponential.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

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

// The same of one row of many floats, as scores of words are: it is read from memory once, and added up by registers.
template <std::size_t Bytes>
TESSERA_INLINE void softmax_wide_row(float* row, std::size_t classes, float* top, float* sum, const float* scale) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    const std::size_t whole = classes - classes % lanes;
    Held<float, Bytes> high = *reinterpret_cast<const Vec*>(row), total{};
    for (std::size_t c = lanes; c < whole; c += lanes) {
        const Held<float, Bytes> v = *reinterpret_cast<const Vec*>(row + c);
        high = v > high ? v : high;
    }
    float most = high[0];
    for (std::size_t l = 1; l < lanes; ++l) most = high[l] > most ? high[l] : most;
    for (std::size_t c = whole; c < classes; ++c) most = row[c] > most ? row[c] : most;
    for (std::size_t c = 0; c < whole; c += lanes) {
        Vec& at = *reinterpret_cast<Vec*>(row + c);
        Held<float, Bytes> e = at - most;
        exponential<Bytes>(e);
        at = e;
        total += e;
    }
    float rest[lanes] = {}, all = 0;
    for (std::size_t c = whole; c < classes; ++c) rest[c - whole] = row[c] - most;
    exponential<Bytes>(rest);
    for (std::size_t c = whole; c < classes; ++c) all += row[c] = rest[c - whole];
    for (std::size_t l = 0; l < lanes; ++l) all += total[l];
    *top = most;
    *sum = all;
    if (!scale) return;
    const float part = *scale / all;
    for (std::size_t c = 0; c < whole; c += lanes) *reinterpret_cast<Vec*>(row + c) *= part;
    for (std::size_t c = whole; c < classes; ++c) row[c] *= part;
}
inline constexpr std::size_t wide_row = 256;  // narrower rows go together

// z[b][.] <- exp(z[b][.] - top[b]) with top[b] the largest of the row, sum[b] what they add up to; with `scale`, times
// scale[b] / sum[b].
template <class R, std::size_t Bytes>
TESSERA_INLINE void softmax_rows_body(R* z, std::size_t batch, std::size_t classes, R* top, R* sum, const R* scale) {
    if constexpr (std::is_same_v<R, float>)
        if (classes >= wide_row) {
            for (std::size_t b = 0; b < batch; ++b)
                softmax_wide_row<Bytes>(z + b * classes, classes, top + b, sum + b, scale ? scale + b : nullptr);
            return;
        }
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
