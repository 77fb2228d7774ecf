// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of 3 x 3, stride 1 and margin 1, in Winograd's tiles (kernels/winograd.hpp): forward, input gradient,
// weight gradient. A thread with a crew (core/crew.hpp) hands out pieces of them.
//
// A sum runs over channels, or over tiles, in their order, whatever the batch, its pieces and the threads: an image's
// numbers do not depend on the batch around it.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/core/arena.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/kernels/conv.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/kernels/pool.hpp>
#include <tessera/kernels/winograd.hpp>

namespace tessera::kernels {

// Whether tiles take less time than the direct kernel, by shape alone, so that bits do not depend on the batch either.
// With 16 channels they take 0.6 of it, with 3 more. A plane of 2 x 2 fills a quarter of its tile and takes half.
template <class R>
constexpr bool winograd_pays(const ConvShape& s, std::size_t out) {
    return sizeof(R) == 4 && s.kernel == 3 && s.stride == 1 && s.pad == 1 && s.channels >= 16 && out >= 16 &&
           s.height >= 2 && s.width >= 2;
}

namespace detail {

struct WinogradSizes {
    std::size_t lanes = active() == Set::portable ? 4 : active() == Set::avx2 ? 8 : 16;
    std::size_t panel = 2 * lanes;
    std::size_t filter = winograd_frequencies * (winograd_chunk * panel + winograd_gap);  // of a chunk and a panel

