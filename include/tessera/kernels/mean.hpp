// SPDX-License-Identifier: BSD-3-Clause
// Weighted mean of many client vectors in one pass, bit for bit the same in every kernel set.
//
// Sums are double, relative to the largest weight under a node, along the fixed binary tree over positions
// (runtime/cohort.hpp adds along the same one). Eight rows of a subtree are added up in registers; above that
// partial sums of a tile stay in the first-level cache. Coordinates do not know each other, so a vector may be
// cut at multiples of `mean_tile` and the pieces given to any number of threads. Packed masked rows are expanded
// a tile at a time. 100 rows of 1e6 floats: see benchmarks.
//
// Nothing is fused into multiply-adds here: a node's a*sa + b*sb must round alike wherever it is computed.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

// One client's vector. With a mask (the words of core/mask.hpp) x holds the active coordinates only.
template <class R>
struct MeanRow {
    const R* x = nullptr;
    double weight = 1;
    const std::uint64_t* mask = nullptr;
};

inline constexpr std::size_t mean_tile = 512;   // coordinates; a multiple of 64
inline constexpr std::size_t mean_streams = 8;  // rows added up in registers

// The weight of a sum: `total` counts weights relative to the largest one in it. Nothing in it: largest is 0.
struct MeanWeight {
    double total = 0, largest = 0;
};
struct MeanScales {
    double left = 1, right = 1;
};
// A sum that waits for its right-hand sibling.
struct MeanJoint {
    const double* left;
    MeanScales scales;
};

namespace detail {

// a = a*sa + b*sb
template <class T>
TESSERA_INLINE void scaled_sum(T& a, double sa, const T& b, double sb) {
    T product = b * sb;
    unfused(product);
    a *= sa;
    unfused(a);
    a += product;
}

}  // namespace detail

// One node of the tree; gives the factors of its two sides.
inline MeanScales join(MeanWeight& left, const MeanWeight& right) {
    if (right.largest == 0) return {};
    if (left.largest == 0) {
        left = right;
        return {};
    }
    const MeanScales s{left.largest >= right.largest ? 1 : left.largest / right.largest,
                       right.largest >= left.largest ? 1 : right.largest / left.largest};
    detail::scaled_sum(left.total, s.left, right.total, s.right);
    left.largest = std::max(left.largest, right.largest);
    return s;
}

