// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of any kernel, stride 1 or 2 and a margin below the kernel, with channels innermost
// (kernels/conv_blocks.hpp): forward, input gradient, weight gradient. A thread with a crew hands out images, or pieces
// of the weights. Sums have one order per shape: an image's numbers do not depend on the batch, nor any on the crew.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/core/arena.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/kernels/conv.hpp>
#include <tessera/kernels/conv_blocks.hpp>
#include <tessera/kernels/conv_winograd.hpp>
#include <tessera/kernels/pool.hpp>

namespace tessera::kernels {

// Whether blocks take less time than columns, by shape alone: whole chunks of channels and outputs.
template <class R>
constexpr bool blocks_pay(const ConvShape& s, std::size_t out) {
    return sizeof(R) == 4 && s.stride <= 2 && s.pad < s.kernel && s.channels % pixel_chunk == 0 &&
           out % pixel_chunk == 0 && s.channels > 0 && out > 0;
}

namespace detail {

struct BlockedSizes {
    std::size_t panel = WinogradSizes{}.panel;

    static std::size_t chunks(std::size_t channels) { return (channels + pixel_chunk - 1) / pixel_chunk; }
    std::size_t panels(std::size_t out) const { return (out + panel - 1) / panel; }
    std::size_t weights(std::size_t taps) const { return taps * pixel_chunk * panel; }  // of a chunk and a panel
};

// The outputs of one residue of places modulo the stride, which read every `step`-th tap: all of them forward and in
// gradients of stride 1.
struct Residue {
    TapGrid grid{};
    BlockedRun run{};
    std::size_t pixel = 0, sum = 0;  // numbers before the first

