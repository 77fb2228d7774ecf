// SPDX-License-Identifier: BSD-3-Clause
// The products of kernels/dense.hpp for many rows of floats: both factors are copied into the order in which tiles read
// them. Rows of 1024 or 2048 floats fall on the same lines of a cache, and of columns that lie so far apart each number
// is a line, a page even; copies are read in one piece.
//
//   packed_affine     `affine`; a row has at least a register of any set (16 numbers)
//   packed_outer      `outer_products`, rows of c `ldc` apart
//   ..._of_many       the entry points of dense.hpp, packed where that pays
//
// Bits are those of dense.hpp: every sum is added up in the same order. So who packs may be chosen by the number of
// rows, and no example's numbers depend on the batch around it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/panels.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

// Tiles of dot products: M rows of x against N of w, as in `affine_body`.
template <std::size_t Bytes>
struct DotTile {
    static constexpr std::size_t M = Bytes == 64 ? 5 : 4, N = Bytes == 64 ? 5 : Bytes == 32 ? 3 : 2;
    static constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    static std::size_t registers(std::size_t in) { return (in + lanes - 1) / lanes; }
};

// to[i][row][lane] for `Rows` rows, the last `count` of which are there; what is left of a row behind whole registers
// is its last register once more, without the lanes that were counted (as `dot_tile` reads it).
template <std::size_t Bytes, std::size_t Rows>
TESSERA_INLINE void pack_dots(const float* const* rows, std::size_t count, std::size_t in, float* to) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    const std::size_t rest = in % lanes, whole = in - rest;
    const float* from[Rows];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r) from[r] = rows[r < count ? r : 0];
    for (std::size_t i = 0; i < whole; i += lanes, to += Rows * lanes)
#pragma GCC unroll 8
        for (std::size_t r = 0; r < Rows; ++r)
            *reinterpret_cast<Vec*>(to + r * lanes) = *reinterpret_cast<const Vec*>(from[r] + i);
    if (rest == 0) return;
    std::memset(to, 0, Rows * lanes * sizeof(float));
    for (std::size_t r = 0; r < Rows; ++r)
        std::memcpy(to + r * lanes + lanes - rest, from[r] + whole, rest * sizeof(float));
}

// A packed group of rows of x against one of w, of which `rows` by `outputs` sums are wanted; `start` has the bias of
// each output once for each row.
template <std::size_t Bytes>
TESSERA_INLINE void packed_dot_tile(const float* x, const float* w, const float* start, float* y, std::size_t registers,
                                    std::size_t out, std::size_t rows, std::size_t outputs) {
    using Vec = V<float, Bytes>;
    using Tile = DotTile<Bytes>;
    constexpr std::size_t lanes = Tile::lanes, M = Tile::M, N = Tile::N, groups = (M * N + lanes - 1) / lanes;
    Held<float, Bytes> acc[groups * lanes] = {};
    for (std::size_t i = 0; i < registers; ++i, x += M * lanes, w += N * lanes) {
        Held<float, Bytes> wv[N];
#pragma GCC unroll 8
        for (std::size_t n = 0; n < N; ++n) wv[n] = *reinterpret_cast<const Vec*>(w + n * lanes);
#pragma GCC unroll 8
        for (std::size_t m = 0; m < M; ++m) {
            const Held<float, Bytes> xv = *reinterpret_cast<const Vec*>(x + m * lanes);
#pragma GCC unroll 8
            for (std::size_t n = 0; n < N; ++n) acc[m * N + n] += xv * wv[n];
        }
    }
    float sums[groups * lanes];
    const auto fold = [&](std::size_t g, auto count) __attribute__((always_inline)) {
        blend_lanes<float, Bytes, count()>(acc + g * lanes);
        *reinterpret_cast<Vec*>(sums + g * lanes) = acc[g * lanes] + *reinterpret_cast<const Vec*>(start + g * lanes);
    };
#pragma GCC unroll 8
    for (std::size_t g = 0; g + 1 < groups; ++g) fold(g, std::integral_constant<std::size_t, lanes>{});
    fold(groups - 1, std::integral_constant<std::size_t, M * N - (groups - 1) * lanes>{});
    const float* from = forget(sums);  // through memory: GCC would take the registers apart number by number
    if (rows == M && outputs == N) {
#pragma GCC unroll 8
        for (std::size_t m = 0; m < M; ++m) std::memcpy(y + m * out, from + m * N, N * sizeof(float));
        return;
    }
    for (std::size_t m = 0; m < rows; ++m)
        for (std::size_t n = 0; n < outputs; ++n) y[m * out + n] = from[m * N + n];
}

