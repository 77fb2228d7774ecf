// SPDX-License-Identifier: BSD-3-Clause
// The steps of Winograd's minimal filtering F(4x4, 3x3) (Lavin and Gray, CVPR 2016): tiles of 4 x 4 outputs of a 3 x 3
// convolution, stride 1, margin 1, become 36 products of matrices; a quarter of the multiplications.
//
//   y = A^T [ (G w G^T) . (B^T x B) ] A      dw = G^T [ sum over tiles (B^T x B) . (A dy A^T) ] G
//
// The points are 0, +-1/sqrt 2, +-sqrt 2 and infinity: with the usual +-1, +-2 the largest error is 6 to 8 times that
// of direct sums in float, with these below twice (tests/kernels/winograd_test.cpp). kernels/conv_winograd.hpp puts the
// steps together; float only.
//
// Layouts, `lanes` being the floats of a register and `panel` two registers of outputs:
//   tiles    [chunk of 64 channels][frequency][tile][64]        tile = (image, row, column)
//   filters  [frequency][channel of a chunk][panel]
//   sums     [frequency][tile][panel], of weights [frequency][channel of a chunk][panel]
// Frequencies lie 64 bytes further apart than they need, or all 36 would fight for the same lines of a cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/panel_tile.hpp>
#include <tessera/kernels/sparse_blocks.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

// Planes in and out of a step, in tiles of 4 x 4.
struct TiledPlanes {
    std::size_t channels, height, width;

    constexpr std::size_t down() const { return (height + 3) / 4; }
    constexpr std::size_t across() const { return (width + 3) / 4; }
    constexpr std::size_t pixels() const { return height * width; }
};
inline constexpr std::size_t winograd_frequencies = 36, winograd_chunk = 64, winograd_gap = 16;

