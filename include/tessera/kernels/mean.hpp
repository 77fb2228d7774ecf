// SPDX-License-Identifier: BSD-3-Clause
// Weighted mean of many client vectors in one pass, bit for bit the same in every kernel set.
//
// Sums are double, relative to the largest weight under a node, along the fixed binary tree over positions
// (runtime/cohort.hpp adds along the same one). Eight rows of a subtree are added up in registers; above that
// partial sums of a tile stay in a cache. Coordinates do not know each other, so a vector may be cut at multiples of
// `mean_tile` and the pieces given to any number of threads. Packed masked rows are expanded on the way
// (scripts/bench --only mean).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/cache.hpp>
#include <tessera/kernels/mean_sums.hpp>

namespace tessera::kernels {

// One client's vector. With a mask (the words of core/mask.hpp) x holds the active coordinates only.
template <class R>
struct MeanRow {
    const R* x = nullptr;
    double weight = 1;
    const std::uint64_t* mask = nullptr;
};

// How rows come from memory; the bits are the same either way. Near: into the first-level cache, ten lines ahead, tiles
// of a page. Far: into the second-level one, from farther ahead, with longer tiles. On Zen 4 near takes 25 ms where far
// takes 16.5 (by hand, 100 x 1e6). A part of that is known: long vectors begin at the same place of a page, so the
// lines of eight rows share a set of the first-level cache, which has only eight ways there; rows 512 bytes apart from
// that take 21 ms. The rest is not understood. On the Xeon, with 12 ways, the parts of far gained nothing one by one;
// the whole was not measured there. The rule is a line between these two CPUs.
struct MeanFetch {
    bool near;
    std::size_t tile;  // a multiple of mean_tile
};
inline constexpr MeanFetch near_fetch{true, mean_tile}, far_fetch{false, 4 * mean_tile};
constexpr MeanFetch fetch_for(std::size_t ways) { return ways > mean_streams ? near_fetch : far_fetch; }
// Tests assign to it; everybody else reads.
inline MeanFetch& mean_fetch() {
    static MeanFetch fetch = fetch_for(l1_ways());
    return fetch;
}

// What a mean of these rows needs to know before it reads them. The rows must outlive it.
template <class R>
class MeanPlan {
public:
    explicit MeanPlan(std::span<const MeanRow<R>> rows)
        : rows_(rows), groups_((rows.size() + mean_streams - 1) / mean_streams), order_(groups_), factors_(groups_),
          scaled_(groups_), joined_(groups_) {
        std::array<MeanWeight, 64> waiting;  // by level; a sum at level l is of 2^l groups
        for (std::size_t g = 0; g < groups_; ++g) {
            MeanWeight sum = plan_group(g);
            // The bits of g are the sums that wait. This one meets those of its own size, the last one all of them.
            std::size_t level = 0;
            for (std::size_t bits = g; bits != 0 && (bits % 2 == 1 || g + 1 == groups_); bits /= 2, ++level)
                if (bits % 2 == 1) {
                    scales_.push_back(join(waiting[level], sum));
                    sum = waiting[level];
                }
            waiting[level] = weight_ = sum;
            joined_[g] = scales_.size();
        }
    }

    const MeanWeight& weight() const { return weight_; }

    // w[begin, end) = the mean there; w holds what absent coordinates read. `begin` is a multiple of mean_tile.
    void run(R* w, std::size_t begin, std::size_t end) const {
        if (weight_.largest == 0) return;
        each_tile(w, begin, end, nullptr, w);
    }
    // The sums of n coordinates, which the mean divides by weight().total.
    void sum(const R* before, double* out, std::size_t n) const {
        each_tile(before, 0, n, out, nullptr);
    }

private:
    struct Packed {  // the next tile of a packed row is about as long as this one
        const R* next = nullptr;
        std::size_t used = packed_tile / 2;
        void advance(const R* to) {
            used = static_cast<std::size_t>(to - next);
            next = to;
        }
    };