namespace detail {

// The sum below `Node` of a complete tree over eight rows; node 1 is the root, 8..15 are the rows. The heavier side of
// a node comes first, so only the other one has a factor.
template <class R, std::size_t Bytes, bool Scaled, std::size_t Node>
TESSERA_INLINE void sum_below(const R* const (&rows)[mean_streams], std::size_t j, const double* factors,
                              Held<double, Bytes>& sum) {
    if constexpr (Node >= mean_streams) {
        load_wide<R, Bytes>(rows[Node - mean_streams] + j, sum);
    } else {
        Held<double, Bytes> lighter;
        sum_below<R, Bytes, Scaled, 2 * Node>(rows, j, factors, sum);
        sum_below<R, Bytes, Scaled, 2 * Node + 1>(rows, j, factors, lighter);
        if constexpr (Scaled) {
            lighter *= factors[Node];
            unfused(lighter);
        }
        sum += lighter;
    }
}

// out[j] = the sum of eight rows, joined with the sums to the left of it, the nearest first. `ahead` are the rows that
// come next, fetched while these are added, or null.
template <class R, std::size_t Bytes, bool Scaled>
TESSERA_INLINE void sum_rows(const R* const* leaves, const R* const* ahead, const double* factors,
                             const MeanJoint* first, const MeanJoint* last, double* out, std::size_t n) {
    using Vec = V<double, Bytes>;
    constexpr std::size_t lanes = VectorOf<double, Bytes>::lanes, line = 64 / sizeof(R);
    const R* const rows[mean_streams] = {leaves[0], leaves[1], leaves[2], leaves[3],
                                         leaves[4], leaves[5], leaves[6], leaves[7]};
    std::size_t j = 0;
    for (; j + line <= n; j += line) {
        if (ahead) {
#pragma GCC unroll 8
            for (std::size_t k = 0; k < mean_streams; ++k) __builtin_prefetch(ahead[k] + j);
        }
#pragma GCC unroll 8
        for (std::size_t i = 0; i < line; i += lanes) {
            Held<double, Bytes> sum;
            sum_below<R, Bytes, Scaled, 1>(rows, j + i, factors, sum);
            for (const MeanJoint* joint = first; joint != last; ++joint) {
                const Held<double, Bytes> left = *reinterpret_cast<const Vec*>(joint->left + j + i);
                scaled_sum(sum, joint->scales.right, left, joint->scales.left);
            }
            *reinterpret_cast<Vec*>(out + j + i) = sum;
        }
    }
    for (; j < n; ++j) {
        double sum[2 * mean_streams];
        for (std::size_t k = 0; k < mean_streams; ++k) sum[mean_streams + k] = static_cast<double>(rows[k][j]);
        for (std::size_t node = mean_streams - 1; node > 0; --node) {
            double lighter = sum[2 * node + 1] * factors[node];
            unfused(lighter);
            sum[node] = sum[2 * node] + lighter;
        }
        for (const MeanJoint* joint = first; joint != last; ++joint)
            scaled_sum(sum[1], joint->scales.right, joint->left[j], joint->scales.left);
        out[j] = sum[1];
    }
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void sum_eight_body(const R* const* rows, const R* const* ahead, const double* factors, bool scaled,
                                   const MeanJoint* first, const MeanJoint* last, double* out, std::size_t n) {
    if (scaled) sum_rows<R, Bytes, true>(rows, ahead, factors, first, last, out, n);
    else sum_rows<R, Bytes, false>(rows, ahead, factors, first, last, out, n);
}

// a = a*sa + b*sb
template <class R, std::size_t Bytes>
TESSERA_INLINE void join_sums_body(R* a, R sa, const R* b, R sb, std::size_t n) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        Held<R, Bytes> sum = *reinterpret_cast<const Vec*>(a + j);
        const Held<R, Bytes> right = *reinterpret_cast<const Vec*>(b + j);
        scaled_sum(sum, sa, right, sb);
        *reinterpret_cast<Vec*>(a + j) = sum;
    }
    for (; j < n; ++j) scaled_sum(a[j], sa, b[j], sb);
}

// w = sum / total
template <class R, std::size_t Bytes>
TESSERA_INLINE void quotient_body(const double* sum, double total, R* w, std::size_t n) {
    constexpr std::size_t lanes = VectorOf<double, Bytes>::lanes;
    using Narrow = V<R, lanes * sizeof(R)>;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        const Held<double, Bytes> q = *reinterpret_cast<const V<double, Bytes>*>(sum + j) / total;
        *reinterpret_cast<Narrow*>(w + j) = __builtin_convertvector(q, Held<R, lanes * sizeof(R)>);
    }
    for (; j < n; ++j) w[j] = static_cast<R>(sum[j] / total);
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void widen_body(const R* x, double* out, std::size_t n) {
    constexpr std::size_t lanes = VectorOf<double, Bytes>::lanes;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        Held<double, Bytes> wide;
        load_wide<R, Bytes>(x + j, wide);
        *reinterpret_cast<V<double, Bytes>*>(out + j) = wide;
    }
    for (; j < n; ++j) out[j] = static_cast<double>(x[j]);
}

// out[j] = bit j of the mask ? the next packed number : before[j]. The mask begins at a whole word.
template <class R>
TESSERA_INLINE const R* expand_bits(const R* packed, std::uint64_t bits, R* out) {
    for (; bits != 0; bits &= bits - 1) out[std::countr_zero(bits)] = *packed++;
    return packed;
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void expand_body(const R** packed, const std::uint64_t* mask, const R* before, R* out, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) out[j] = before[j];
    for (std::size_t j = 0; j < n; j += 64) *packed = expand_bits(*packed, mask[j / 64], out + j);
}