namespace detail {

// One dimension of each transform, from `d` to `t`; T is a register.
inline constexpr float root_half = 0.70710678118654752f, root_two = 1.41421356237309505f;
struct TileTransform {  // B^T
    static constexpr std::size_t from = 6, to = 6;
    template <class T>
    TESSERA_INLINE static void line(const T* d, T* t) {
        t[0] = (d[0] + d[4]) - 2.5f * d[2];
        const T a = d[4] - 2.0f * d[2], b = root_half * (d[3] - 2.0f * d[1]);
        t[1] = a + b;
        t[2] = a - b;
        const T c = d[4] - 0.5f * d[2], e = root_two * (d[3] - 0.5f * d[1]);
        t[3] = c + e;
        t[4] = c - e;
        t[5] = (d[1] + d[5]) - 2.5f * d[3];
    }
};
struct FilterTransform {  // G
    static constexpr std::size_t from = 3, to = 6;
    template <class T>
    TESSERA_INLINE static void line(const T* d, T* t) {
        t[0] = d[0];
        const T a = (-2.0f / 3) * d[0] + (-1.0f / 3) * d[2], b = (-2.0f / 3 * root_half) * d[1];
        t[1] = a + b;
        t[2] = a - b;
        const T c = (1.0f / 6) * d[0] + (1.0f / 3) * d[2], e = (1.0f / 6 * root_two) * d[1];
        t[3] = c + e;
        t[4] = c - e;
        t[5] = d[2];
    }
};
struct OutputTransform {  // A^T
    static constexpr std::size_t from = 6, to = 4;
    template <class T>
    TESSERA_INLINE static void line(const T* d, T* t) {
        const T p = d[1] + d[2], q = d[1] - d[2], r = d[3] + d[4], s = d[3] - d[4];
        t[0] = d[0] + p + r;
        t[1] = root_half * q + root_two * s;
        t[2] = 0.5f * p + (r + r);
        t[3] = (0.5f * root_half) * q + ((2 * root_two) * s + d[5]);
    }
};
struct SlopeTransform {  // A
    static constexpr std::size_t from = 4, to = 6;
    template <class T>
    TESSERA_INLINE static void line(const T* d, T* t) {
        t[0] = d[0];
        const T a = d[0] + 0.5f * d[2], b = root_half * d[1] + (0.5f * root_half) * d[3];
        t[1] = a + b;
        t[2] = a - b;
        const T c = d[0] + 2.0f * d[2], e = root_two * d[1] + (2 * root_two) * d[3];
        t[3] = c + e;
        t[4] = c - e;
        t[5] = d[3];
    }
};
struct FilterGradient {  // G^T
    static constexpr std::size_t from = 6, to = 3;
    template <class T>
    TESSERA_INLINE static void line(const T* d, T* t) {
        const T p = d[1] + d[2], q = d[1] - d[2], r = d[3] + d[4], s = d[3] - d[4];
        t[0] = d[0] + ((1.0f / 6) * r + (-2.0f / 3) * p);
        t[1] = (-2.0f / 3 * root_half) * q + (1.0f / 6 * root_two) * s;
        t[2] = (1.0f / 3) * (r - p) + d[5];
    }
};

// Both dimensions: register (i, j) is read at from[i*row + j*column] and written to to[i*down + j*across].
template <class Line, std::size_t Bytes>
TESSERA_INLINE void transform(const float* from, std::size_t row, std::size_t column, float* to, std::size_t down,
                              std::size_t across) {
    using Vec = V<float, Bytes>;
    Held<float, Bytes> half[Line::to][Line::from];
#pragma GCC unroll 6
    for (std::size_t j = 0; j < Line::from; ++j) {
        Held<float, Bytes> d[Line::from], t[Line::to];
#pragma GCC unroll 6
        for (std::size_t i = 0; i < Line::from; ++i) d[i] = *reinterpret_cast<const Vec*>(from + i * row + j * column);
        Line::line(d, t);
#pragma GCC unroll 6
        for (std::size_t i = 0; i < Line::to; ++i) half[i][j] = t[i];
    }
#pragma GCC unroll 6
    for (std::size_t i = 0; i < Line::to; ++i) {
        Held<float, Bytes> t[Line::to];
        Line::line(half[i], t);
#pragma GCC unroll 6
        for (std::size_t j = 0; j < Line::to; ++j) *reinterpret_cast<Vec*>(to + i * down + j * across) = t[j];
    }
}

// sums (+)= tiles * filters, all frequencies, `depth` channels of one chunk.
template <class, std::size_t Bytes>
TESSERA_INLINE void winograd_product_body(const float* tiles, const float* filters, float* sums, std::size_t count,
                                          std::size_t depth, bool add) {
    constexpr std::size_t panel = 2 * VectorOf<float, Bytes>::lanes;
    for (std::size_t f = 0; f < winograd_frequencies; ++f) {
        even_groups<panel_rows<Bytes>>(
            count, [&](std::size_t t, auto rows) __attribute__((always_inline)) {
                panel_tile<Bytes, rows()>(tiles + t * winograd_chunk, winograd_chunk, 1, filters, panel,
                                          sums + t * panel, panel, depth, add);
            });
        tiles += count * winograd_chunk + winograd_gap;
        filters += winograd_chunk * panel + winograd_gap;
        sums += count * panel + winograd_gap;
    }
}
// sums (+)= tiles^T * slopes, for `channels` of a chunk and the panel that begins at `slopes`.
template <class, std::size_t Bytes>
TESSERA_INLINE void winograd_outer_body(const float* tiles, const float* slopes, float* sums, std::size_t count,
                                        std::size_t channels, bool add) {
    constexpr std::size_t panel = 2 * VectorOf<float, Bytes>::lanes;
    for (std::size_t f = 0; f < winograd_frequencies; ++f) {
        even_groups<panel_rows<Bytes>>(
            channels, [&](std::size_t c, auto rows) __attribute__((always_inline)) {
                panel_tile<Bytes, rows()>(tiles + c, 1, winograd_chunk, slopes, winograd_chunk, sums + c * panel, panel,
                                          count, add);
            });
        tiles += count * winograd_chunk + winograd_gap;
        slopes += count * winograd_chunk + winograd_gap;
        sums += winograd_chunk * panel + winograd_gap;
    }
}

// Filters of channels [k0, k1) of `channels` to the panel of outputs from `o0` on. Weights are [out][channels][3][3];
// turned, as the input gradient wants them, [channels][out][3][3] and read backwards.
template <std::size_t Bytes>
TESSERA_INLINE void filter_tile(const float* nine, std::size_t step, float* filters) {
    constexpr std::size_t panel = 2 * VectorOf<float, Bytes>::lanes;
    constexpr std::size_t apart = winograd_chunk * panel + winograd_gap;
    transform<FilterTransform, Bytes>(nine, 3 * step, step, filters, 6 * apart, apart);
}
template <class, std::size_t Bytes>
TESSERA_INLINE void winograd_filters_body(const float* w, float* filters, std::size_t channels, std::size_t out,
                                          std::size_t o0, std::size_t k0, std::size_t k1, bool turned) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes, panel = 2 * lanes;
    alignas(64) float taps[9 * lanes * lanes];
    for (std::size_t half = 0; half < 2; ++half) {
        const std::size_t o = o0 + half * lanes, there = o < out ? std::min(lanes, out - o) : 0;
        float* const to = filters + half * lanes;
        if (turned) {  // a channel at a time: taps[8 - t][lane]
            for (std::size_t k = k0; k < k1; ++k) {
                const float* from = w + (k * out + o) * 9;
                if (there == lanes && (k * out + o + lanes) * 9 + lanes <= channels * out * 9) {
#pragma GCC unroll 3
                    for (std::size_t first = 0; first < 9; first += lanes) {
                        const std::size_t t = lanes < 9 && first + lanes > 9 ? 9 - lanes : first;
                        Held<float, Bytes> square[lanes];
#pragma GCC unroll 16
                        for (std::size_t q = 0; q < lanes; ++q)
                            square[q] = *reinterpret_cast<const Vec*>(from + q * 9 + t);
                        turn<float, Bytes>(square);
#pragma GCC unroll 16
                        for (std::size_t q = 0; q < lanes; ++q)
                            if (t + q < 9) *reinterpret_cast<Vec*>(taps + (8 - t - q) * lanes) = square[q];
                    }
                } else {
                    for (std::size_t q = 0; q < lanes; ++q)
                        for (std::size_t t = 0; t < 9; ++t) taps[(8 - t) * lanes + q] = q < there ? from[q * 9 + t] : 0;
                }
                filter_tile<Bytes>(taps, lanes, to + (k - k0) * panel);
            }
            continue;
        }
        for (std::size_t k = k0; k < k1; k += lanes) {  // as many channels as lanes: taps[channel][tap][lane]
            const std::size_t deep = std::min(lanes, k1 - k);
            const float* from = w + (o * channels + k) * 9;
            if (there == lanes && deep == lanes) {
                for (std::size_t j = 0; j < 9; ++j) {
                    Held<float, Bytes> square[lanes];
#pragma GCC unroll 16
                    for (std::size_t q = 0; q < lanes; ++q) {
                        const float* const row = from + q * channels * 9 + j * lanes;
                        square[q] = *reinterpret_cast<const Vec*>(row);
                        __builtin_prefetch(row + 9 * lanes);
                    }
                    turn<float, Bytes>(square);
#pragma GCC unroll 16
                    for (std::size_t q = 0; q < lanes; ++q)
                        *reinterpret_cast<Vec*>(taps + (j * lanes + q) * lanes) = square[q];
                }
            } else {
                for (std::size_t q = 0; q < lanes; ++q)
                    for (std::size_t j = 0; j < 9 * deep; ++j)
                        taps[j * lanes + q] = q < there ? from[q * channels * 9 + j] : 0;
            }
            for (std::size_t i = 0; i < deep; ++i)
                filter_tile<Bytes>(taps + i * 9 * lanes, lanes, to + (k - k0 + i) * panel);
        }
    }
}
// dw[o][c][3][3] of `channels` from c0 on, a chunk at most, and of the panel of outputs from o0 on, from their sums.
template <class, std::size_t Bytes>
TESSERA_INLINE void winograd_filter_gradient_body(const float* sums, float* dw, std::size_t channels, std::size_t out,
                                                  std::size_t o0, std::size_t c0) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes, panel = 2 * lanes;
    constexpr std::size_t apart = winograd_chunk * panel + winograd_gap;
    alignas(64) float taps[9 * lanes * lanes];
    const std::size_t end = std::min(channels, c0 + winograd_chunk);
    for (std::size_t o = o0; o < std::min(out, o0 + panel); o += lanes)
        for (std::size_t c = c0; c < end; c += lanes) {
            const std::size_t deep = std::min(lanes, end - c), there = std::min(lanes, out - o);
            for (std::size_t i = 0; i < deep; ++i)
                transform<FilterGradient, Bytes>(sums + (c - c0 + i) * panel + (o - o0), 6 * apart, apart,
                                                 taps + i * 9 * lanes, 3 * lanes, lanes);
            float* const to = dw + (o * channels + c) * 9;
            if (there < lanes || deep < lanes) {
                for (std::size_t q = 0; q < there; ++q)
                    for (std::size_t j = 0; j < 9 * deep; ++j) to[q * channels * 9 + j] = taps[j * lanes + q];
                continue;
            }
            for (std::size_t j = 0; j < 9; ++j) {
                Held<float, Bytes> square[lanes];
#pragma GCC unroll 16
                for (std::size_t q = 0; q < lanes; ++q)
                    square[q] = *reinterpret_cast<const Vec*>(taps + (j * lanes + q) * lanes);
                turn<float, Bytes>(square);
#pragma GCC unroll 16
                for (std::size_t q = 0; q < lanes; ++q)
                    *reinterpret_cast<Vec*>(to + q * channels * 9 + j * lanes) = square[q];
            }
        }
}

