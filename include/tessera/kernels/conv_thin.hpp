// SPDX-License-Identifier: BSD-3-Clause
// The first convolution of a network, over pictures of one or three channels: forward and weight gradient with channels
// innermost (kernels/conv_blocks.hpp), [row][column][channel], stride 1. What a row of the kernel meets lies in one
// piece. Sums have one order per shape, whatever the batch and the crew.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/conv_blocked.hpp>

namespace tessera::kernels {

// By shape alone. Outputs in whole chunks: a part of one costs as much as all of it.
template <class R>
constexpr bool thin_pays(const ConvShape& s, std::size_t out) {
    return sizeof(R) == 4 && s.stride == 1 && s.pad < s.kernel && (s.channels == 1 || s.channels == 3) && out > 0 &&
           out % pixel_chunk == 0;
}

namespace detail {

// A picture with its margin of zeros, and as many numbers behind it as a register has.
class ThinPicture {
public:
    explicit ThinPicture(const ConvShape& s) : s_(s.padded()), pad_(s.pad), numbers_((s_.image() + matrix_slack)) {
        std::fill_n(numbers_.data(), numbers_.size(), 0.0f);
    }
    const float* take(const float* image) const {
        const std::size_t height = s_.height - 2 * pad_, width = s_.width - 2 * pad_;
        for (std::size_t c = 0; c < s_.channels; ++c)
            for (std::size_t r = 0; r < height; ++r, image += width) {
                float* to = numbers_.data() + (r + pad_) * row() + pad_ * s_.channels + c;
                for (std::size_t q = 0; q < width; ++q) to[q * s_.channels] = image[q];
            }
        return numbers_.data();
    }
    std::size_t row() const { return s_.width * s_.channels; }

private:
    ConvShape s_;
    std::size_t pad_;
    Scratch<float> numbers_;
};

}  // namespace detail

// What kernels/conv.hpp says of its namesakes. A null bias is none.
inline void thin_conv(const float* x, const float* w, const float* bias, float* y, std::size_t batch,
                      const ConvShape& s, std::size_t out) {
    const std::size_t panel = detail::BlockedSizes{}.panel, panels = (out + panel - 1) / panel;
    const std::size_t taps = s.kernel * s.channels, square = s.kernel * s.kernel;
    const Scratch<float> weights(panels * s.kernel * taps * panel);
    float* to = weights.data();
    for (std::size_t first = 0; first < out; first += panel)
        for (std::size_t t = 0; t < s.taps(); ++t)  // (row, column, channel) of a tap
            for (std::size_t o = first; o < first + panel; ++o)
                *to++ = o < out ? w[(o * s.channels + t % s.channels) * square + t / s.channels] : 0.0f;
    detail::by_crew(batch * out * s.taps() * s.pixels(), batch, [&](std::size_t b) {
        const detail::ThinPicture picture(s);
        const Scratch<float> sums(s.pixels() * panel);
        const float* pixels = picture.take(x + b * s.image());
        for (std::size_t p = 0; p < panels; ++p) {
            thin_products(pixels, weights.data() + p * s.kernel * taps * panel, sums.data(), s.channels, s.kernel,
                          s.rows(), s.columns(), picture.row());
            from_panel(sums.data(), bias ? bias + p * panel : nullptr, y + (b * out + p * panel) * s.pixels(),
                       std::min(panel, out - p * panel), s.pixels());
        }
    });
}
// dbias null: not wanted
inline void thin_weight_gradient(const float* dy, const float* x, float* dw, float* dbias, std::size_t batch,
                                 const ConvShape& s, std::size_t out) {
    const std::size_t panel = detail::BlockedSizes{}.panel, panels = (out + panel - 1) / panel;
    const std::size_t taps = s.kernel * s.channels, square = s.kernel * s.kernel;
    const PixelFrame slopes{s.rows(), s.columns(), 0, 0};
    const detail::ThinPicture picture(s);
    const Scratch<float> gradients(slopes.numbers(out)), sums(panels * s.kernel * taps * panel);
    std::fill_n(sums.data(), sums.size(), 0.0f);
    for (std::size_t b = 0; b < batch; ++b) {
        const float* pixels = picture.take(x + b * s.image());
        to_pixels(dy + b * out * s.pixels(), gradients.data(), out, s.rows(), s.columns(), slopes);
        detail::by_crew(out * s.taps() * s.pixels(), panels, [&](std::size_t p) {
            const std::size_t o = p * panel;
            for (std::size_t i = 0; i < s.kernel; ++i)
                blocked_outer(pixels + i * picture.row(),
                              gradients.data() + o / pixel_chunk * slopes.chunk() + o % pixel_chunk,
                              sums.data() + (p * s.kernel + i) * taps * panel, taps,
                              {.images = 1,
                               .rows = s.rows(),
                               .columns = s.columns(),
                               .x_image = 0,
                               .x_row = picture.row(),
                               .x_column = s.channels,
                               .dy_image = 0,
                               .dy_row = s.columns() * pixel_chunk},
                              true);
        });
    }
    for (std::size_t o = 0; o < out; ++o)
        for (std::size_t c = 0; c < s.channels; ++c)
            for (std::size_t t = 0; t < square; ++t)
                *dw++ = sums[((o / panel * square + t) * s.channels + c) * panel + o % panel];
    if (dbias) detail::bias_gradient_of_planes(dy, dbias, batch, out, s.pixels());
}

}  // namespace tessera::kernels