// What is packed at a time, in numbers: rows of x that stay in L2 while w goes by; of w, and of a below, what is read
// again before it leaves L3.
inline constexpr std::size_t packed_x = std::size_t{1} << 17, packed_numbers = std::size_t{1} << 21;

// As even pieces of `count` as there can be, whole multiples of `unit`, of `most` at most.
inline std::size_t even_piece(std::size_t count, std::size_t most, std::size_t unit) {
    const std::size_t pieces = std::max<std::size_t>((count + most - 1) / std::max<std::size_t>(most, 1), 1);
    return (count + pieces * unit - 1) / (pieces * unit) * unit;
}

template <class, std::size_t Bytes>
TESSERA_INLINE void packed_affine_body(const float* const* x, const float* w, const float* bias, float* y,
                                       std::size_t batch, std::size_t in, std::size_t out) {
    using Tile = DotTile<Bytes>;
    constexpr std::size_t M = Tile::M, N = Tile::N;
    const std::size_t registers = Tile::registers(in), row = registers * Tile::lanes;
    const std::size_t block = even_piece(batch, std::max(packed_x / row, M), M);
    // A group of w is packed for each block of x; where it would not stay in L1, once for all blocks. (Either is 5 %
    // slower where the other is taken: 1024 and 2048 numbers a row, Zen 4.)
    const bool once = row > 1536 && block < batch;
    const std::size_t span = once ? even_piece(out, std::max(packed_numbers / row, N), N) : out;
    const Scratch<float> left(block * row), right((once ? span : N) * row);
    const auto pack_x = [&](std::size_t first, std::size_t rows) __attribute__((always_inline)) {
        for (std::size_t b = 0; b < rows; b += M)
            pack_dots<Bytes, M>(x + first + b, std::min(M, rows - b), in, left.data() + b * row);
    };
    const auto pack_group = [&](std::size_t o, float* to) __attribute__((always_inline)) {
        const float* group[N];
        for (std::size_t i = 0; i < N; ++i) group[i] = w + std::min(o + i, out - 1) * in;
        pack_dots<Bytes, N>(group, N, in, to);
    };
    for (std::size_t begin = 0; begin < out; begin += span) {
        const std::size_t end = std::min(out, begin + span);
        for (std::size_t o = begin; once && o < end; o += N) pack_group(o, right.data() + (o - begin) * row);
        for (std::size_t first = 0; first < batch; first += block) {
            const std::size_t rows = std::min(block, batch - first);
            pack_x(first, rows);
            for (std::size_t o = begin; o < end; o += N) {
                float* group = right.data() + (once ? (o - begin) * row : 0);
                if (!once) pack_group(o, group);
                float start[64 / sizeof(float) * 2] = {};
                for (std::size_t i = 0; bias && i < M * N; ++i) start[i] = bias[std::min(o + i % N, out - 1)];
                for (std::size_t b = 0; b < rows; b += M)
                    packed_dot_tile<Bytes>(left.data() + b * row, group, start, y + (first + b) * out + o, registers,
                                           out, std::min(M, rows - b), std::min(N, out - o));
            }
        }
    }
}

// Tiles of outer products: six rows of a against a panel (kernels/panels.hpp).
inline constexpr std::size_t packed_rows = 6;

// to[group of six][k][row]: a(k, m) = a[k*ak + m*am], one of the two strides being 1; zeros past `rows`.
TESSERA_INLINE void pack_sixes(const float* a, std::size_t ak, std::size_t am, std::size_t rows, std::size_t depth,
                               float* to) {
    const std::size_t group = packed_rows * depth;
    const auto six = [&](std::size_t g, std::size_t k) __attribute__((always_inline)) {
        float* at = to + g / packed_rows * group + k * packed_rows;
        const float* from = a + k * ak + g * am;
        if (g + packed_rows <= rows) {
#pragma GCC unroll 6
            for (std::size_t i = 0; i < packed_rows; ++i) at[i] = from[i * am];
        } else {
            for (std::size_t i = 0; i < packed_rows; ++i) at[i] = g + i < rows ? from[i * am] : 0.0f;
        }
    };
    // Along what lies in one piece: depth, or eight groups, which are three lines.
    constexpr std::size_t together = 8 * packed_rows;
    for (std::size_t m = 0; m < rows; m += ak == 1 ? packed_rows : together)
        for (std::size_t k = 0; k < depth; ++k) {
            if (ak == 1) six(m, k);
            else
                for (std::size_t g = m; g < std::min(rows, m + together); g += packed_rows) six(g, k);
        }
}

enum class Ending : unsigned char { store, add, resume };  // `resume`: the sum goes on with what lies in c