// A run of rows of tiles that belong to one image, for channels [first, first + lanes): pixels with channels innermost
// and a margin of zeros.
template <std::size_t Bytes>
class PixelStrip {
    using Vec = V<float, Bytes>;
    static constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;

public:
    TESSERA_INLINE PixelStrip(const TiledPlanes& p, std::size_t rows)
        : p_(p), wide_(4 * p.across() + 2), room_((4 * rows + 2 + lanes / p.width + 2) * wide_ * lanes) {}
    // Zeros around the pixels of tile rows [first, end).
    TESSERA_INLINE void frame(std::size_t first, std::size_t end) {
        top_ = 4 * first;
        for (std::size_t r = 0; r < 4 * (end - first) + 2; ++r) {
            const bool inside = top_ + r > 0 && top_ + r <= p_.height;
            clear(r * wide_, inside ? 1 : wide_);
            if (inside) clear(r * wide_ + 1 + p_.width, wide_ - 1 - p_.width);
        }
    }
    TESSERA_INLINE void begin(const float* planes, std::size_t channels) {
        planes_ = planes;
        channels_ = channels;
        row_ = top_ > 0 ? top_ - 1 : 0;
        column_ = 0;
    }
    // Rows of pixels below `row` are there.
    TESSERA_INLINE void fill(std::size_t row) {
        const std::size_t all = p_.pixels(), need = std::min(row, p_.height) * p_.width;
        for (std::size_t at = row_ * p_.width + column_; at < need;) {
            const std::size_t n = std::min(lanes, all - at);
            if (n == lanes) {
                Held<float, Bytes> square[lanes];
                if (channels_ == lanes) {
#pragma GCC unroll 16
                    for (std::size_t c = 0; c < lanes; ++c) {
                        const float* const from = planes_ + c * all + at;
                        square[c] = *reinterpret_cast<const Vec*>(from);
                        __builtin_prefetch(from + 64, 0, 2);
                    }
                } else {
#pragma GCC unroll 16
                    for (std::size_t c = 0; c < lanes; ++c) {
                        square[c] = Held<float, Bytes>{};
                        if (c < channels_) square[c] = *reinterpret_cast<const Vec*>(planes_ + c * all + at);
                    }
                }
                turn<float, Bytes>(square);
#pragma GCC unroll 16
                for (std::size_t q = 0; q < lanes; ++q) *reinterpret_cast<Vec*>(next()) = square[q];
            } else {
                for (std::size_t q = 0; q < n; ++q) {
                    float* const to = next();
                    for (std::size_t c = 0; c < lanes; ++c) to[c] = c < channels_ ? planes_[c * all + at + q] : 0;
                }
            }
            at += n;
        }
    }
    // The corner of a tile, its margin included, and how far rows are apart.
    TESSERA_INLINE const float* tile(std::size_t row, std::size_t column) const {
        return room_.data() + ((4 * row - top_) * wide_ + 4 * column) * lanes;
    }
    TESSERA_INLINE std::size_t apart() const { return wide_ * lanes; }

private:
    TESSERA_INLINE float* next() {
        float* const to = room_.data() + ((row_ + 1 - top_) * wide_ + column_ + 1) * lanes;
        if (++column_ == p_.width) column_ = 0, ++row_;
        return to;
    }
    TESSERA_INLINE void clear(std::size_t pixel, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            *reinterpret_cast<Vec*>(room_.data() + (pixel + i) * lanes) = Held<float, Bytes>{};
    }