    // Tile by tile: sums go to `out` or, divided, to `mean`. `before` is what absent coordinates read.
    void each_tile(const R* before, std::size_t begin, std::size_t end, double* out, R* mean) const {
        Vec<Packed> packed(rows_.size());
        for (std::size_t r = 0; r < rows_.size(); ++r)
            if (rows_[r].mask) packed[r].next = rows_[r].x + count(rows_[r].mask, begin / 64);
        const bool masks = std::any_of(rows_.begin(), rows_.end(), [](const auto& row) { return row.mask != nullptr; });
        const MeanFetch fetch = mean_fetch();
        const std::size_t whole = (end - begin + mean_tile - 1) / mean_tile * mean_tile;
        const std::size_t tile = masks ? packed_tile : std::min(fetch.tile, whole);
        Vec<R> expanded(masks ? mean_streams * packed_tile : 0), absent(tile, R(-0.0));
        Vec<double> sums(tile * static_cast<std::size_t>(std::bit_width(groups_)));
        std::array<MeanJoint, 64> joints;
        for (std::size_t at = begin; at < end; at += tile) {
            const std::size_t n = std::min(tile, end - at);
            for (std::size_t g = 0; g < groups_; ++g) {
                // Partial sums lie one tile after the other, the oldest first; the last one is the whole.
                std::size_t met = 0;
                double* sum = sums.data() + tile * static_cast<std::size_t>(std::popcount(g));
                for (std::size_t i = g > 0 ? joined_[g - 1] : 0; i < joined_[g]; ++i)
                    joints[met++] = {sum -= tile, scales_[i]};
                MeanFinish<R> finish{joints.data(), joints.data() + met, sum};
                if (g + 1 == groups_) {
                    if (mean) finish.mean = mean + at;
                    else finish.sum = out + at;
                    finish.total = weight_.total;
                }
                if (masks) {
                    std::array<MeanLeaf<R>, mean_streams> leaf;
                    for (std::size_t k = 0; k < mean_streams; ++k) {
                        const std::size_t r = order_[g][k];
                        if (!counts(r)) leaf[k] = {absent.data(), nullptr, 0};
                        else if (!rows_[r].mask) leaf[k] = {rows_[r].x + at, nullptr, tile};
                        else leaf[k] = {packed[r].next, rows_[r].mask + at / 64, packed[r].used};
                        if (leaf[k].mask) __builtin_prefetch(leaf[k].mask + tile / 64);
                    }
                    sum_packed(leaf.data(), before + at, expanded.data(), factors_[g].data(), scaled_[g] != 0, finish,
                               n);
                    for (std::size_t k = 0; k < mean_streams; ++k)
                        if (leaf[k].mask) packed[order_[g][k]].advance(leaf[k].x);
                } else {
                    const auto leaf = dense(g, at, absent.data());
                    sum_eight(leaf.data(), factors_[g].data(), scaled_[g] != 0, finish, n, fetch.near);
                }
            }
        }
    }
    bool counts(std::size_t r) const { return r < rows_.size() && rows_[r].weight != 0; }
    static std::size_t count(const std::uint64_t* words, std::size_t n) {
        std::size_t sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += static_cast<std::size_t>(std::popcount(words[i]));
        return sum;
    }
    std::array<const R*, mean_streams> dense(std::size_t g, std::size_t at, const R* absent) const {
        std::array<const R*, mean_streams> leaf;
        for (std::size_t k = 0; k < mean_streams; ++k)
            leaf[k] = counts(order_[g][k]) ? rows_[order_[g][k]].x + at : absent;
        return leaf;
    }
    // Factors of the tree over eight rows, and the order of rows that puts the heavier side of each node first.
    MeanWeight plan_group(std::size_t g) {
        auto& order = order_[g];
        std::array<MeanWeight, mean_streams> sums;
        for (std::size_t k = 0; k < mean_streams; ++k) {
            order[k] = g * mean_streams + k;
            if (order[k] < rows_.size()) sums[k] = {1, rows_[order[k]].weight};
        }
        for (std::size_t wide = 1; wide < mean_streams; wide *= 2)
            for (std::size_t k = 0; k < mean_streams; k += 2 * wide) {
                const auto s = join(sums[k], sums[k + wide]);
                if (s.left != 1)  // a swap of two subtrees also moves the factors inside them
                    for (std::size_t i = 0; i < wide; ++i) std::swap(order[k + i], order[k + wide + i]);
                for (std::size_t level = 1; s.left != 1 && level < wide; level *= 2)
                    for (std::size_t i = 0; i < wide; i += 2 * level)
                        std::swap(factor(g, k + i, level), factor(g, k + wide + i, level));
                factor(g, k, wide) = s.left != 1 ? s.left : s.right;
                if (factor(g, k, wide) != 1) scaled_[g] = 1;
            }
        return sums[0];
    }
    // Of the node over rows k .. k + 2 * wide of a group.
    double& factor(std::size_t g, std::size_t k, std::size_t wide) {
        return factors_[g][(mean_streams + k) / (2 * wide)];
    }

    std::span<const MeanRow<R>> rows_;
    std::size_t groups_;
    Vec<std::array<std::size_t, mean_streams>> order_;
    Vec<std::array<double, mean_streams>> factors_;  // by node
    Vec<unsigned char> scaled_;
    Vec<std::size_t> joined_;  // joints done once group g is in
    Vec<MeanScales> scales_;
    MeanWeight weight_;
};

}  // namespace tessera::kernels
