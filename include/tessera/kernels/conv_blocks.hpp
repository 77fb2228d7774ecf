// SPDX-License-Identifier: BSD-3-Clause
// The steps of convolutions with channels innermost, for kernels of any size and stride 1 or 2: no columns are made.
//
// Planes become pixels of 32 channels, [chunk][row][column][32], with their margin of zeros. What a row of a kernel
// meets at one pixel of the output, k pixels of a chunk, then lies in one piece of 32 k numbers, and so do its weights;
// the next pixel of the output is 32 stride numbers further. Two registers of outputs (a panel) and up to 14 pixels
// stay in registers meanwhile. kernels/conv_blocked.hpp puts the steps together; float only.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/kernels/panel_tile.hpp>
#include <tessera/kernels/sparse_blocks.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

inline constexpr std::size_t pixel_chunk = 32;

// Where pixels lie in a frame of zeros: `top` rows above and `left` columns before them, `rows` x `columns` in all.
struct PixelFrame {
    std::size_t rows, columns, top, left;

    constexpr std::size_t chunk() const { return rows * columns * pixel_chunk; }  // numbers
    constexpr std::size_t numbers(std::size_t channels) const {
        return (channels + pixel_chunk - 1) / pixel_chunk * chunk();
    }
};
// A run of products: outputs `rows` x `columns`, from which on the pixels they read and the sums they make are
// given steps apart.
struct BlockedRun {
    std::size_t rows, columns;
    std::size_t in_row, in_column;    // numbers of pixels from one output to the next
    std::size_t out_row, out_column;  // numbers of sums
    std::size_t taps_down, taps;      // rows of the kernel and numbers in one, 32 k
    std::size_t tap_row;              // numbers of pixels from one row of the kernel to the next
    // Row `row` of the outputs meets row met + row * step + i of the frame with row i of the kernel; those outside
    // [inside, outside) are zeros and skipped.
    std::size_t met, step, inside, outside;
};
// Sums over pixels, of all images and rows of a block.
struct PixelRun {
    std::size_t images, rows, columns;
    std::size_t x_image, x_row, x_column, dy_image, dy_row;
};

namespace detail {

// Planes of one image into the frame, whose margin is written too. What fills the last chunk up is zeros.
template <class, std::size_t Bytes>
TESSERA_INLINE void to_pixels_body(const float* planes, float* pixels, std::size_t channels, std::size_t height,
                                   std::size_t width, const PixelFrame& f) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    const std::size_t all = height * width;
    std::fill_n(pixels, f.numbers(channels), 0.0f);
    for (std::size_t c = 0; c < channels; c += lanes) {
        const std::size_t there = std::min(lanes, channels - c);
        const float* from = planes + c * all;
        float* const to = pixels + c / pixel_chunk * f.chunk() + c % pixel_chunk;
        std::size_t row = f.top, column = 0;
        const auto next = [&]() __attribute__((always_inline)) {
            float* const pixel = to + (row * f.columns + f.left + column) * pixel_chunk;
            if (++column == width) column = 0, ++row;
            return pixel;
        };
        std::size_t at = 0;
        for (; there == lanes && at + lanes <= all; at += lanes) {
            Held<float, Bytes> square[lanes];
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i) {
                square[i] = *reinterpret_cast<const Vec*>(from + i * all + at);
                __builtin_prefetch(from + i * all + at + 64, 0, 2);
            }
            turn<float, Bytes>(square);
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i) *reinterpret_cast<Vec*>(next()) = square[i];
        }
        for (; at < all; ++at) {
            float* const pixel = next();
            for (std::size_t i = 0; i < there; ++i) pixel[i] = from[i * all + at];
        }
    }
}
// A panel of `there` channels, [pixel][panel], to planes; bias null: none.
template <class, std::size_t Bytes>
TESSERA_INLINE void from_panel_body(const float* sums, const float* bias, float* planes, std::size_t there,
                                    std::size_t pixels) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes, panel = 2 * lanes;
    for (std::size_t c = 0; c < there; c += lanes) {
        const std::size_t count = std::min(lanes, there - c);
        Held<float, Bytes> shift = {};
        for (std::size_t i = 0; bias && i < count; ++i) shift[i] = bias[c + i];
        float* const to = planes + c * pixels;
        std::size_t at = 0;
        for (; count == lanes && at + lanes <= pixels; at += lanes) {
            Held<float, Bytes> square[lanes];
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i)
                square[i] = *reinterpret_cast<const Vec*>(sums + (at + i) * panel + c) + shift;
            turn<float, Bytes>(square);
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i) *reinterpret_cast<Vec*>(to + i * pixels + at) = square[i];
        }
        for (; at < pixels; ++at) {
            const Held<float, Bytes> last = *reinterpret_cast<const Vec*>(sums + at * panel + c) + shift;
            for (std::size_t i = 0; i < count; ++i) to[i * pixels + at] = last[i];
        }
    }
}

