// SPDX-License-Identifier: BSD-3-Clause
// Convolution of planes, channels first.
//
// An image becomes a matrix whose products are those of dense layers. Columns, [tap][pixel], are what tap (c, i, j) of
// a kernel meets at every pixel of the output: pieces of rows of the image, and y and dx need nothing turned. For dw
// they lie the other way, patches [pixel][tap], and dy is turned, which is smaller: sums over pixels then go where a
// dense layer's sums over a batch go.
//
//   y[o][p]        = sum_t w[o][t] columns[t][p]      as an input gradient
//   dcolumns[t][p] = sum_o w[o][t] dy[o][p]           as a weight gradient
//   dw[o][t]      += sum_p dy[o][p] patches[p][t]     as an update
//
// One image at a time stays in L2; backward makes its patches from x instead of reading those of a batch from memory.
// Sums have one order, whatever the batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/sparse_blocks.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

// A square kernel over `channels` planes.
struct ConvShape {
    std::size_t channels = 1, height = 1, width = 1;
    std::size_t kernel = 1, stride = 1, pad = 0;

    constexpr std::size_t rows() const { return (height + 2 * pad - kernel) / stride + 1; }
    constexpr std::size_t columns() const { return (width + 2 * pad - kernel) / stride + 1; }
    constexpr std::size_t pixels() const { return rows() * columns(); }
    constexpr std::size_t taps() const { return channels * kernel * kernel; }
    constexpr std::size_t image() const { return channels * height * width; }
    // Numbers of a patch with those that fill its last register: 25 taps in 32 take a third of the time of 25, whose
    // rest would go number by number.
    constexpr std::size_t patch() const { return (taps() + 15) / 16 * 16; }
    // The same over an image with its margin of zeros.
    constexpr ConvShape padded() const {
        return {channels, height + 2 * pad, width + 2 * pad, kernel, stride, 0};
    }
};

namespace detail {

// f(row of the columns, row of the image it is a piece of), in their order.
template <class F>
TESSERA_INLINE void each_piece(const ConvShape& s, const F& f) {
    const std::size_t rows = s.rows(), columns = s.columns();
    std::size_t piece = 0;
    for (std::size_t c = 0; c < s.channels; ++c)
        for (std::size_t i = 0; i < s.kernel; ++i)
            for (std::size_t j = 0; j < s.kernel; ++j)
                for (std::size_t r = 0; r < rows; ++r, piece += columns)
                    f(piece, (c * s.height + r * s.stride + i) * s.width + j);
}

// Both matrices are of an image without margin. Whole registers are copied, over the end of a piece: what is too much
// is written again by the next one, so a matrix wants `matrix_slack` more numbers behind it.
template <class R, std::size_t Bytes>
TESSERA_INLINE void to_columns_body(const R* image, R* matrix, ConvShape s) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    const std::size_t columns = s.columns(), whole = (columns + lanes - 1) / lanes * lanes, end = s.image();
    each_piece(s, [&](std::size_t piece, std::size_t at) __attribute__((always_inline)) {
        if (s.stride == 1 && at + whole <= end)
            for (std::size_t j = 0; j < whole; j += lanes)
                *reinterpret_cast<Vec*>(matrix + piece + j) = *reinterpret_cast<const Vec*>(image + at + j);
        else
            for (std::size_t j = 0; j < columns; ++j) matrix[piece + j] = image[at + j * s.stride];
    });
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void to_patches_body(const R* image, R* matrix, ConvShape s) {
    constexpr std::size_t wide = Bytes < 32 ? Bytes : 32;  // a row of a kernel is short
    using Vec = V<R, wide>;
    constexpr std::size_t lanes = VectorOf<R, wide>::lanes;
    const std::size_t whole = (s.kernel + lanes - 1) / lanes * lanes, end = s.image(), columns = s.columns();
    for (std::size_t r = 0; r < s.rows(); ++r)
        for (std::size_t q = 0; q < columns; ++q, matrix += s.patch() - s.taps())
            for (std::size_t c = 0; c < s.channels; ++c)
                for (std::size_t i = 0; i < s.kernel; ++i, matrix += s.kernel) {
                    const std::size_t at = (c * s.height + r * s.stride + i) * s.width + q * s.stride;
                    if (at + whole <= end)
                        for (std::size_t j = 0; j < whole; j += lanes)
                            *reinterpret_cast<Vec*>(matrix + j) = *reinterpret_cast<const Vec*>(image + at + j);
                    else
                        for (std::size_t j = 0; j < s.kernel; ++j) matrix[j] = image[at + j];
                }
}
// to[j][i] = from[i][j]
template <class R, std::size_t Bytes>
TESSERA_INLINE void turn_matrix_body(const R* from, R* to, std::size_t rows, std::size_t columns) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    for (std::size_t j = 0; j < columns; j += lanes)
        for (std::size_t i = 0; i < rows; i += lanes)
            tile_to_rows<R, Bytes>(from + i * columns + j, columns, to + j * rows + i, rows, columns - j, rows - i);
}
// image = for each of its numbers the sum over the columns that read it.
template <class R, std::size_t Bytes>
TESSERA_INLINE void from_columns_body(const R* matrix, R* image, ConvShape s) {
    const std::size_t columns = s.columns();
    for (std::size_t i = 0; i < s.image(); ++i) image[i] = 0;
    each_piece(s, [&](std::size_t piece, std::size_t at) __attribute__((always_inline)) {
        std::size_t j = 0;
        const auto add = [&]<std::size_t Wide>() __attribute__((always_inline)) {
            using Vec = V<R, Wide>;
            constexpr std::size_t lanes = VectorOf<R, Wide>::lanes;
            for (; j + lanes <= columns; j += lanes)
                *reinterpret_cast<Vec*>(image + at + j) += *reinterpret_cast<const Vec*>(matrix + piece + j);
        };
        if (s.stride == 1) by_registers<Bytes>(add);
        for (; j < columns; ++j) image[at + j * s.stride] += matrix[piece + j];
    });
}

}  // namespace detail

