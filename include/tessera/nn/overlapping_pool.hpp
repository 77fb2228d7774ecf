// SPDX-License-Identifier: BSD-3-Clause
// The largest number of windows that overlap, as behind ImageNet's first convolution. MaxPool2d, whose windows stand
// side by side, is in conv.hpp.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/nn/layer.hpp>

namespace tessera::nn {

// Windows of kernel x kernel stand `stride` apart and hang over the margin by `pad`, of which nothing is seen; rows and
// columns left over are not seen either. The slope goes to the first of the largest; a NaN is larger than all.
struct OverlappingMaxPool2d {
    std::size_t kernel = 3, stride = 2;
    std::size_t pad = 1;  // at most half a kernel, or a window would see nothing

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const auto [channels, height, width] = s.in[0].sizes;
        if (!s.expect(
                s.in[0].rank == 3,
                "nn::OverlappingMaxPool2d: it reads planes; say the shape of the input as channels, height, width") ||
            !s.expect(stride > 0, "nn::OverlappingMaxPool2d: windows stand at least 1 apart") ||
            !s.expect(2 * pad <= kernel, "nn::OverlappingMaxPool2d: the margin is at most half a window") ||
            !s.expect(kernel > 0 && kernel <= height + 2 * pad && kernel <= width + 2 * pad,
                      "nn::OverlappingMaxPool2d: a window is at least 1 and at most a plane"))
            return;
        s.out = Shape(channels, windows(height), windows(width));
        s.backward_reads = Reads::x;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        R* y = p.y;
        each_top(p, [&](std::size_t top) { *y++ = p.x()[top]; });
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (!p.dx()) return;
        std::fill_n(p.dx(), p.read(), R(0));
        const R* dy = p.dy;
        each_top(p, [&](std::size_t top) { p.dx()[top] += *dy++; });
    }

private:
    struct Span {
        std::size_t begin, end;
    };
    constexpr std::size_t windows(std::size_t size) const { return (size + 2 * pad - kernel) / stride + 1; }
    constexpr Span inside(std::size_t window, std::size_t size) const {
        const std::size_t begin = window * stride;
        return {begin > pad ? begin - pad : 0, std::min(size, begin + kernel - pad)};
    }
    // f(where the largest number stands), window by window
    template <class R, class F>
    void each_top(const Pass<R>& p, const F& f) const {
        const auto [channels, height, width] = p.in().sizes;
        const R* x = p.x();
        for (std::size_t plane = 0; plane < p.batch * channels; ++plane)
            for (std::size_t r = 0; r < windows(height); ++r)
                for (std::size_t c = 0; c < windows(width); ++c) {
                    const Span down = inside(r, height), across = inside(c, width);
                    std::size_t top = (plane * height + down.begin) * width + across.begin;
                    for (std::size_t i = down.begin; i < down.end; ++i)
                        for (std::size_t j = across.begin; j < across.end; ++j) {
                            const std::size_t at = (plane * height + i) * width + j;
                            if (x[top] == x[top] && (x[at] > x[top] || x[at] != x[at])) top = at;
                        }
                    f(top);
                }
    }
};

}  // namespace tessera::nn
