// SPDX-License-Identifier: BSD-3-Clause
// Tiles of matrix products whose columns are a panel, two registers of floats, and whose rows are as many as registers
// hold: what convolutions with channels innermost are made of.
#pragma once

#include <cstddef>
#include <utility>

#include <tessera/kernels/sparse_blocks.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels::detail {

// f(first, M) for groups of at most `Most` of `count` rows, as even as can be; sums do not depend on the group.
template <std::size_t Most, class F>
TESSERA_INLINE void even_groups(std::size_t count, const F& f) {
    const std::size_t groups = (count + Most - 1) / Most;
    for (std::size_t g = 0, first = 0; g < groups; ++g) {
        const std::size_t size = count / groups + (g < count % groups);
        [&]<std::size_t... M>(std::index_sequence<M...>) __attribute__((always_inline)) {
            ((size == M + 1 ? f(first, Count<M + 1>{}) : void()), ...);
        }
        (std::make_index_sequence<Most>{});
        first += size;
    }
}
// Rows of sums of two registers each that stay in registers.
template <std::size_t Bytes>
inline constexpr std::size_t panel_rows = Bytes == 64 ? 14 : 6;

// A finished tile of sums, rows of it `cm` apart; `add`: to what an earlier chunk left there. A chunk is added up by
// itself, because the longer a chain of sums the more it rounds.
template <std::size_t Bytes, std::size_t M>
TESSERA_INLINE void end_panel_tile(const Held<float, Bytes> (&sum)[M][2], float* c, std::size_t cm, bool add) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    if (add) {
#pragma GCC unroll 16
        for (std::size_t m = 0; m < M; ++m)
#pragma GCC unroll 2
            for (std::size_t v = 0; v < 2; ++v) *reinterpret_cast<Vec*>(c + m * cm + v * lanes) += sum[m][v];
        return;
    }
#pragma GCC unroll 16
    for (std::size_t m = 0; m < M; ++m)
#pragma GCC unroll 2
        for (std::size_t v = 0; v < 2; ++v) *reinterpret_cast<Vec*>(c + m * cm + v * lanes) = sum[m][v];
}
// c[m*cm + panel] (+)= sum_k a[m*am + k*ak] b[k*bk + panel]
template <std::size_t Bytes, std::size_t M>
TESSERA_INLINE void panel_tile(const float* a, std::size_t am, std::size_t ak, const float* b, std::size_t bk, float* c,
                               std::size_t cm, std::size_t depth, bool add) {
    using Vec = V<float, Bytes>;
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    Held<float, Bytes> sum[M][2] = {};
    for (std::size_t k = 0; k < depth; ++k, a += ak, b += bk) {
        const Held<float, Bytes> b0 = *reinterpret_cast<const Vec*>(b);
        const Held<float, Bytes> b1 = *reinterpret_cast<const Vec*>(b + lanes);
#pragma GCC unroll 16
        for (std::size_t m = 0; m < M; ++m) {
            sum[m][0] += a[m * am] * b0;
            sum[m][1] += a[m * am] * b1;
        }
    }
    end_panel_tile<Bytes, M>(sum, c, cm, add);
}

}  // namespace tessera::kernels::detail