#define TESSERA_CONV_KERNELS(R)                                                                                       \
    TESSERA_DISPATCH(to_columns, R, (const R* image, R* matrix, ConvShape s), (image, matrix, s))                     \
    TESSERA_DISPATCH(to_patches, R, (const R* image, R* matrix, ConvShape s), (image, matrix, s))                     \
    TESSERA_DISPATCH(turn_matrix, R, (const R* from, R* to, std::size_t rows, std::size_t columns),                   \
                     (from, to, rows, columns))                                                                       \
    TESSERA_DISPATCH(from_columns, R, (const R* matrix, R* image, ConvShape s), (matrix, image, s))
TESSERA_CONV_KERNELS(float)
TESSERA_CONV_KERNELS(double)
#undef TESSERA_CONV_KERNELS

namespace detail {

// work(piece) by the crew, if a layer has so many multiplications that it is worth calling: 26 us of an AVX-512 core.
template <class Work>
void by_crew(std::size_t multiplications, std::size_t pieces, const Work& work) {
    if (multiplications >= std::size_t{1} << 21) return Crew::for_each(pieces, work);
    for (std::size_t piece = 0; piece < pieces; ++piece) work(piece);
}
// work(begin, end) for all of [0, n): a range for each thread of the crew.
template <class Work>
void ranges_by_crew(std::size_t multiplications, std::size_t n, const Work& work) {
    const std::size_t each = (n + Crew::size() - 1) / Crew::size();
    by_crew(multiplications, each > 0 ? (n + each - 1) / each : 0,
            [&](std::size_t piece) { work(piece * each, std::min(n, piece * each + each)); });
}

}  // namespace detail

inline constexpr std::size_t matrix_slack = 16;  // numbers of the widest register