// Six rows of a against NV registers of a panel.
template <std::size_t Bytes, std::size_t NV>
TESSERA_INLINE void packed_outer_tile(const float* a, const float* b, float* c, std::size_t ldc, std::size_t depth,
                                      Ending ending) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t M = packed_rows, lanes = VectorOf<float, Bytes>::lanes;
    Held<float, Bytes> sum[M][NV] = {};
    if (ending == Ending::resume) {
#pragma GCC unroll 6
        for (std::size_t m = 0; m < M; ++m)
#pragma GCC unroll 4
            for (std::size_t v = 0; v < NV; ++v) sum[m][v] = *reinterpret_cast<const Vec*>(c + m * ldc + v * lanes);
    }
    for (std::size_t k = 0; k < depth; ++k, a += M, b += panel_width<Bytes>) {
        Held<float, Bytes> bv[NV];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < NV; ++v) bv[v] = *reinterpret_cast<const Vec*>(b + v * lanes);
#pragma GCC unroll 6
        for (std::size_t m = 0; m < M; ++m) {
            const float factor = a[m];
#pragma GCC unroll 4
            for (std::size_t v = 0; v < NV; ++v) sum[m][v] += factor * bv[v];
        }
    }
#pragma GCC unroll 6
    for (std::size_t m = 0; m < M; ++m)
#pragma GCC unroll 4
        for (std::size_t v = 0; v < NV; ++v) {
            Vec& at = *reinterpret_cast<Vec*>(c + m * ldc + v * lanes);
            if (ending == Ending::add) at += sum[m][v];
            else at = sum[m][v];
        }
}
// The same where only `rows` and `columns` of the tile are in c.
template <std::size_t Bytes, std::size_t NV>
TESSERA_INLINE void packed_edge_tile(const float* a, const float* b, float* c, std::size_t ldc, std::size_t depth,
                                     Ending ending, std::size_t rows, std::size_t columns) {
    constexpr std::size_t width = NV * VectorOf<float, Bytes>::lanes;
    float tile[packed_rows * width] = {};
    if (ending != Ending::store)
        for (std::size_t m = 0; m < rows; ++m) std::memcpy(tile + m * width, c + m * ldc, columns * sizeof(float));
    packed_outer_tile<Bytes, NV>(a, b, tile, width, depth, ending);
    for (std::size_t m = 0; m < rows; ++m) std::memcpy(c + m * ldc, tile + m * width, columns * sizeof(float));
}

// A panel of b is as deep as lies in L2 with what passes it; a six of a is read from L1 meanwhile, and so is the tile
// of c where chunks of `deep` are added up.
inline constexpr std::size_t packed_depth = 1024;

template <class, std::size_t Bytes>
TESSERA_INLINE void packed_outer_body(const float* a, std::size_t ak, std::size_t am, const float* const* b, float* c,
                                      std::size_t ldc, std::size_t rows, std::size_t columns, std::size_t depth,
                                      std::size_t deep) {
    constexpr std::size_t width = panel_width<Bytes>, lanes = VectorOf<float, Bytes>::lanes, NV = Bytes == 64 ? 4 : 2;
    if (depth == 0)
        for (std::size_t m = 0; m < rows; ++m) std::fill_n(c + m * ldc, columns, 0.0f);
    if (depth == 0 || rows == 0 || columns == 0) return;
    const std::size_t chunk = std::min(deep, depth);
    const bool resumes = chunk == depth;  // one chunk, taken by pieces; else whole chunks are taken together
    const std::size_t most =
        resumes ? std::min(packed_depth, depth) : std::max(packed_depth / chunk, std::size_t{1}) * chunk;
    const std::size_t block = even_piece(rows, std::max(packed_numbers / most, packed_rows), packed_rows);
    const Scratch<float> left(block * most);
    const Scratch<float> right(width * most);
    for (std::size_t row = 0; row < rows; row += block) {
        const std::size_t n = std::min(block, rows - row);
        for (std::size_t k = 0; k < depth; k += most) {
            const std::size_t d = std::min(most, depth - k);
            pack_sixes(a + k * ak + row * am, ak, am, n, d, left.data());
            for (std::size_t first = 0; first < columns; first += width) {
                const std::size_t wanted = std::min(width, columns - first);
                pack_panel<Bytes>({.table = b}, k, d, first, columns, right.data());
                for (std::size_t m = 0; m < n; m += packed_rows)
                    for (std::size_t v = 0; v < wanted; v += NV * lanes)
                        for (std::size_t q = 0; q < d; q += chunk) {
                            const float *six = left.data() + m * d + q * packed_rows,
                                        *panel = right.data() + q * width + v;
                            float* to = c + (row + m) * ldc + first + v;
                            const std::size_t n_k = std::min(chunk, d - q);
                            const Ending ending = k + q == 0 ? Ending::store : resumes ? Ending::resume : Ending::add;
                            if (m + packed_rows <= n && v + NV * lanes <= wanted)
                                packed_outer_tile<Bytes, NV>(six, panel, to, ldc, n_k, ending);
                            else
                                packed_edge_tile<Bytes, NV>(six, panel, to, ldc, n_k, ending,
                                                            std::min(packed_rows, n - m),
                                                            std::min(NV * lanes, wanted - v));
                        }
            }
        }
    }
}

}  // namespace detail