#ifdef TESSERA_X86
// Lane i of an expanded vector of eight reads packed number ranks[bits][i].
inline constexpr auto ranks = [] {
    std::array<std::array<std::uint8_t, 8>, 256> table{};
    for (unsigned bits = 0; bits < 256; ++bits)
        for (unsigned i = 0; i < 8; ++i)
            table[bits][i] = static_cast<std::uint8_t>(std::popcount(bits & ((1u << i) - 1)));
    return table;
}();

template <>
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void expand_body<float, 32>(const float** packed,
                                                                                   const std::uint64_t* mask,
                                                                                   const float* before, float* out,
                                                                                   std::size_t n) {
    typedef std::uint8_t Bytes8 __attribute__((vector_size(8), aligned(1), may_alias));
    typedef int Lanes __attribute__((vector_size(32)));
    const float* from = *packed;
    std::size_t left = 0;  // numbers that may be read
    for (std::size_t j = 0; j < n; j += 64) left += static_cast<std::size_t>(std::popcount(mask[j / 64]));
    std::size_t j = 0;
    for (; j + 8 <= n && left >= 8; j += 8) {
        const auto bits = static_cast<std::uint8_t>(mask[j / 64] >> (j % 64));
        const Lanes rank = __builtin_convertvector(*reinterpret_cast<const Bytes8*>(ranks[bits].data()), Lanes);
        const Held<float, 32> values = __builtin_ia32_permvarsf256(*reinterpret_cast<const V<float, 32>*>(from), rank);
        const Lanes one{1, 2, 4, 8, 16, 32, 64, 128}, here = (bits & one) != 0;
        const Held<float, 32> old = *reinterpret_cast<const V<float, 32>*>(before + j);
        *reinterpret_cast<V<float, 32>*>(out + j) = here ? values : old;
        const auto used = static_cast<std::size_t>(std::popcount(bits));
        from += used;
        left -= used;
    }
    for (std::size_t i = j; i < n; ++i) out[i] = before[i];
    for (; j < n; j = (j / 64 + 1) * 64) from = expand_bits(from, mask[j / 64] >> (j % 64), out + j);
    *packed = from;
}

template <>
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"), gnu::always_inline]] inline void expand_body<float, 64>(
    const float** packed, const std::uint64_t* mask, const float* before, float* out, std::size_t n) {
    const float* from = *packed;
    std::size_t j = 0;
    for (; j + 16 <= n; j += 16) {
        const auto bits = static_cast<std::uint16_t>(mask[j / 64] >> (j % 64));
        const Held<float, 64> old = *reinterpret_cast<const V<float, 64>*>(before + j);
        *reinterpret_cast<V<float, 64>*>(out + j) = __builtin_ia32_expandloadsf512_mask(
            reinterpret_cast<const Held<float, 64>*>(from), old, static_cast<short>(bits));
        from += std::popcount(bits);
    }
    for (std::size_t i = j; i < n; ++i) out[i] = before[i];
    if (j < n) from = expand_bits(from, mask[j / 64] >> (j % 64), out + j);
    *packed = from;
}
template <>
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"), gnu::always_inline]] inline void expand_body<double, 64>(
    const double** packed, const std::uint64_t* mask, const double* before, double* out, std::size_t n) {
    const double* from = *packed;
    std::size_t j = 0;
    for (; j + 8 <= n; j += 8) {
        const auto bits = static_cast<std::uint8_t>(mask[j / 64] >> (j % 64));
        const Held<double, 64> old = *reinterpret_cast<const V<double, 64>*>(before + j);
        *reinterpret_cast<V<double, 64>*>(out + j) = __builtin_ia32_expandloaddf512_mask(
            reinterpret_cast<const Held<double, 64>*>(from), old, static_cast<char>(bits));
        from += std::popcount(bits);
    }
    for (std::size_t i = j; i < n; ++i) out[i] = before[i];
    if (j < n) from = expand_bits(from, mask[j / 64] >> (j % 64), out + j);
    *packed = from;
}
#endif

}  // namespace detail

