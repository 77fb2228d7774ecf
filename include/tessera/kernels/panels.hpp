// SPDX-License-Identifier: BSD-3-Clause
// Products of many rows, as sequences have them: one factor is packed into panels of four registers' width, and depth
// goes by chunks, so that a chunk of a panel stays in L1 while all rows pass it. Float only.
//
//   panel_products          c = a b, with b given as it lies, or packed before (for a matrix that many products read)
//   panel_outer_products    c = a^T b over the rows of both: weight gradients
//
// A chunk is added up by itself and then to the sum of those before it, as in kernels/outer.hpp: the bits of a row of c
// do not depend on how many rows there are, nor on its place among them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/panel_tile.hpp>
#include <tessera/kernels/tiles.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

// b(k, j) lies at b[k*bk + j*bj], one of the two strides being 1; or in row k of a table at j.
struct PanelSource {
    const float* b = nullptr;
    const float* const* table = nullptr;
    std::size_t bk = 0, bj = 1;

    bool given() const { return b || table; }
};
inline constexpr std::size_t widest_panel = 64;  // columns of any set's panel divide it

namespace detail {

inline constexpr std::size_t panel_chunk = 128;  // of depth: 32 KiB of a panel of AVX-512
template <std::size_t Bytes>
inline constexpr std::size_t panel_width = 4 * VectorOf<float, Bytes>::lanes;

// The first n numbers of a register.
template <std::size_t Bytes>
TESSERA_INLINE void store_first(const Held<float, Bytes>& v, float* to, const float* bias, std::size_t n, bool add) {
    float all[VectorOf<float, Bytes>::lanes];
    std::memcpy(all, &v, sizeof all);
    for (std::size_t j = 0; j < n; ++j) to[j] = add ? to[j] + all[j] : bias ? all[j] + bias[j] : all[j];
}

// to[k][0..width) = b(from + k, first + .), zeros past `columns`.
template <std::size_t Bytes>
TESSERA_INLINE void pack_panel(const PanelSource& s, std::size_t from, std::size_t depth, std::size_t first,
                               std::size_t columns, float* to) {
    constexpr std::size_t width = panel_width<Bytes>;
    const std::size_t n = std::min(width, columns - first);
    if (s.table || s.bj == 1) {
        for (std::size_t k = 0; k < depth; ++k, to += width) {
            const float* row = (s.table ? s.table[from + k] : s.b + (from + k) * s.bk) + first;
            if (n == width) {
                std::memcpy(to, row, sizeof(float) * width);
            } else {
                std::memcpy(to, row, sizeof(float) * n);
                std::memset(to + n, 0, sizeof(float) * (width - n));
            }
        }
        return;
    }
    // Columns become rows: 16 by 16 numbers at a time where there are as many.
    constexpr std::size_t block = tiles::lanes;
    const float* column = s.b + from + first * s.bj;
    std::size_t j = 0;
    if constexpr (Bytes == 64) {
        for (; j + block <= n; j += block) {
            std::size_t k = 0;
            for (; k + block <= depth; k += block) {
                tiles::Floats rows[block];
#pragma GCC unroll 16
                for (std::size_t i = 0; i < block; ++i)
                    std::memcpy(&rows[i], column + (j + i) * s.bj + k, sizeof rows[i]);
                tiles::transpose(rows);
#pragma GCC unroll 16
                for (std::size_t i = 0; i < block; ++i) std::memcpy(to + (k + i) * width + j, &rows[i], sizeof rows[i]);
            }
            for (; k < depth; ++k)
                for (std::size_t i = 0; i < block; ++i) to[k * width + j + i] = column[(j + i) * s.bj + k];
        }
    }
    for (; j < n; ++j)
        for (std::size_t k = 0; k < depth; ++k) to[k * width + j] = column[j * s.bj + k];
    for (; j < width; ++j)
        for (std::size_t k = 0; k < depth; ++k) to[k * width + j] = 0;
}

// M rows against NV registers of a panel, a chunk of depth; `add`: to what is there.
template <std::size_t Bytes, std::size_t M, std::size_t NV>
TESSERA_INLINE void chunk_tile(const float* a, std::size_t am, std::size_t ak, const float* b, const float* bias,
                               float* c, std::size_t cm, std::size_t depth, std::size_t columns, bool add) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    Held<float, Bytes> sum[M][NV] = {};
    for (std::size_t k = 0; k < depth; ++k, a += ak, b += panel_width<Bytes>) {
        Held<float, Bytes> bv[NV];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < NV; ++v) bv[v] = *reinterpret_cast<const Vec*>(b + v * lanes);
#pragma GCC unroll 8
        for (std::size_t m = 0; m < M; ++m) {
            const float factor = a[m * am];
#pragma GCC unroll 4
            for (std::size_t v = 0; v < NV; ++v) sum[m][v] += factor * bv[v];
        }
    }
    if (columns >= NV * lanes) {
        if (bias && !add) {
#pragma GCC unroll 8
            for (std::size_t m = 0; m < M; ++m)
#pragma GCC unroll 4
                for (std::size_t v = 0; v < NV; ++v) sum[m][v] += *reinterpret_cast<const Vec*>(bias + v * lanes);
        }
#pragma GCC unroll 8
        for (std::size_t m = 0; m < M; ++m)
#pragma GCC unroll 4
            for (std::size_t v = 0; v < NV; ++v) {
                Vec& to = *reinterpret_cast<Vec*>(c + m * cm + v * lanes);
                if (add) to += sum[m][v];
                else to = sum[m][v];
            }
        return;
    }
    for (std::size_t m = 0; m < M; ++m)
        for (std::size_t v = 0; v * lanes < columns; ++v) {
            const std::size_t n = std::min(lanes, columns - v * lanes);
            store_first<Bytes>(sum[m][v], c + m * cm + v * lanes, bias && !add ? bias + v * lanes : nullptr, n, add);
        }
}