    static std::size_t chunks(std::size_t channels) { return (channels + winograd_chunk - 1) / winograd_chunk; }
    std::size_t panels(std::size_t out) const { return (out + panel - 1) / panel; }
    static std::size_t tiles(std::size_t count) {  // numbers of a chunk
        return winograd_frequencies * (count * winograd_chunk + winograd_gap);
    }
    std::size_t sums(std::size_t count) const { return winograd_frequencies * (count * panel + winograd_gap); }
    // f(chunk, its first channel, how many it has)
    template <class F>
    static void each_chunk(std::size_t channels, const F& f) {
        for (std::size_t c = 0; c < chunks(channels); ++c)
            f(c, c * winograd_chunk, std::min(winograd_chunk, channels - c * winograd_chunk));
    }
};

// dbias[o] = the sum of plane o of dy over all images.
inline void bias_gradient_of_planes(const float* dy, float* dbias, std::size_t batch, std::size_t out,
                                    std::size_t pixels) {
    const Scratch<float> sums(out);
    std::fill_n(dbias, out, 0.0f);
    for (std::size_t b = 0; b < batch; ++b, dy += out * pixels) {
        plane_sums(dy, sums.data(), out, pixels, 1.0f);
        axpy(1.0f, static_cast<const float*>(sums.data()), dbias, out);
    }
}

// y = x * w, or, turned, an input gradient, whose `channels` are those of dy and whose `out` are those of dx.
inline void winograd_conv(const float* x, const float* w, const float* bias, float* y, std::size_t batch,
                          const TiledPlanes& in, std::size_t out, bool turned) {
    const WinogradSizes size;
    const TiledPlanes planes{out, in.height, in.width};
    const std::size_t rows = batch * in.down(), across = in.across(), chunks = size.chunks(in.channels);
    const auto filters_of = [&](std::size_t panel, std::size_t first, std::size_t deep, float* to) {
        winograd_filters(w, to, in.channels, out, panel * size.panel, first, first + deep, turned);
    };
    const auto share = [&](std::size_t pieces, const auto& work) {
        by_crew(winograd_frequencies * rows * across * in.channels * out, pieces, work);
    };
    // Whichever of filters and tiles is smaller is made once. Tiles go in blocks of so many rows that their sums stay
    // in L2 (64 tiles), or that filters made again for each are not noticed (128).
    const bool few_tiles = rows * across < out;
    const std::size_t block = std::max<std::size_t>(1, (few_tiles ? 128 : 64) / across);
    if (few_tiles) {
        const Scratch<float> tiles(chunks * size.tiles(std::min(block, rows) * across));
        for (std::size_t begin = 0; begin < rows; begin += block) {
            const std::size_t end = std::min(rows, begin + block), count = (end - begin) * across;
            share(chunks, [&](std::size_t c) {
                winograd_tiles(x, tiles.data() + c * size.tiles(count), in, begin, end, c * winograd_chunk, false);
            });
            share(size.panels(out), [&](std::size_t panel) {
                const Scratch<float> filters(size.filter), sums(size.sums(count));
                size.each_chunk(in.channels, [&](std::size_t c, std::size_t first, std::size_t deep) {
                    filters_of(panel, first, deep, filters.data());
                    winograd_product(tiles.data() + c * size.tiles(count), filters.data(), sums.data(), count, deep,
                                     c > 0);
                });
                winograd_planes(sums.data(), bias, y, planes, begin, end, panel * size.panel);
            });
        }
        return;
    }
    const Scratch<float> filters(size.panels(out) * chunks * size.filter);
    share(size.panels(out), [&](std::size_t panel) {
        size.each_chunk(in.channels, [&](std::size_t c, std::size_t first, std::size_t deep) {
            filters_of(panel, first, deep, filters.data() + (panel * chunks + c) * size.filter);
        });
    });
    share((rows + block - 1) / block, [&](std::size_t piece) {
        const std::size_t begin = piece * block, end = std::min(rows, begin + block), count = (end - begin) * across;
        const Scratch<float> tiles(chunks * size.tiles(count)), sums(size.sums(count));
        for (std::size_t c = 0; c < chunks; ++c)
            winograd_tiles(x, tiles.data() + c * size.tiles(count), in, begin, end, c * winograd_chunk, false);
        for (std::size_t panel = 0; panel < size.panels(out); ++panel) {
            size.each_chunk(in.channels, [&](std::size_t c, std::size_t, std::size_t deep) {
                winograd_product(tiles.data() + c * size.tiles(count),
                                 filters.data() + (panel * chunks + c) * size.filter, sums.data(), count, deep, c > 0);
            });
            winograd_planes(sums.data(), bias, y, planes, begin, end, panel * size.panel);
        }
    });
}

// Without the biases.
inline void winograd_filters_gradient(const float* dy, const float* x, float* dw, std::size_t batch,
                                      const TiledPlanes& in, std::size_t out) {
    const WinogradSizes size;
    const TiledPlanes planes{out, in.height, in.width};
    const std::size_t rows = batch * in.down(), across = in.across();
    const std::size_t chunks = size.chunks(in.channels), panels = size.panels(out);
    const auto share = [&](std::size_t pieces, const auto& work) {
        by_crew(winograd_frequencies * rows * across * in.channels * out, pieces, work);
    };
    // Whichever is smaller is kept: the sums of all weights while tiles go by, or all tiles.
    const bool few_tiles = rows * across * (in.channels + out) <= in.channels * out;
    const std::size_t block = few_tiles ? std::max<std::size_t>(1, rows) : std::max<std::size_t>(1, 64 / across);
    const std::size_t most = size.tiles(std::min(block, std::max<std::size_t>(1, rows)) * across);
    const Scratch<float> tiles(chunks * most), slopes(size.chunks(out) * most);
    const Scratch<float> kept(few_tiles ? 0 : panels * chunks * size.filter);
    if (rows == 0) std::fill_n(dw, out * in.channels * 9, 0.0f);
    for (std::size_t begin = 0; begin < rows; begin += block) {
        const std::size_t end = std::min(rows, begin + block), count = (end - begin) * across;
        share(chunks + size.chunks(out), [&](std::size_t c) {
            if (c < chunks)
                winograd_tiles(x, tiles.data() + c * size.tiles(count), in, begin, end, c * winograd_chunk, false);
            else
                winograd_tiles(dy, slopes.data() + (c - chunks) * size.tiles(count), planes, begin, end,
                               (c - chunks) * winograd_chunk, true);
        });
        share(panels * chunks, [&](std::size_t piece) {
            const std::size_t panel = piece / chunks, c = piece % chunks, o = panel * size.panel;
            const Scratch<float> own(few_tiles ? size.filter : 0);
            float* const sums = few_tiles ? own.data() : kept.data() + piece * size.filter;
            winograd_outer(tiles.data() + c * size.tiles(count),
                           slopes.data() + o / winograd_chunk * size.tiles(count) + o % winograd_chunk, sums, count,
                           std::min(winograd_chunk, in.channels - c * winograd_chunk), begin > 0);
            if (end == rows) winograd_filter_gradient(sums, dw, in.channels, out, o, c * winograd_chunk);
        });
    }
}

}  // namespace detail

// What kernels/conv.hpp says of its namesakes, for shapes that are 3 x 3, stride 1 and margin 1. A null bias is none.
inline void winograd_conv(const float* x, const float* w, const float* bias, float* y, std::size_t batch,
                          const ConvShape& s, std::size_t out) {
    detail::winograd_conv(x, w, bias, y, batch, {s.channels, s.height, s.width}, out, false);
}
inline void winograd_input_gradient(const float* dy, const float* w, float* dx, std::size_t batch, const ConvShape& s,
                                    std::size_t out) {
    detail::winograd_conv(dy, w, nullptr, dx, batch, {out, s.height, s.width}, s.channels, true);
}
// dbias null: not wanted
inline void winograd_weight_gradient(const float* dy, const float* x, float* dw, float* dbias, std::size_t batch,
                                     const ConvShape& s, std::size_t out) {
    detail::winograd_filters_gradient(dy, x, dw, batch, {s.channels, s.height, s.width}, out);
    if (dbias) detail::bias_gradient_of_planes(dy, dbias, batch, out, s.pixels());
}

}  // namespace tessera::kernels