TESSERA_DISPATCH(packed_affine, float,
                 (const float* const* x, const float* w, const float* bias, float* y, std::size_t batch, std::size_t in,
                  std::size_t out),
                 (x, w, bias, y, batch, in, out))
TESSERA_DISPATCH(packed_outer, float,
                 (const float* a, std::size_t ak, std::size_t am, const float* const* b, float* c, std::size_t ldc,
                  std::size_t rows, std::size_t columns, std::size_t depth, std::size_t deep),
                 (a, ak, am, b, c, ldc, rows, columns, depth, deep))

// `affine`, `outer_products` and `affine_update_rows` of rows in a table, packed where that pays: in products whose
// right factor is larger than L2 (or, forward, half of it) with rows enough to read the copies. By hand on Zen 4,
// AVX-512: 64 rows of 1024 forward 1.25 times as fast, 1024 rows 1.26, gradients 1.02 and 1.15, 2048 rows 1.4, 1.08
// and 1.47; below these bounds copies cost up to a tenth.
inline constexpr std::size_t least_packed_factor = std::size_t{1} << 18, least_packed_rows = 256;
template <class R>
void affine_of_many(const R* const* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                    std::size_t out) {
    if constexpr (std::is_same_v<R, float>)
        if (batch >= 48 && in * out >= least_packed_factor && in >= 256 && in <= 8192)
            return packed_affine(x, w, bias, y, batch, in, out);
    affine(x, w, bias, y, batch, in, out);
}
template <class R>
void affine_of_many(const R* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in, std::size_t out) {
    affine_of_many(RowTable<R>(x, batch, in).rows(), w, bias, y, batch, in, out);
}
namespace detail {
inline bool outer_packs(std::size_t rows, std::size_t columns, std::size_t depth) {
    return rows >= least_packed_rows && columns >= 64 && depth * columns >= 2 * least_packed_factor;
}
}  // namespace detail
template <class R>
void outer_products_of_many(const R* a, std::size_t ak, std::size_t am, const R* const* b, R* c, std::size_t rows,
                            std::size_t columns, std::size_t depth, std::size_t deep) {
    if constexpr (std::is_same_v<R, float>)
        if (detail::outer_packs(rows, columns, depth))
            return packed_outer(a, ak, am, b, c, columns, rows, columns, depth, deep);
    outer_products(a, ak, am, b, c, rows, columns, depth, deep);
}

template <class R>
void affine_input_gradient_of_many(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in, std::size_t out) {
    outer_products_of_many(dy, 1, out, RowTable<R>(w, out, in).rows(), dx, batch, in, out, 128);
}
template <class R>
void affine_update_rows_of_many(const R* dy, const R* const* x, R* w, std::size_t batch, std::size_t in,
                                std::size_t out, std::size_t first, std::size_t last, const UpdateVectors<R>& reads,
                                const UpdateNumbers<R>& numbers) {
    if constexpr (std::is_same_v<R, float>)
        if (detail::outer_packs(last - first, in, batch)) {  // the gradient of some rows is stored, and they move
            const std::size_t block = detail::even_piece(last - first, 512, 1);
            const Scratch<float> slopes(block * in);
            const auto descend = [&](std::size_t from, std::size_t n) {
                const auto own = reads.at(from);
                update(w + from, slopes.data(), own.prox_center, own.linear, own.velocity, n, 1.0f, numbers);
            };
            for (std::size_t o = first; o < last; o += block) {
                const std::size_t n = std::min(block, last - o);
                packed_outer(dy + o, out, 1, x, slopes.data(), in, n, in, batch, batch);
                descend(o * in, n * in);
            }
            column_sums(dy + first, out, slopes.data(), batch, last - first, detail::Epilogue<float>{});
            return descend(out * in + first, last - first);
        }
    affine_update_rows(dy, x, w, batch, in, out, first, last, reads, numbers);
}

}  // namespace tessera::kernels