#define TESSERA_MEAN_KERNELS(R)                                                                              \
    TESSERA_DISPATCH(sum_eight, R,                                                                           \
                     (const R* const* rows, const R* const* ahead, const double* factors, bool scaled,       \
                      const MeanJoint* first, const MeanJoint* last, double* out, std::size_t n),            \
                     (rows, ahead, factors, scaled, first, last, out, n))                                    \
    TESSERA_DISPATCH(quotient, R, (const double* sum, double total, R* w, std::size_t n), (sum, total, w, n)) \
    TESSERA_DISPATCH(widen, R, (const R* x, double* out, std::size_t n), (x, out, n))                        \
    TESSERA_DISPATCH(expand, R,                                                                              \
                     (const R** packed, const std::uint64_t* mask, const R* before, R* out, std::size_t n),  \
                     (packed, mask, before, out, n))
TESSERA_MEAN_KERNELS(float)
TESSERA_MEAN_KERNELS(double)
#undef TESSERA_MEAN_KERNELS
TESSERA_DISPATCH(join_sums, double, (double* a, double sa, const double* b, double sb, std::size_t n),
                 (a, sa, b, sb, n))

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
        Vec<const R*> packed(rows_.size());
        for (std::size_t r = 0; r < rows_.size(); ++r)
            if (rows_[r].mask) packed[r] = rows_[r].x + count(rows_[r].mask, begin / 64);
        const bool masks = std::any_of(rows_.begin(), rows_.end(), [](const auto& row) { return row.mask != nullptr; });
        Vec<R> expanded(masks ? mean_streams * mean_tile : 0), absent(mean_tile, R(-0.0));
        Vec<double> sums(mean_tile * (static_cast<std::size_t>(std::bit_width(groups_)) + 1));
        std::array<MeanJoint, 64> joints;
        for (std::size_t at = begin; at < end; at += mean_tile) {
            const std::size_t n = std::min(mean_tile, end - at);
            double* sum = nullptr;
            for (std::size_t g = 0; g < groups_; ++g) {
                std::array<const R*, mean_streams> leaf, ahead;
                for (std::size_t k = 0; k < mean_streams; ++k) {
                    const std::size_t r = order_[g][k];
                    leaf[k] = absent.data();
                    if (!counts(r)) continue;
                    leaf[k] = rows_[r].x + at;
                    if (!rows_[r].mask) continue;
                    const R* from = packed[r];
                    R* tile = expanded.data() + k * mean_tile;
                    expand(&packed[r], rows_[r].mask + at / 64, w + at, tile, n);
                    fetch(packed[r], packed[r] - from, rows_[r].mask + (at + n) / 64);
                    leaf[k] = tile;
                }
                for (std::size_t k = 0; k < mean_streams && !masks; ++k) {
                    const bool last = g + 1 == groups_;
                    const std::size_t r = order_[last ? 0 : g + 1][k];
                    ahead[k] = counts(r) ? rows_[r].x + (last ? at + n : at) : absent.data();
                }
                // Partial sums lie one tile after the other, the oldest first.
                std::size_t met = 0;
                sum = sums.data() + mean_tile * static_cast<std::size_t>(std::popcount(g));
                for (std::size_t i = g > 0 ? joined_[g - 1] : 0; i < joined_[g]; ++i)
                    joints[met++] = {sum -= mean_tile, scales_[i]};
                sum_eight(leaf.data(), masks ? nullptr : ahead.data(), factors_[g].data(), scaled_[g] != 0,
                          joints.data(), joints.data() + met, sum, n);
            }
            quotient(sum, weight_.total, w + at, n);
        }
    }

private:
    bool counts(std::size_t r) const { return r < rows_.size() && rows_[r].weight != 0; }
    static std::size_t count(const std::uint64_t* words, std::size_t n) {
        std::size_t sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += static_cast<std::size_t>(std::popcount(words[i]));
        return sum;
    }
    // The next tile of a packed row is about as long as this one; two lines more, since a missed one costs 3 us a tile.
    static void fetch(const R* next, std::ptrdiff_t about, const std::uint64_t* mask) {
        __builtin_prefetch(mask);
        for (std::ptrdiff_t i = 0; i < about + 32; i += 64 / std::ptrdiff_t{sizeof(R)}) __builtin_prefetch(next + i);
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