    std::size_t taps() const { return grid.down * grid.across; }
};

// y = x * w for all images of a batch, or, turned, its input gradient, whose `channels` are those of dy. Every residue
// writes its own places.
template <std::size_t N>
void blocked_conv(const float* x, const float* w, const float* bias, float* y, std::size_t batch, std::size_t channels,
                  std::size_t height, std::size_t width, const PixelFrame& frame, const Residue (&residues)[N],
                  std::size_t count, std::size_t out, std::size_t pixels, bool turned) {
    const BlockedSizes size;
    const std::size_t chunks = size.chunks(channels), panels = size.panels(out);
    std::size_t taps = 0;
    for (std::size_t i = 0; i < count; ++i) taps += residues[i].taps();
    const Scratch<float> weights(panels * chunks * size.weights(taps));
    // f(residue, its weights for a panel and a chunk)
    const auto each = [&](std::size_t panel, std::size_t chunk, const auto& f) {
        float* at = weights.data() + (panel * chunks + chunk) * size.weights(taps);
        for (std::size_t i = 0; i < count; ++i) {
            if (residues[i].taps() > 0) f(residues[i], at);
            at += size.weights(residues[i].taps());
        }
    };
    const auto share = [&](std::size_t pieces, const auto& work) {
        by_crew(batch * pixels * channels * out, pieces, work);
    };
    share(panels, [&](std::size_t panel) {
        for (std::size_t c = 0; c < chunks; ++c)
            each(panel, c, [&](const Residue& r, float* to) {
                blocked_weights(w, to, channels, out, panel * size.panel, c * pixel_chunk, r.grid, turned);
            });
    });
    share(batch, [&](std::size_t image) {
        const Scratch<float> in(frame.numbers(channels)), sums(pixels * size.panel);
        to_pixels(x + image * channels * height * width, in.data(), channels, height, width, frame);
        for (std::size_t panel = 0; panel < panels; ++panel) {
            const std::size_t o = panel * size.panel;
            std::fill_n(sums.data(), sums.size(), 0.0f);
            for (std::size_t c = 0; c < chunks; ++c)
                each(panel, c, [&](const Residue& r, const float* own) {
                    blocked_products(in.data() + c * frame.chunk() + r.pixel, own, sums.data() + r.sum, r.run);
                });
            from_panel(sums.data(), bias ? bias + o : nullptr, y + (image * out + o) * pixels,
                       std::min(size.panel, out - o), pixels);
        }
    });
}

}  // namespace detail

// What kernels/conv.hpp says of its namesakes. A null bias is none.
inline void blocked_conv(const float* x, const float* w, const float* bias, float* y, std::size_t batch,
                         const ConvShape& s, std::size_t out) {
    const PixelFrame frame{s.height + 2 * s.pad, s.width + 2 * s.pad, s.pad, s.pad};
    const std::size_t row = frame.columns * pixel_chunk, panel = detail::BlockedSizes{}.panel;
    const detail::Residue all[]{{.grid = {s.kernel, 0, 0, 1, s.kernel, s.kernel},
                                 .run = {.rows = s.rows(),
                                         .columns = s.columns(),
                                         .in_row = s.stride * row,
                                         .in_column = s.stride * pixel_chunk,
                                         .out_row = s.columns() * panel,
                                         .out_column = panel,
                                         .taps_down = s.kernel,
                                         .taps = s.kernel * pixel_chunk,
                                         .tap_row = row,
                                         .met = 0,
                                         .step = s.stride,
                                         .inside = s.pad,
                                         .outside = s.pad + s.height}}};
    detail::blocked_conv(x, w, bias, y, batch, s.channels, s.height, s.width, frame, all, 1, out, s.pixels(), false);
}
// Place y of dx is met by tap i at number (y + pad - i) / stride of dy, where that is whole: places of one residue have
// the same taps.
inline void blocked_input_gradient(const float* dy, const float* w, float* dx, std::size_t batch, const ConvShape& s,
                                   std::size_t out) {
    const std::size_t margin = (s.kernel + s.stride - 1) / s.stride - 1, panel = detail::BlockedSizes{}.panel;
    const auto framed = [&](std::size_t places, std::size_t slopes) {
        return margin + std::max((places - 1 + s.pad) / s.stride + 1, slopes);
    };
    const PixelFrame frame{framed(s.height, s.rows()), framed(s.width, s.columns()), margin, margin};
    const std::size_t row = frame.columns * pixel_chunk;
    const auto taps = [&](std::size_t a) { return a < s.kernel ? (s.kernel - a + s.stride - 1) / s.stride : 0; };
    const auto first = [&](std::size_t a) { return (a + s.stride * s.pad - s.pad) % s.stride; };  // place of residue a
    const auto met = [&](std::size_t a) { return (first(a) + s.pad - a) / s.stride + margin + 1 - taps(a); };
    const auto count = [&](std::size_t a, std::size_t places) {
        return first(a) < places ? (places - first(a) + s.stride - 1) / s.stride : 0;
    };
    // Of rows of residue a: `columns` places from `place` on, that meet pixels from `pixel` on with `across` taps.
    const auto residue = [&](std::size_t a, std::size_t tap, std::size_t across, std::size_t columns, std::size_t pixel,
                             std::size_t place) {
        return detail::Residue{.grid = {s.kernel, a, tap, s.stride, taps(a), across},
                               .run = {.rows = count(a, s.height),
                                       .columns = columns,
                                       .in_row = row,
                                       .in_column = pixel_chunk,
                                       .out_row = s.stride * s.width * panel,
                                       .out_column = s.stride * panel,
                                       .taps_down = taps(a),
                                       .taps = across * pixel_chunk,
                                       .tap_row = row,
                                       .met = met(a),
                                       .step = 1,
                                       .inside = margin,
                                       .outside = margin + s.rows()},
                               .pixel = met(a) * row + pixel * pixel_chunk,
                               .sum = (first(a) * s.width + place) * panel};
    };
    // Rows of places read the zeros beside rows of dy, too. Where those are many, as with 14 columns from 10, each
    // column of taps goes by itself over the places that it meets, though sums are loaded and stored more often.
    constexpr std::size_t most = 16;
    const bool by_taps = 5 * (s.width + s.stride - 1) / s.stride > 6 * s.columns() && s.stride * s.kernel <= most;
    detail::Residue residues[most];
    std::size_t number = 0;
    for (std::size_t a = 0; a < s.stride; ++a) {
        for (std::size_t b = 0; !by_taps && b < s.stride; ++b)
            residues[number++] = residue(a, b, taps(b), count(b, s.width), met(b), first(b));
        for (std::size_t j = 0; by_taps && j < s.kernel; ++j) {
            const std::size_t skipped = j < s.pad ? (s.pad - j + s.stride - 1) / s.stride : 0;
            const std::size_t end = s.width + s.pad > j ? (s.width + s.pad - j - 1) / s.stride + 1 : 0;
            const std::size_t columns = std::min(s.columns(), std::max(end, skipped)) - skipped;
            residues[number++] = residue(a, j, 1, columns, margin + skipped, skipped * s.stride + j - s.pad);
        }
    }
    detail::blocked_conv(dy, w, nullptr, dx, batch, out, s.rows(), s.columns(), frame, residues, number, s.channels,
                         s.height * s.width, true);
}
// dbias null: not wanted
inline void blocked_weight_gradient(const float* dy, const float* x, float* dw, float* dbias, std::size_t batch,
                                    const ConvShape& s, std::size_t out) {
    const detail::BlockedSizes size;
    const PixelFrame in{s.height + 2 * s.pad, s.width + 2 * s.pad, s.pad, s.pad}, slopes{s.rows(), s.columns(), 0, 0};
    const std::size_t chunks = size.chunks(s.channels), panels = size.panels(out), taps = s.kernel * s.kernel;
    const std::size_t each_x = in.numbers(s.channels), each_dy = slopes.numbers(out);
    // So many images that they stay in L2 or beside it; the sums of all weights go by once for each such block.
    constexpr std::size_t room = std::size_t{1} << 18;
    const std::size_t block = std::min(std::max<std::size_t>(1, room / (each_x + each_dy)), batch);
    const Scratch<float> images(block * each_x), gradients(block * each_dy);
    const Scratch<float> sums(panels * chunks * size.weights(taps));
    std::fill_n(sums.data(), batch > 0 ? 0 : sums.size(), 0.0f);
    const auto share = [&](std::size_t pieces, const auto& work) {
        detail::by_crew(batch * s.pixels() * s.taps() * out, pieces, work);
    };
    for (std::size_t begin = 0; begin < batch; begin += block) {
        const std::size_t n = std::min(block, batch - begin);
        share(n, [&](std::size_t b) {
            to_pixels(x + (begin + b) * s.image(), images.data() + b * each_x, s.channels, s.height, s.width, in);
            to_pixels(dy + (begin + b) * out * s.pixels(), gradients.data() + b * each_dy, out, s.rows(), s.columns(),
                      slopes);
        });
        share(panels * chunks, [&](std::size_t piece) {
            const std::size_t o = piece / chunks * size.panel, c = piece % chunks;
            const float* from = gradients.data() + o / pixel_chunk * slopes.chunk() + o % pixel_chunk;
            for (std::size_t tap = 0; tap < taps; ++tap)
                blocked_outer(
                    images.data() + c * in.chunk() + (tap / s.kernel * in.columns + tap % s.kernel) * pixel_chunk, from,
                    sums.data() + piece * size.weights(taps) + tap * size.weights(1),
                    std::min(pixel_chunk, s.channels - c * pixel_chunk),
                    {.images = n,
                     .rows = s.rows(),
                     .columns = s.columns(),
                     .x_image = each_x,
                     .x_row = s.stride * in.columns * pixel_chunk,
                     .x_column = s.stride * pixel_chunk,
                     .dy_image = each_dy,
                     .dy_row = s.columns() * pixel_chunk},
                    begin > 0);
        });
    }
    for (std::size_t o = 0; o < out; ++o)
        for (std::size_t c = 0; c < s.channels; ++c) {
            const float* from = sums.data() + (o / size.panel * chunks + c / pixel_chunk) * size.weights(taps) +
                                c % pixel_chunk * size.panel + o % size.panel;
            for (std::size_t tap = 0; tap < taps; ++tap) *dw++ = from[tap * size.weights(1)];
        }
    if (dbias) detail::bias_gradient_of_planes(dy, dbias, batch, out, s.pixels());
}

}  // namespace tessera::kernels