    TiledPlanes p_;
    std::size_t wide_;
    Scratch<float> room_;
    std::size_t top_ = 0, row_ = 0, column_ = 0, channels_ = 0;
    const float* planes_ = nullptr;
};

// f(image, first, end) for the rows of tiles [first, end) of each image that are among rows [begin, end) of a batch.
template <class F>
TESSERA_INLINE void each_image(std::size_t down, std::size_t begin, std::size_t end, const F& f) {
    for (std::size_t row = begin; row < end;) {
        const std::size_t image = row / down, first = row - image * down;
        const std::size_t last = std::min(down, first + (end - row));
        f(image, first, last);
        row += last - first;
    }
}

// Tiles of rows [begin, end) of a batch, of the channels of one chunk; of x, or of slopes, which have no margin.
template <class, std::size_t Bytes>
TESSERA_INLINE void winograd_tiles_body(const float* x, float* tiles, const TiledPlanes& p, std::size_t begin,
                                        std::size_t end, std::size_t c0, bool slopes) {
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    const std::size_t across = p.across(), apart = (end - begin) * across * winograd_chunk + winograd_gap;
    PixelStrip<Bytes> strip(p, std::min(end - begin, p.down()));
    each_image(
        p.down(), begin,
        end, [&](std::size_t image, std::size_t first, std::size_t last) __attribute__((always_inline)) {
            strip.frame(first, last);
            for (std::size_t c = c0; c < std::min(p.channels, c0 + winograd_chunk); c += lanes) {
                strip.begin(x + (image * p.channels + c) * p.pixels(), std::min(lanes, p.channels - c));
                float* to = tiles + (image * p.down() + first - begin) * across * winograd_chunk + (c - c0);
                for (std::size_t row = first; row < last; ++row) {
                    strip.fill(4 * row + 5);
                    for (std::size_t column = 0; column < across; ++column, to += winograd_chunk) {
                        const float* from = strip.tile(row, column);
                        if (slopes)
                            transform<SlopeTransform, Bytes>(from + strip.apart() + lanes, strip.apart(), lanes, to,
                                                             6 * apart, apart);
                        else transform<TileTransform, Bytes>(from, strip.apart(), lanes, to, 6 * apart, apart);
                    }
                }
            }
        });
}
// y = sums + bias (null: none) for rows [begin, end) of tiles of a batch and the panel of channels from c0 on.
template <class, std::size_t Bytes>
TESSERA_INLINE void winograd_planes_body(const float* sums, const float* bias, float* y, const TiledPlanes& p,
                                         std::size_t begin, std::size_t end, std::size_t c0) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes, panel = 2 * lanes;
    const std::size_t across = p.across(), apart = (end - begin) * across * panel + winograd_gap;
    const std::size_t wide = 4 * across;
    const Scratch<float> strip(4 * wide * lanes);
    const auto row_of_tiles = [&](const float* from, float* to, std::size_t row, std::size_t count,
                                  const Held<float, Bytes>& shift) __attribute__((always_inline)) {
        for (std::size_t column = 0; column < across; ++column)
            transform<OutputTransform, Bytes>(from + column * panel, 6 * apart, apart,
                                              strip.data() + 4 * column * lanes, wide * lanes, lanes);
        // Pixels lie in one piece where tiles end with the planes; otherwise each row is a piece.
        const std::size_t rows = std::min<std::size_t>(4, p.height - 4 * row);
        const std::size_t pieces = wide == p.width ? 1 : rows, size = rows * p.width / pieces;
        for (std::size_t piece = 0; piece < pieces; ++piece) {
            const float* pixel = strip.data() + piece * wide * lanes;
            float* const plane = to + (4 * row + piece) * p.width;
            std::size_t at = 0;
            for (; at + lanes <= size; at += lanes) {
                Held<float, Bytes> square[lanes];
#pragma GCC unroll 16
                for (std::size_t q = 0; q < lanes; ++q)
                    square[q] = *reinterpret_cast<const Vec*>(pixel + (at + q) * lanes) + shift;
                turn<float, Bytes>(square);
                if (count == lanes) {
#pragma GCC unroll 16
                    for (std::size_t c = 0; c < lanes; ++c)
                        *reinterpret_cast<Vec*>(plane + c * p.pixels() + at) = square[c];
                } else {
#pragma GCC unroll 16
                    for (std::size_t c = 0; c < lanes; ++c)
                        if (c < count) *reinterpret_cast<Vec*>(plane + c * p.pixels() + at) = square[c];
                }
            }
            for (; at < size; ++at) {
                const Held<float, Bytes> last = *reinterpret_cast<const Vec*>(pixel + at * lanes) + shift;
                for (std::size_t c = 0; c < count; ++c) plane[c * p.pixels() + at] = last[c];
            }
        }
    };
    each_image(
        p.down(), begin,
        end, [&](std::size_t image, std::size_t first, std::size_t last) __attribute__((always_inline)) {
            for (std::size_t c = c0; c < std::min(p.channels, c0 + panel); c += lanes) {
                const std::size_t count = std::min(lanes, p.channels - c);
                Held<float, Bytes> shift = {};
                for (std::size_t i = 0; bias && i < count; ++i) shift[i] = bias[c + i];
                for (std::size_t row = first; row < last; ++row)
                    row_of_tiles(sums + (image * p.down() + row - begin) * across * panel + (c - c0),
                                 y + (image * p.channels + c) * p.pixels(), row, count, shift);
            }
        });
}

}  // namespace detail