// sums += the products of one chunk with its weights, [tap row][32 k][panel], of one panel.
template <class, std::size_t Bytes>
TESSERA_INLINE void blocked_products_body(const float* pixels, const float* weights, float* sums, const BlockedRun& r) {
    constexpr std::size_t panel = 2 * VectorOf<float, Bytes>::lanes;
    const auto all = [&](auto apart) __attribute__((always_inline)) {
        for (std::size_t i = 0; i < r.taps_down; ++i)
            for (std::size_t row = 0; row < r.rows; ++row) {
                const std::size_t meets = r.met + row * r.step + i;
                if (meets < r.inside || meets >= r.outside) continue;
                even_groups<panel_rows<Bytes>>(
                    r.columns, [&](std::size_t q, auto rows) __attribute__((always_inline)) {
                        panel_tile<Bytes, rows()>(pixels + i * r.tap_row + row * r.in_row + q * apart(), apart(), 1,
                                                  weights + i * r.taps * panel, panel,
                                                  sums + row * r.out_row + q * r.out_column, r.out_column, r.taps,
                                                  true);
                    });
            }
    };
    if (r.in_column == pixel_chunk) all(Count<pixel_chunk>{});
    else all(Count<2 * pixel_chunk>{});
}
// sums[channel][panel] (+)= sum over pixels x[pixel][channel] dy[pixel][panel], for `channels` of a chunk
template <class, std::size_t Bytes>
TESSERA_INLINE void blocked_outer_body(const float* x, const float* dy, float* sums, std::size_t channels,
                                       const PixelRun& r, bool add) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes, panel = 2 * lanes;
    even_groups<panel_rows<Bytes>>(
        channels, [&](std::size_t c, auto rows) __attribute__((always_inline)) {
            constexpr std::size_t M = rows();
            Held<float, Bytes> sum[M][2] = {};
            for (std::size_t image = 0; image < r.images; ++image)
                for (std::size_t row = 0; row < r.rows; ++row) {
                    const float* a = x + image * r.x_image + row * r.x_row + c;
                    const float* b = dy + image * r.dy_image + row * r.dy_row;
                    for (std::size_t q = 0; q < r.columns; ++q, a += r.x_column, b += pixel_chunk) {
                        const Held<float, Bytes> b0 = *reinterpret_cast<const Vec*>(b);
                        const Held<float, Bytes> b1 = *reinterpret_cast<const Vec*>(b + lanes);
#pragma GCC unroll 16
                        for (std::size_t m = 0; m < M; ++m) {
                            sum[m][0] += a[m] * b0;
                            sum[m][1] += a[m] * b1;
                        }
                    }
                }
            end_panel_tile<Bytes, M>(sum, sums + c * panel, panel, add);
        });
}

// weights[i][j][channel][panel] of a chunk from k0 on and the panel of outputs from o0 on; what is not there is 0. Taps
// (first_i + i*step, first_j + j*step) of w [out][channels][k][k], or, turned, of [channels][out][k][k] in reverse.
struct TapGrid {
    std::size_t kernel, first_i, first_j, step, down, across;
    constexpr std::size_t tap(std::size_t i, std::size_t j) const {
        return (first_i + i * step) * kernel + first_j + j * step;
    }
};
template <class, std::size_t Bytes>
TESSERA_INLINE void blocked_weights_body(const float* w, float* weights, std::size_t channels, std::size_t out,
                                         std::size_t o0, std::size_t k0, const TapGrid& g, bool turned) {
    constexpr std::size_t panel = 2 * VectorOf<float, Bytes>::lanes;
    const std::size_t square = g.kernel * g.kernel;
    for (std::size_t i = 0; i < g.down; ++i)
        for (std::size_t j = 0; j < g.across; ++j) {
            const std::size_t tap = turned ? g.tap(g.down - 1 - i, g.across - 1 - j) : g.tap(i, j);
            for (std::size_t c = k0; c < k0 + pixel_chunk; ++c, weights += panel)
                for (std::size_t o = o0; o < o0 + panel; ++o)
                    weights[o - o0] = c >= channels || o >= out ? 0.0f
                                      : turned                  ? w[(c * out + o) * square + tap]
                                                                : w[(o * channels + c) * square + tap];
        }
}

