// SPDX-License-Identifier: BSD-3-Clause
// Pooling of planes: the largest number of each window of kernel x kernel, where windows do not overlap and rows and
// columns left over are not seen, by rows and in blocks of examples (kernels/sparse_blocks.hpp); and sums of whole
// planes.
#pragma once

#include <cstddef>
#include <utility>

#include <tessera/kernels/lane_sums.hpp>
#include <tessera/kernels/sparse_blocks.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

// Numbers of even and of odd places of two registers that lie side by side, and back.
template <class R, std::size_t Bytes, std::size_t... Lane>
TESSERA_INLINE void part_pairs(const R* x, Held<R, Bytes>& even, Held<R, Bytes>& odd, std::index_sequence<Lane...>) {
    const Held<R, Bytes> a = *reinterpret_cast<const V<R, Bytes>*>(x);
    const Held<R, Bytes> b = *reinterpret_cast<const V<R, Bytes>*>(x + sizeof...(Lane));
    even = __builtin_shufflevector(a, b, (2 * Lane)...);
    odd = __builtin_shufflevector(a, b, (2 * Lane + 1)...);
}
template <class R, std::size_t Bytes, std::size_t... Lane>
TESSERA_INLINE void join_pairs(const Held<R, Bytes>& even, const Held<R, Bytes>& odd, R* x,
                               std::index_sequence<Lane...> all) {
    Held<R, Bytes> out[2];
    interleave<R, Bytes>(even, odd, out, all);
    *reinterpret_cast<V<R, Bytes>*>(x) = out[0];
    *reinterpret_cast<V<R, Bytes>*>(x + sizeof...(Lane)) = out[1];
}

// The larger number, and NaN above all. Of two choices in a row, or two conditions joined by ||, GCC 12 makes 32
// comparisons of single numbers for a register of AVX-512, unless it forgets what the first one was (`unfused`).
template <class R, std::size_t Bytes>
TESSERA_INLINE void keep_top(const Held<R, Bytes>& here, Held<R, Bytes>& top) {
    const Held<R, Bytes> number = here;
    Held<R, Bytes> larger = top;
    larger = number > larger ? number : larger;
    unfused(larger);
    top = number != number ? number : larger;
}
// The slope of a number: what is left of the window's where it is the largest or NaN, and nothing is left for others.
template <class R, std::size_t Bytes>
TESSERA_INLINE void take_slope(const Held<R, Bytes>& here, const Held<R, Bytes>& top, Held<R, Bytes>& left,
                               Held<R, Bytes>& slope) {
    const Held<R, Bytes> none = {}, all = left, number = here;
    Held<R, Bytes> mine = number == top ? all : none, others = number == top ? none : all;
    unfused(mine);
    unfused(others);
    slope = number != number ? all : mine;
    left = number != number ? none : others;
}

// f(j) for registers of windows from column j on; what is left goes with the last register once more, if there is one.
template <std::size_t Lanes, class F>
TESSERA_INLINE void by_windows(std::size_t columns, std::size_t& j, const F& f) {
    for (; j + Lanes <= columns; j += Lanes) f(j);
    if (j == columns || columns < Lanes) return;
    f(columns - Lanes);
    j = columns;
}