TESSERA_DISPATCH(winograd_filters, float,
                 (const float* w, float* filters, std::size_t channels, std::size_t out, std::size_t o0, std::size_t k0,
                  std::size_t k1, bool turned),
                 (w, filters, channels, out, o0, k0, k1, turned))
TESSERA_DISPATCH(winograd_filter_gradient, float,
                 (const float* sums, float* dw, std::size_t channels, std::size_t out, std::size_t o0, std::size_t c0),
                 (sums, dw, channels, out, o0, c0))
TESSERA_DISPATCH(winograd_tiles, float,
                 (const float* x, float* tiles, const TiledPlanes& p, std::size_t begin, std::size_t end,
                  std::size_t c0, bool slopes),
                 (x, tiles, p, begin, end, c0, slopes))
TESSERA_DISPATCH(winograd_planes, float,
                 (const float* sums, const float* bias, float* y, const TiledPlanes& p, std::size_t begin,
                  std::size_t end, std::size_t c0),
                 (sums, bias, y, p, begin, end, c0))
TESSERA_DISPATCH(winograd_product, float,
                 (const float* tiles, const float* filters, float* sums, std::size_t count, std::size_t depth,
                  bool add),
                 (tiles, filters, sums, count, depth, add))
TESSERA_DISPATCH(winograd_outer, float,
                 (const float* tiles, const float* slopes, float* sums, std::size_t count, std::size_t channels,
                  bool add),
                 (tiles, slopes, sums, count, channels, add))

}  // namespace tessera::kernels