// Forward for images of few channels, `Apart` numbers a pixel and stride 1: pixels [row][column][channel], weights
// [tap row][taps of a row and channels][panel]. All rows of the kernel are added up in registers. Where pixels overlap
// GCC would carry numbers through memory from one step to the next instead of reading them again, hence `forget`.
template <std::size_t Bytes, std::size_t Apart, std::size_t M>
TESSERA_INLINE void thin_tile(const float* pixels, const float* weights, float* sums, std::size_t taps_down,
                              std::size_t taps, std::size_t tap_row) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes, panel = 2 * lanes;
    Held<float, Bytes> sum[M][2] = {};
    for (std::size_t i = 0; i < taps_down; ++i, pixels += tap_row) {
        const float* a = pixels;
        for (std::size_t k = 0; k < taps; ++k, a = forget(a + 1), weights += panel) {
            const Held<float, Bytes> b0 = *reinterpret_cast<const Vec*>(weights);
            const Held<float, Bytes> b1 = *reinterpret_cast<const Vec*>(weights + lanes);
#pragma GCC unroll 16
            for (std::size_t m = 0; m < M; ++m) {
                sum[m][0] += a[m * Apart] * b0;
                sum[m][1] += a[m * Apart] * b1;
            }
        }
    }
    end_panel_tile<Bytes, M>(sum, sums, panel, false);
}
template <class, std::size_t Bytes>
TESSERA_INLINE void thin_products_body(const float* pixels, const float* weights, float* sums, std::size_t channels,
                                       std::size_t kernel, std::size_t rows, std::size_t columns,
                                       std::size_t row_apart) {
    constexpr std::size_t panel = 2 * VectorOf<float, Bytes>::lanes;
    const auto all = [&](auto apart) __attribute__((always_inline)) {
        for (std::size_t row = 0; row < rows; ++row)
            even_groups<panel_rows<Bytes>>(
                columns, [&](std::size_t q, auto count) __attribute__((always_inline)) {
                    thin_tile<Bytes, apart(), count()>(pixels + row * row_apart + q * apart(), weights,
                                                       sums + (row * columns + q) * panel, kernel, kernel * apart(),
                                                       row_apart);
                });
    };
    if (channels == 1) all(Count<1>{});
    else all(Count<3>{});
}

}  // namespace detail

using detail::TapGrid;

TESSERA_DISPATCH(to_pixels, float,
                 (const float* planes, float* pixels, std::size_t channels, std::size_t height, std::size_t width,
                  const PixelFrame& f),
                 (planes, pixels, channels, height, width, f))
TESSERA_DISPATCH(from_panel, float,
                 (const float* sums, const float* bias, float* planes, std::size_t there, std::size_t pixels),
                 (sums, bias, planes, there, pixels))
TESSERA_DISPATCH(blocked_products, float, (const float* pixels, const float* weights, float* sums, const BlockedRun& r),
                 (pixels, weights, sums, r))
TESSERA_DISPATCH(blocked_outer, float,
                 (const float* x, const float* dy, float* sums, std::size_t channels, const PixelRun& r, bool add),
                 (x, dy, sums, channels, r, add))
TESSERA_DISPATCH(thin_products, float,
                 (const float* pixels, const float* weights, float* sums, std::size_t channels, std::size_t kernel,
                  std::size_t rows, std::size_t columns, std::size_t row_apart),
                 (pixels, weights, sums, channels, kernel, rows, columns, row_apart))
TESSERA_DISPATCH(blocked_weights, float,
                 (const float* w, float* weights, std::size_t channels, std::size_t out, std::size_t o0, std::size_t k0,
                  const TapGrid& g, bool turned),
                 (w, weights, channels, out, o0, k0, g, turned))

}  // namespace tessera::kernels
