// SPDX-License-Identifier: BSD-3-Clause
// Weighted mean of the cohort: w = sum_k weight_k x_k / sum_k weight_k.
//
// Sums are kept in double relative to the largest weight seen, so that equal weights count as exactly 1:
// `samples`, `uniform` and `batches` give the same bits when sizes are equal, any common factor drops out,
// and the mean of equal float vectors is that vector. With masks an absent coordinate reads "unchanged",
// which makes this FedSpa's mean of updates.
//
// Cost: O(d n); streams with O(d log n) memory. All weights zero leaves w as it was.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include <tessera/contracts/adder.hpp>
#include <tessera/contracts/fold.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/mean.hpp>

namespace tessera::fold {

struct Mean {
    static constexpr auto offers = offer::streams | offer::masked | offer::lift_width;
    static constexpr std::size_t lift_width = kernels::mean_streams;

    template <class R>
    struct Sum {
        SumValues values;
        double total = 0;    // sum of weight / largest
        double largest = 0;  // 0: nothing in it
    };

    template <class R>
    void lift(const Row<R>& row, const Vec<R>& before, Sum<R>& sum) const {
        sum.largest = row.weight;
        sum.total = 1;
        if (row.weight == 0) return;
        sum.values.resize(before.size());
        if (!row.mask) {
            kernels::widen(row.x.data(), sum.values.data(), before.size());
            return;
        }
        std::array<R, kernels::packed_tile> tile;
        const R* packed = row.x.data();
        for (std::size_t j = 0; j < before.size(); j += tile.size()) {
            const std::size_t n = std::min(tile.size(), before.size() - j);
            kernels::expand(&packed, row.mask->words().data() + j / 64, before.data() + j, tile.data(), n);
            kernels::widen(tile.data(), sum.values.data() + j, n);
        }
    }
    template <class R>
    void lift(Rows<R> rows, const Vec<R>& before, Sum<R>& sum) const {
        const auto flat = flattened(rows);
        const kernels::MeanPlan<R> plan(flat);
        sum.total = plan.weight().total;
        sum.largest = plan.weight().largest;
        if (sum.largest == 0) return;
        if (auto* const other = Adder<R>::here())
            if (sum.values = other->lift(rows, before); sum.values.size() > 0) return;
        sum.values.resize(before.size());
        plan.sum(before.data(), sum.values.data(), before.size());
    }
    template <class R>
    void add(Sum<R>& into, const Sum<R>& other) const {
        if (other.largest == 0) return;
        if (into.largest == 0) {
            into = other;
            return;
        }
        kernels::MeanWeight weight{into.total, into.largest};
        const auto scales = kernels::join(weight, {other.total, other.largest});
        if (!into.values.add_elsewhere(scales.left, other.values, scales.right))
            kernels::join_sums(into.values.data(), scales.left, other.values.data(), scales.right, into.values.size());
        into.total = weight.total;
        into.largest = weight.largest;
    }
    template <class M>
    void finish(const Context<M>&, Vec<real<M>>& w, const Sum<real<M>>& sum, Nothing&) const {
        if (sum.largest == 0) return;
        kernels::quotient(sum.values.data(), sum.total, w.data(), w.size());
    }

    // The same sums, a tile of coordinates at a time, many rows at once; pieces of the vector know nothing of each
    // other and go to the crew where there is a millisecond's work for each.
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        const auto flat = flattened(rows);
        const kernels::MeanPlan<real<M>> plan(flat);
        const std::size_t tiles = (w.size() + kernels::mean_tile - 1) / kernels::mean_tile;
        const std::size_t pieces = std::clamp<std::size_t>(w.size() * rows.size() >> 22, 1, Crew::size());
        Crew::for_each(pieces, [&](std::size_t p) {
            plan.run(w.data(), tiles * p / pieces * kernels::mean_tile,
                     std::min(w.size(), tiles * (p + 1) / pieces * kernels::mean_tile));
        });
    }

private:
    template <class R>
    static Vec<kernels::MeanRow<R>> flattened(Rows<R> rows) {
        Vec<kernels::MeanRow<R>> flat;
        flat.reserve(rows.size());
        for (const auto& row : rows)
            flat.push_back({row.x.data(), row.weight, row.mask ? row.mask->words().data() : nullptr});
        return flat;
    }
};

}  // namespace tessera::fold