// One row of windows, `kernel` rows of a plane high. A NaN is larger than all, the slope goes to the first of the
// largest. Windows of two go by registers.
template <class R, std::size_t Bytes>
TESSERA_INLINE void pool_pairs(const R* x, std::size_t width, R* y, std::size_t columns, std::size_t& j) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    constexpr auto all = std::make_index_sequence<lanes>{};
    by_windows<lanes>(
        columns, j, [&](std::size_t i) __attribute__((always_inline)) {
            Held<R, Bytes> at[4];
            part_pairs<R, Bytes>(x + 2 * i, at[0], at[1], all);
            part_pairs<R, Bytes>(x + width + 2 * i, at[2], at[3], all);
#pragma GCC unroll 3
            for (std::size_t t = 1; t < 4; ++t) keep_top<R, Bytes>(at[t], at[0]);
            *reinterpret_cast<V<R, Bytes>*>(y + i) = at[0];
        });
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void pool_row(const R* x, std::size_t width, R* y, std::size_t columns, std::size_t kernel) {
    std::size_t j = 0;
    if (kernel == 2)
        by_registers<Bytes>([&]<std::size_t Wide>()
                                __attribute__((always_inline)) { pool_pairs<R, Wide>(x, width, y, columns, j); });
    for (; j < columns; ++j) {
        R top = x[j * kernel];
        for (std::size_t t = 1; t < kernel * kernel; ++t) {
            const R here = x[t / kernel * width + j * kernel + t % kernel];
            top = here > top || here != here ? here : top;
        }
        y[j] = top;
    }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void pool_pairs_gradient(const R* x, std::size_t width, const R* y, const R* dy, R* dx,
                                        std::size_t columns, std::size_t& j) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    constexpr auto all = std::make_index_sequence<lanes>{};
    by_windows<lanes>(
        columns, j, [&](std::size_t i) __attribute__((always_inline)) {
            const Held<R, Bytes> top = *reinterpret_cast<const V<R, Bytes>*>(y + i);
            Held<R, Bytes> at[4], left = *reinterpret_cast<const V<R, Bytes>*>(dy + i);
            part_pairs<R, Bytes>(x + 2 * i, at[0], at[1], all);
            part_pairs<R, Bytes>(x + width + 2 * i, at[2], at[3], all);
#pragma GCC unroll 4
            for (std::size_t t = 0; t < 4; ++t) {
                Held<R, Bytes> slope;
                take_slope<R, Bytes>(at[t], top, left, slope);
                at[t] = slope;
            }
            join_pairs<R, Bytes>(at[0], at[1], dx + 2 * i, all);
            join_pairs<R, Bytes>(at[2], at[3], dx + width + 2 * i, all);
        });
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void pool_row_gradient(const R* x, std::size_t width, const R* y, const R* dy, R* dx,
                                      std::size_t columns, std::size_t kernel) {
    std::size_t j = 0;
    if (kernel == 2)
        by_registers<Bytes>([&]<std::size_t Wide>() __attribute__((always_inline)) {
            pool_pairs_gradient<R, Wide>(x, width, y, dy, dx, columns, j);
        });
    for (; j < columns; ++j) {
        R left = dy[j];
        for (std::size_t t = 0; t < kernel * kernel; ++t) {
            const std::size_t at = t / kernel * width + j * kernel + t % kernel;
            const bool mine = x[at] == y[j] || x[at] != x[at];
            dx[at] = mine ? left : R(0);
            if (mine) left = 0;
        }
    }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void max_pool_body(const R* x, R* y, std::size_t planes, std::size_t height, std::size_t width,
                                  std::size_t kernel) {
    const std::size_t rows = height / kernel, columns = width / kernel;
    for (std::size_t p = 0; p < planes; ++p)
        for (std::size_t r = 0; r < rows; ++r)
            pool_row<R, Bytes>(x + (p * height + r * kernel) * width, width, y + (p * rows + r) * columns, columns,
                               kernel);
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void max_pool_gradient_body(const R* x, const R* y, const R* dy, R* dx, std::size_t planes,
                                           std::size_t height, std::size_t width, std::size_t kernel) {
    const std::size_t rows = height / kernel, columns = width / kernel;
    if (rows * kernel < height || columns * kernel < width)  // a margin that no window sees
        for (std::size_t i = 0; i < planes * height * width; ++i) dx[i] = 0;
    for (std::size_t p = 0; p < planes; ++p)
        for (std::size_t r = 0; r < rows; ++r) {
            const std::size_t in = (p * height + r * kernel) * width, out = (p * rows + r) * columns;
            pool_row_gradient<R, Bytes>(x + in, width, y + out, dy + out, dx + in, columns, kernel);
        }
}

// The same in blocks: every number of a plane is that of `wide` examples, side by side.
template <class R, std::size_t Bytes, class F>
TESSERA_INLINE void each_blocked_window(std::size_t planes, std::size_t height, std::size_t width, std::size_t kernel,
                                        std::size_t examples, const F& f) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    const std::size_t rows = height / kernel, columns = width / kernel;
    for (std::size_t begin = 0, wide = 0; begin < examples; begin += wide) {
        wide = block_width<R, Bytes>(examples - begin);
        std::size_t top = begin * planes * rows * columns;
        for (std::size_t p = 0; p < planes; ++p)
            for (std::size_t r = 0; r < rows; ++r)
                for (std::size_t c = 0; c < columns; ++c, top += wide) {
                    const std::size_t corner = (p * height + r * kernel) * width + c * kernel;
                    for (std::size_t l = 0; l < wide; l += lanes)
                        f(begin * planes * height * width + corner * wide + l, top + l, wide);
                }
    }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void blocked_max_pool_body(const R* x, R* y, std::size_t planes, std::size_t height, std::size_t width,
                                          std::size_t kernel, std::size_t examples) {
    using Vec = V<R, Bytes>;
    each_blocked_window<R, Bytes>(
        planes, height, width, kernel,
        examples, [&](std::size_t corner, std::size_t to, std::size_t wide) __attribute__((always_inline)) {
            Held<R, Bytes> top = *reinterpret_cast<const Vec*>(x + corner);
            for (std::size_t i = 0; i < kernel; ++i)
                for (std::size_t j = 0; j < kernel; ++j) {
                    const Held<R, Bytes> here = *reinterpret_cast<const Vec*>(x + corner + (i * width + j) * wide);
                    keep_top<R, Bytes>(here, top);
                }
            *reinterpret_cast<Vec*>(y + to) = top;
        });
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void blocked_max_pool_gradient_body(const R* x, const R* y, const R* dy, R* dx, std::size_t planes,
                                                   std::size_t height, std::size_t width, std::size_t kernel,
                                                   std::size_t examples) {
    using Vec = V<R, Bytes>;
    if (height % kernel != 0 || width % kernel != 0)  // a margin that no window sees
        for (std::size_t i = 0; i < planes * height * width * examples; ++i) dx[i] = 0;
    each_blocked_window<R, Bytes>(
        planes, height, width, kernel,
        examples, [&](std::size_t corner, std::size_t from, std::size_t wide) __attribute__((always_inline)) {
            const Held<R, Bytes> top = *reinterpret_cast<const Vec*>(y + from);
            Held<R, Bytes> left = *reinterpret_cast<const Vec*>(dy + from);
            for (std::size_t i = 0; i < kernel; ++i)
                for (std::size_t j = 0; j < kernel; ++j) {
                    const std::size_t at = corner + (i * width + j) * wide;
                    const Held<R, Bytes> here = *reinterpret_cast<const Vec*>(x + at);
                    Held<R, Bytes> slope;
                    take_slope<R, Bytes>(here, top, left, slope);
                    *reinterpret_cast<Vec*>(dx + at) = slope;
                }
        });
}

// sums[i] = factor times the sum of plane i. As many planes at once as a register has lanes; each adds up in two
// registers, whatever its place among them, and what is left over goes number by number.
template <class R, std::size_t Bytes>
TESSERA_INLINE void plane_sums_body(const R* x, R* sums, std::size_t planes, std::size_t size, R factor) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    for (std::size_t first = 0; first < planes; first += lanes) {
        const std::size_t count = planes - first < lanes ? planes - first : lanes;
        Held<R, Bytes> sum[lanes];
        R rest[lanes];
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes; ++i) {
            const R* plane = x + (first + (i < count ? i : 0)) * size;
            Held<R, Bytes> a = {}, b = {};
            std::size_t j = 0;
            for (; j + 2 * lanes <= size; j += 2 * lanes) {
                a += *reinterpret_cast<const Vec*>(plane + j);
                b += *reinterpret_cast<const Vec*>(plane + j + lanes);
            }
            if (j + lanes <= size) {
                a += *reinterpret_cast<const Vec*>(plane + j);
                j += lanes;
            }
            sum[i] = a + b;
            rest[i] = 0;
            for (; j < size; ++j) rest[i] += plane[j];
        }
        blend_lanes<R, Bytes, lanes>(sum);
        sum[0] = (sum[0] + *reinterpret_cast<const Vec*>(rest)) * factor;
        if (count == lanes) *reinterpret_cast<Vec*>(sums + first) = sum[0];
        else
            for (std::size_t i = 0; i < count; ++i) sums[first + i] = sum[0][i];
    }
}
// All of plane i becomes factor * values[i].
template <class R, std::size_t Bytes>
TESSERA_INLINE void fill_planes_body(const R* values, R* x, std::size_t planes, std::size_t size, R factor) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    for (std::size_t i = 0; i < planes; ++i, x += size) {
        const R value = values[i] * factor;
        std::size_t j = 0;
        for (; j + lanes <= size; j += lanes) *reinterpret_cast<Vec*>(x + j) = Held<R, Bytes>{} + value;
        for (; j < size; ++j) x[j] = value;
    }
}

}  // namespace detail