// All rows against a chunk of a panel, `columns` of it wanted. `group`: numbers between groups of six rows of a packed
// a.
template <std::size_t Bytes, bool Packed>
TESSERA_INLINE void chunk_rows(const float* a, std::size_t am, std::size_t ak, std::size_t group, const float* b,
                               const float* bias, float* c, std::size_t cm, std::size_t rows, std::size_t depth,
                               std::size_t columns, bool add) {
    constexpr std::size_t most = 6, lanes = VectorOf<float, Bytes>::lanes;
    const auto take = [&](std::size_t m, auto count) __attribute__((always_inline)) {
        constexpr std::size_t M = count();
        const float* from = Packed ? a + m / most * group : a + m * am;
        float* to = c + m * cm;
        if constexpr (Bytes == 64) {
            if (columns > 2 * lanes) return chunk_tile<Bytes, M, 4>(from, am, ak, b, bias, to, cm, depth, columns, add);
            if (columns > lanes) return chunk_tile<Bytes, M, 2>(from, am, ak, b, bias, to, cm, depth, columns, add);
            chunk_tile<Bytes, M, 1>(from, am, ak, b, bias, to, cm, depth, columns, add);
        } else {
            for (std::size_t v = 0; v < columns; v += 2 * lanes)
                chunk_tile<Bytes, M, 2>(from, am, ak, b + v, bias ? bias + v : nullptr, to + v, cm, depth, columns - v,
                                        add);
        }
    };
    if constexpr (Packed) {
        std::size_t m = 0;
        for (; m + most <= rows; m += most) take(m, Count<most>{});
        if (m < rows)
            even_groups<most - 1>(
                rows - m, [&](std::size_t, auto count) __attribute__((always_inline)) { take(m, count); });
    } else {
        even_groups<most>(rows, take);
    }
}

