// SPDX-License-Identifier: BSD-3-Clause
// The weighted mean as a recursion per coordinate: the specification, and the oracle of every kernel test.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::kernels::reference {

// A sum relative to the largest weight in it; largest is 0 where nothing is.
struct Weighed {
    double value = 0, total = 0, largest = 0;
};

inline Weighed join(Weighed left, Weighed right) {
    if (right.largest == 0) return left;
    if (left.largest == 0) return right;
    const double sl = left.largest >= right.largest ? 1 : left.largest / right.largest;
    const double sr = right.largest >= left.largest ? 1 : right.largest / left.largest;
    return {left.value * sl + right.value * sr, left.total * sl + right.total * sr,
            std::max(left.largest, right.largest)};
}

// What a row says about coordinate j: its number, or `before` where the mask has no bit.
template <class Row, class R>
R read(const Row& row, std::size_t j, R before) {
    if (!row.mask) return row.x[j];
    if ((row.mask[j / 64] >> (j % 64) & 1) == 0) return before;
    std::size_t rank = 0;
    for (std::size_t i = 0; i < j; ++i) rank += row.mask[i / 64] >> (i % 64) & 1;
    return row.x[rank];
}

// The left half holds the largest power of two below the number of rows.
template <class Row, class R>
Weighed tree(std::span<const Row> rows, std::size_t j, R before) {
    if (rows.size() == 1) return {static_cast<double>(read(rows[0], j, before)), 1, rows[0].weight};
    const std::size_t half = std::bit_ceil(rows.size()) / 2;
    return join(tree(rows.first(half), j, before), tree(rows.subspan(half), j, before));
}

// w[j] = sum_k weight_k x_k[j] / sum_k weight_k, for n coordinates; no weight at all leaves w.
template <class Row, class R>
void mean(std::span<const Row> rows, R* w, std::size_t n) {
    for (std::size_t j = 0; j < n && !rows.empty(); ++j) {
        const Weighed sum = tree(rows, j, w[j]);
        if (sum.largest > 0) w[j] = static_cast<R>(sum.value / sum.total);
    }
}

}  // namespace tessera::kernels::reference
