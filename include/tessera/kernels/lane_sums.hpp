// SPDX-License-Identifier: BSD-3-Clause
// Sums across the lanes of as many accumulators as a register has lanes, in one register: transposed reductions.
#pragma once

#include <cstddef>
#include <utility>

#include <tessera/kernels/vector.hpp>

namespace tessera::kernels::detail {

// One step of a transposed reduction: folds lanes of a and of b onto each other, `width` lanes apart, and packs
// both results into one register. log2(lanes) levels of it turn `lanes` accumulators into one register of sums.
template <class R, std::size_t Bytes, std::size_t Width, std::size_t... Lane>
TESSERA_INLINE void fold_pair(Held<R, Bytes>* acc, std::size_t i, std::index_sequence<Lane...>) {
    constexpr std::size_t lanes = sizeof...(Lane), half = lanes / 2;
    const Held<R, Bytes> a = acc[2 * i], b = acc[2 * i + 1];
    // Output lane l reads accumulator l / half; inside it, group (l % half) / Width starts every 2 * Width lanes.
    acc[i] = __builtin_shufflevector(a, b, (Lane / half * lanes + Lane % half / Width * 2 * Width + Lane % Width)...) +
             __builtin_shufflevector(a, b,
                                     (Lane / half * lanes + Lane % half / Width * 2 * Width + Width + Lane % Width)...);
}
template <class R, std::size_t Bytes, std::size_t Width, std::size_t Count>
TESSERA_INLINE void fold_lanes(Held<R, Bytes>* acc) {
    if constexpr (Count > 1) {
#pragma GCC unroll 16
        for (std::size_t i = 0; i < Count / 2; ++i)
            fold_pair<R, Bytes, Width>(acc, i, std::make_index_sequence<VectorOf<R, Bytes>::lanes>{});
        fold_lanes<R, Bytes, Width / 2, Count / 2>(acc);
    }
}

// The same tree with the sum of acc[i] in lane i: one shuffle and one blend a pair, of which only the shuffle needs
// the one port that has them. Of `Count` accumulators; lanes behind them are nobody's.
template <class R, std::size_t Bytes, std::size_t Width, std::size_t... Lane>
TESSERA_INLINE void blend_pair(const Held<R, Bytes>& a, const Held<R, Bytes>& b, Held<R, Bytes>& to,
                               std::index_sequence<Lane...>) {
    constexpr std::size_t lanes = sizeof...(Lane);
    to = __builtin_shufflevector(a, b, ((Lane & Width) == 0 ? Lane : lanes + Lane)...) +
         __builtin_shufflevector(a, b, ((Lane & Width) == 0 ? Lane + Width : lanes + Lane - Width)...);
}
template <class R, std::size_t Bytes, std::size_t Count, std::size_t Width = VectorOf<R, Bytes>::lanes / 2>
TESSERA_INLINE void blend_lanes(Held<R, Bytes>* acc) {
    if constexpr (Width > 0) {
#pragma GCC unroll 16
        for (std::size_t i = 0; i < Width; ++i)
            if (i < Count)
                blend_pair<R, Bytes, Width>(acc[i], acc[i + Width < Count ? i + Width : i], acc[i],
                                            std::make_index_sequence<VectorOf<R, Bytes>::lanes>{});
        blend_lanes<R, Bytes, (Count < Width ? Count : Width), Width / 2>(acc);
    }
}

}  // namespace tessera::kernels::detail