// c[m][j] = bias[j] + sum_k a[m*am + k] b(k, j). Without a source `room` has all panels; else one is packed there.
template <std::size_t Bytes>
TESSERA_INLINE void panel_products(const float* a, std::size_t am, const PanelSource& source, float* room,
                                   const float* bias, float* c, std::size_t cm, std::size_t rows, std::size_t depth,
                                   std::size_t columns) {
    constexpr std::size_t width = panel_width<Bytes>;
    for (std::size_t first = 0; first < columns; first += width) {
        if (source.given()) pack_panel<Bytes>(source, 0, depth, first, columns, room);
        const float* panel = source.given() ? room : room + first * depth;
        for (std::size_t k = 0; k == 0 || k < depth; k += panel_chunk)
            chunk_rows<Bytes, false>(a + k, am, 1, 0, panel + k * width, bias ? bias + first : nullptr, c + first, cm,
                                     rows, std::min(panel_chunk, depth - k), std::min(width, columns - first), k > 0);
    }
}
template <class, std::size_t Bytes>
TESSERA_INLINE void panel_products_body(const float* a, std::size_t am, const PanelSource& source, float* room,
                                        const float* bias, float* c, std::size_t cm, std::size_t rows,
                                        std::size_t depth, std::size_t columns) {
    panel_products<Bytes>(a, am, source, room, bias, c, cm, rows, depth, columns);
}
template <class, std::size_t Bytes>
TESSERA_INLINE void pack_panels_body(const PanelSource& source, std::size_t depth, std::size_t columns, float* to) {
    for (std::size_t first = 0; first < columns; first += panel_width<Bytes>)
        pack_panel<Bytes>(source, 0, depth, first, columns, to + first * depth);
}

// c[m][j] = sum_r a[r*ar + m] b(r, j) for `rows` m; `depth` is the number of r.
template <class, std::size_t Bytes>
TESSERA_INLINE void panel_outer_products_body(const float* a, std::size_t ar, const PanelSource& b, float* c,
                                              std::size_t cm, std::size_t rows, std::size_t depth,
                                              std::size_t columns) {
    constexpr std::size_t width = panel_width<Bytes>, most = 6;
    const std::size_t chunk = std::min(depth, panel_chunk), groups = (rows + most - 1) / most;
    const Scratch<float> left(groups * most * chunk), right(width * chunk);
    for (std::size_t r = 0; r == 0 || r < depth; r += panel_chunk) {
        const std::size_t n = std::min(panel_chunk, depth - r);
        for (std::size_t g = 0; g < groups; ++g) {
            float* to = left.data() + g * most * chunk;
            const float* from = a + r * ar + g * most;
            const std::size_t m = std::min(most, rows - g * most);
            for (std::size_t k = 0; k < n; ++k, to += most, from += ar)
                if (m == most) std::memcpy(to, from, most * sizeof(float));
                else std::memcpy(to, from, m * sizeof(float));
        }
        for (std::size_t first = 0; first < columns; first += width) {
            pack_panel<Bytes>(b, r, n, first, columns, right.data());
            chunk_rows<Bytes, true>(left.data(), 1, most, most * chunk, right.data(), nullptr, c + first, cm, rows, n,
                                    std::min(width, columns - first), r > 0);
        }
    }
}

}  // namespace detail

TESSERA_DISPATCH(panel_products, float,
                 (const float* a, std::size_t am, const PanelSource& source, float* room, const float* bias, float* c,
                  std::size_t cm, std::size_t rows, std::size_t depth, std::size_t columns),
                 (a, am, source, room, bias, c, cm, rows, depth, columns))
TESSERA_DISPATCH(pack_panels, float, (const PanelSource& source, std::size_t depth, std::size_t columns, float* to),
                 (source, depth, columns, to))
TESSERA_DISPATCH(panel_outer_products, float,
                 (const float* a, std::size_t ar, const PanelSource& b, float* c, std::size_t cm, std::size_t rows,
                  std::size_t depth, std::size_t columns),
                 (a, ar, b, c, cm, rows, depth, columns))

}  // namespace tessera::kernels