// Room for the matrix of one image after the other.
template <class R>
class ImageMatrix {
public:
    explicit ImageMatrix(const ConvShape& s)
        : shape_(s), matrix_(s.patch() * s.pixels() + matrix_slack), framed_(s.pad > 0 ? s.padded().image() : 0) {
        std::fill_n(framed_.data(), framed_.size(), R(0));
    }
    R* data() const { return matrix_.data(); }
    void columns(const R* image) const { to_columns(framed(image), data(), shape_.padded()); }
    void patches(const R* image) const { to_patches(framed(image), data(), shape_.padded()); }
    // image = what its columns add up to, the margin aside.
    void add_up_columns(R* image) const {
        from_columns(data(), shape_.pad > 0 ? framed_.data() : image, shape_.padded());
        each_framed_row([&](std::size_t inner, std::size_t outer) {
            std::copy_n(framed_.data() + outer, shape_.width, image + inner);
        });
    }

private:
    const R* framed(const R* image) const {
        each_framed_row([&](std::size_t inner, std::size_t outer) {
            std::copy_n(image + inner, shape_.width, framed_.data() + outer);
        });
        return shape_.pad > 0 ? framed_.data() : image;
    }
    // f(where a row of the image begins, where in the image with its margin), if it has one
    template <class F>
    void each_framed_row(const F& f) const {
        const ConvShape wide = shape_.padded();
        for (std::size_t c = 0; shape_.pad > 0 && c < shape_.channels; ++c)
            for (std::size_t r = 0; r < shape_.height; ++r)
                f((c * shape_.height + r) * shape_.width,
                  (c * wide.height + r + shape_.pad) * wide.width + shape_.pad);
    }

    ConvShape shape_;
    Scratch<R> matrix_, framed_;
};

// y[b][o][p] = bias[o] + sum over the taps; weights are [out][channels][kernel][kernel].
template <class R>
void conv(const R* x, const R* w, const R* bias, R* y, std::size_t batch, const ConvShape& s, std::size_t out) {
    const std::size_t pixels = s.pixels(), taps = s.taps();
    detail::ranges_by_crew(batch * out * taps * pixels, batch, [&](std::size_t begin, std::size_t end) {
        const ImageMatrix<R> matrix(s);
        const RowTable<R> columns(matrix.data(), taps, pixels);
        for (std::size_t b = begin; b < end; ++b) {
            R* plane = y + b * out * pixels;
            matrix.columns(x + b * s.image());
            outer_products(w, 1, taps, columns.rows(), plane, out, pixels, taps, 128);
            for (std::size_t o = 0; o < out; ++o, plane += pixels)
                for (std::size_t p = 0; p < pixels; ++p) plane[p] += bias[o];
        }
    });
}
// dw is followed by the gradient of the biases. What fills patches up is summed with the rest and dropped. A crew
// shares the outputs, and each of it makes the patches of every image: sums over images stay in their order.
template <class R>
void conv_weight_gradient(const R* dy, const R* x, R* dw, std::size_t batch, const ConvShape& s, std::size_t out) {
    const std::size_t pixels = s.pixels(), taps = s.taps();
    const std::size_t wide = s.patch();
    const Scratch<R> sums(out * wide + out);
    std::fill_n(sums.data(), sums.size(), R(0));
    detail::ranges_by_crew(batch * out * taps * pixels, out, [&](std::size_t begin, std::size_t end) {
        const ImageMatrix<R> matrix(s);
        const RowTable<R> patches(matrix.data(), pixels, wide);
        const Scratch<R> turned(pixels * out);
        std::fill_n(matrix.data(), pixels * wide, R(0));
        for (std::size_t b = 0; b < batch; ++b) {
            matrix.patches(x + b * s.image());
            turn_matrix(dy + b * out * pixels, turned.data(), out, pixels);
            affine_update_rows(turned.data(), patches.rows(), sums.data(), pixels, wide, out, begin, end, {},
                               {R(-1), R(0), R(0), R(0)});
        }
    });
    for (std::size_t o = 0; o < out; ++o) std::copy_n(sums.data() + o * wide, taps, dw + o * taps);
    std::copy_n(sums.data() + out * wide, out, dw + out * taps);
}
template <class R>
void conv_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, const ConvShape& s, std::size_t out) {
    const std::size_t pixels = s.pixels(), taps = s.taps();
    detail::ranges_by_crew(batch * out * taps * pixels, batch, [&](std::size_t begin, std::size_t end) {
        const ImageMatrix<R> matrix(s);
        for (std::size_t b = begin; b < end; ++b) {
            const RowTable<R> slopes(dy + b * out * pixels, out, pixels);
            outer_products(w, taps, 1, slopes.rows(), matrix.data(), taps, pixels, out, out);
            matrix.add_up_columns(dx + b * s.image());
        }
    });
}

}  // namespace tessera::kernels
