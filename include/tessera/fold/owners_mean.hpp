// SPDX-License-Identifier: BSD-3-Clause
// Weighted mean over the owners of each coordinate: w_j = sum_{k owns j} weight_k x_kj / sum_{k owns j} weight_k.
//
// A coordinate that nobody owns stays as it was. Without masks, or with full ones, this is fold::Mean, bit for bit:
// sums are kept in double relative to the largest weight and added along the same fixed tree.
//
// Cost: O(d n); streams with O(d log n) memory, twice that of Mean.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include <tessera/contracts/fold.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/mean.hpp>

namespace tessera::fold {

struct OwnersMean {
    static constexpr auto offers = offer::streams | offer::masked;
    template <class R>
    struct Sum {
        Vec<double> values, totals;  // of weight / largest
        double largest = 0;          // 0: nothing in it
    };

    template <class R>
    void lift(const Row<R>& row, const Vec<R>& before, Sum<R>& sum) const {
        sum.largest = row.weight;
        if (row.weight == 0) return;
        sum.values.resize(before.size());
        sum.totals.resize(before.size());
        const R* packed = row.x.data();
        for (std::size_t j = 0; j < before.size(); j += tile)
            lift_tile(row, &packed, j, std::min(tile, before.size() - j), sum.values.data() + j, sum.totals.data() + j);
    }
    template <class R>
    void add(Sum<R>& into, const Sum<R>& other) const {
        if (other.largest == 0) return;
        if (into.largest == 0) {
            into = other;
            return;
        }
        const auto scales = scales_of(into.largest, other.largest);
        kernels::join_sums(into.values.data(), scales.left, other.values.data(), scales.right, into.values.size());
        kernels::join_sums(into.totals.data(), scales.left, other.totals.data(), scales.right, into.totals.size());
        into.largest = std::max(into.largest, other.largest);
    }
    template <class M>
    void finish(const Context<M>&, Vec<real<M>>& w, const Sum<real<M>>& sum, Nothing&) const {
        if (sum.largest > 0) divide(sum.values.data(), sum.totals.data(), w.data(), w.size());
    }

    // The same sums, a tile of coordinates at a time; pieces go to the crew as in Mean.
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        const std::size_t tiles = (w.size() + tile - 1) / tile;
        const std::size_t pieces = std::clamp<std::size_t>(w.size() * rows.size() >> 22, 1, Crew::size());
        Crew::for_each(pieces, [&](std::size_t p) {
            fold_piece<real<M>>(w, rows, tiles * p / pieces * tile,
                                std::min(w.size(), tiles * (p + 1) / pieces * tile));
        });
    }

private:
    static constexpr std::size_t tile = kernels::packed_tile;

    struct TileSum {
        std::array<double, tile> values, totals;
        double largest;
    };

    static kernels::MeanScales scales_of(double left, double right) {
        return {left >= right ? 1 : left / right, right >= left ? 1 : right / left};
    }

    // Coordinates [j, j + n) of a row, zeros where it owns none. *packed is where its next number stands.
    template <class R>
    static void lift_tile(const Row<R>& row, const R** packed, std::size_t j, std::size_t n, double* values,
                          double* totals) {
        if (!row.mask) {
            kernels::widen(row.x.data() + j, values, n);
            std::fill_n(totals, n, 1.0);
            return;
        }
        static constexpr std::array<R, tile> nothing{};
        std::array<R, tile> expanded;
        const std::uint64_t* words = row.mask->words().data() + j / 64;
        kernels::expand(packed, words, nothing.data(), expanded.data(), n);
        kernels::widen(expanded.data(), values, n);
        for (std::size_t i = 0; i < n; ++i) totals[i] = static_cast<double>(words[i / 64] >> (i % 64) & 1);
    }
    template <class R>
    static void divide(const double* values, const double* totals, R* w, std::size_t n) {
        for (std::size_t j = 0; j < n; ++j)
            if (totals[j] > 0) w[j] = static_cast<R>(values[j] / totals[j]);
    }

    template <class R>
    static void fold_piece(Vec<R>& w, Rows<R> rows, std::size_t begin, std::size_t end) {
        Vec<const R*> packed(rows.size());
        for (std::size_t r = 0; r < rows.size(); ++r) {
            packed[r] = rows[r].x.data();
            if (rows[r].mask)
                for (std::size_t i = 0; i < begin / 64; ++i) packed[r] += std::popcount(rows[r].mask->words()[i]);
        }
        // The binary digits of r are the sums that wait when row r arrives: a row meets those of its own size.
        Scratch<TileSum> waiting(static_cast<std::size_t>(std::bit_width(rows.size())) + 1);
        for (std::size_t at = begin; at < end; at += tile) {
            const std::size_t n = std::min(tile, end - at);
            std::size_t depth = 0;
            for (std::size_t r = 0; r < rows.size(); ++r) {
                TileSum& sum = waiting[depth++];
                sum.largest = rows[r].weight;
                if (sum.largest > 0) lift_tile(rows[r], &packed[r], at, n, sum.values.data(), sum.totals.data());
                for (std::size_t bits = r; bits % 2 == 1; bits /= 2, --depth)
                    join(waiting[depth - 2], waiting[depth - 1], n);
            }
            for (; depth > 1; --depth) join(waiting[depth - 2], waiting[depth - 1], n);
            if (depth == 1 && waiting[0].largest > 0)
                divide(waiting[0].values.data(), waiting[0].totals.data(), w.data() + at, n);
        }
    }
    static void join(TileSum& left, const TileSum& right, std::size_t n) {
        if (right.largest == 0) return;
        if (left.largest == 0) {
            left = right;
            return;
        }
        const auto scales = scales_of(left.largest, right.largest);
        kernels::join_sums(left.values.data(), scales.left, right.values.data(), scales.right, n);
        kernels::join_sums(left.totals.data(), scales.left, right.totals.data(), scales.right, n);
        left.largest = std::max(left.largest, right.largest);
    }
};

}  // namespace tessera::fold
