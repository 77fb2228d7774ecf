// SPDX-License-Identifier: BSD-3-Clause
// Convolution and pooling as plain loops: the specification, and the oracle of the kernel test. Shape is
// kernels/conv.hpp's.
#pragma once

#include <cstddef>

namespace tessera::kernels::reference {

// f(place in y of one channel, place in the image) where this tap does not meet the margin
template <class Shape, class F>
void each_place(const Shape& s, std::size_t tap, const F& f) {
    const std::size_t square = s.kernel * s.kernel, c = tap / square, i = tap % square / s.kernel, j = tap % s.kernel;
    for (std::size_t p = 0; p < s.pixels(); ++p) {
        const std::size_t row = p / s.columns() * s.stride + i, column = p % s.columns() * s.stride + j;
        if (row < s.pad || row >= s.height + s.pad || column < s.pad || column >= s.width + s.pad) continue;
        f(p, (c * s.height + row - s.pad) * s.width + column - s.pad);
    }
}
// f(place in y of one channel, tap, place in the image) for every tap that does not meet the margin
template <class Shape, class F>
void each_tap(const Shape& s, const F& f) {
    for (std::size_t tap = 0; tap < s.taps(); ++tap)
        each_place(s, tap, [&](std::size_t p, std::size_t at) { f(p, tap, at); });
}

template <class R, class Shape>
void conv(const R* x, const R* w, const R* bias, R* y, std::size_t batch, const Shape& s, std::size_t out) {
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t o = 0; o < out; ++o) {
            R* plane = y + (b * out + o) * s.pixels();
            for (std::size_t p = 0; p < s.pixels(); ++p) plane[p] = bias[o];
            each_tap(s, [&](std::size_t p, std::size_t tap, std::size_t at) {
                plane[p] += w[o * s.taps() + tap] * x[b * s.image() + at];
            });
        }
}
// dw is followed by the gradient of the biases.
template <class R, class Shape>
void conv_weight_gradient(const R* dy, const R* x, R* dw, std::size_t batch, const Shape& s, std::size_t out) {
    R* dbias = dw + out * s.taps();
    for (std::size_t i = 0; i < out * s.taps() + out; ++i) dw[i] = 0;
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t o = 0; o < out; ++o) {
            const R* plane = dy + (b * out + o) * s.pixels();
            for (std::size_t p = 0; p < s.pixels(); ++p) dbias[o] += plane[p];
            each_tap(s, [&](std::size_t p, std::size_t tap, std::size_t at) {
                dw[o * s.taps() + tap] += plane[p] * x[b * s.image() + at];
            });
        }
}
template <class R, class Shape>
void conv_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, const Shape& s, std::size_t out) {
    for (std::size_t i = 0; i < batch * s.image(); ++i) dx[i] = 0;
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t o = 0; o < out; ++o)
            each_tap(s, [&](std::size_t p, std::size_t tap, std::size_t at) {
                dx[b * s.image() + at] += w[o * s.taps() + tap] * dy[(b * out + o) * s.pixels() + p];
            });
}

// Where the largest number of a window stands, the first of them; a NaN is larger than all.
template <class R>
std::size_t top_of_window(const R* x, std::size_t corner, std::size_t width, std::size_t kernel) {
    std::size_t top = corner;
    for (std::size_t t = 0; t < kernel * kernel; ++t) {
        const std::size_t at = corner + t / kernel * width + t % kernel;
        if (x[top] == x[top] && (x[at] > x[top] || x[at] != x[at])) top = at;
    }
    return top;
}
template <class R>
void max_pool(const R* x, R* y, std::size_t planes, std::size_t height, std::size_t width, std::size_t kernel) {
    for (std::size_t p = 0; p < planes; ++p)
        for (std::size_t r = 0; r < height / kernel; ++r)
            for (std::size_t c = 0; c < width / kernel; ++c)
                *y++ = x[top_of_window(x, (p * height + r * kernel) * width + c * kernel, width, kernel)];
}
template <class R>
void max_pool_gradient(const R* x, const R* dy, R* dx, std::size_t planes, std::size_t height, std::size_t width,
                       std::size_t kernel) {
    for (std::size_t i = 0; i < planes * height * width; ++i) dx[i] = 0;
    for (std::size_t p = 0; p < planes; ++p)
        for (std::size_t r = 0; r < height / kernel; ++r)
            for (std::size_t c = 0; c < width / kernel; ++c)
                dx[top_of_window(x, (p * height + r * kernel) * width + c * kernel, width, kernel)] = *dy++;
}

}  // namespace tessera::kernels::reference