#define TESSERA_POOL_KERNELS(R)                                                                                        \
    TESSERA_DISPATCH(                                                                                                  \
        max_pool, R,                                                                                                   \
        (const R* x, R* y, std::size_t planes, std::size_t height, std::size_t width, std::size_t kernel),             \
        (x, y, planes, height, width, kernel))                                                                         \
    TESSERA_DISPATCH(max_pool_gradient, R,                                                                             \
                     (const R* x, const R* y, const R* dy, R* dx, std::size_t planes, std::size_t height,              \
                      std::size_t width, std::size_t kernel),                                                          \
                     (x, y, dy, dx, planes, height, width, kernel))                                                    \
    TESSERA_DISPATCH(blocked_max_pool, R,                                                                              \
                     (const R* x, R* y, std::size_t planes, std::size_t height, std::size_t width, std::size_t kernel, \
                      std::size_t examples),                                                                           \
                     (x, y, planes, height, width, kernel, examples))                                                  \
    TESSERA_DISPATCH(blocked_max_pool_gradient, R,                                                                     \
                     (const R* x, const R* y, const R* dy, R* dx, std::size_t planes, std::size_t height,              \
                      std::size_t width, std::size_t kernel, std::size_t examples),                                    \
                     (x, y, dy, dx, planes, height, width, kernel, examples))                                          \
    TESSERA_DISPATCH(plane_sums, R, (const R* x, R* sums, std::size_t planes, std::size_t size, R factor),             \
                     (x, sums, planes, size, factor))                                                                  \
    TESSERA_DISPATCH(fill_planes, R, (const R* values, R* x, std::size_t planes, std::size_t size, R factor),          \
                     (values, x, planes, size, factor))
TESSERA_POOL_KERNELS(float)
TESSERA_POOL_KERNELS(double)
#undef TESSERA_POOL_KERNELS

}  // namespace tessera::kernels
