// SPDX-License-Identifier: BSD-3-Clause
// Weighted mean of many client vectors in one pass, bit for bit the same in every kernel set.
//
// Sums are double, relative to the largest weight under a node, along the fixed binary tree over positions
// (runtime/cohort.hpp adds along the same one). Eight rows of a subtree are added up in registers; above that
// partial sums of a tile stay in the first-level cache. Coordinates do not know each other, so a vector may be
// cut at multiples of `mean_tile` and the pieces given to any number of threads. Packed masked rows are expanded on
// the way (scripts/bench --only mean).
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
#include <tessera/kernels/cache.hpp>
#include <tessera/kernels/expand.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

// One client's vector. With a mask (the words of core/mask.hpp) x holds the active coordinates only.
template <class R>
struct MeanRow {
    const R* x = nullptr;
    double weight = 1;
    const std::uint64_t* mask = nullptr;
};

inline constexpr std::size_t mean_tile = 1024;   // coordinates; a page of floats of each row
inline constexpr std::size_t packed_tile = 512;  // with masks; both are multiples of 64
inline constexpr std::size_t mean_streams = 8;   // rows added up in registers

// How rows come from memory; the bits are the same either way. Long vectors begin at the same place of a page, so the
// lines that eight rows have for one coordinate share a set of the first-level cache. If it has ways for them and for
// sums, what comes is fetched there. If it has only eight (Zen 4), lines fetched early push out those not yet read:
// they are fetched into the second-level cache, from farther ahead, and tiles are longer, so that pages change less
// often.
struct MeanFetch {
    bool near;
    std::size_t tile;  // a multiple of mean_tile
};
inline constexpr MeanFetch near_fetch{true, mean_tile}, far_fetch{false, 4 * mean_tile};
// Tests assign to it; everybody else reads.
inline MeanFetch& mean_fetch() {
    static MeanFetch fetch = l1_ways() > mean_streams ? near_fetch : far_fetch;
    return fetch;
}

// The weight of a sum: `total` counts weights relative to the largest one in it. Nothing in it: largest is 0.
struct MeanWeight {
    double total = 0, largest = 0;
};
struct MeanScales {
    double left = 1, right = 1;
};
// One of eight rows at a tile: dense numbers, or packed ones, of which x is the next. What lies `ahead` is fetched.
template <class R>
struct MeanLeaf {
    const R* x;
    const std::uint64_t* mask;
    std::size_t ahead;
};
// A sum that waits for its right-hand sibling.
struct MeanJoint {
    const double* left;
    MeanScales scales;
};
// What becomes of the sum of eight rows: it meets the sums to the left of it, the nearest first, and goes to the sums
// that wait, or, the last one, divided by the total weight, to the mean.
template <class R>
struct MeanFinish {
    const MeanJoint *first, *last;
    double* sum;
    R* mean = nullptr;
    double total = 1;
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

template <class R, std::size_t Bytes>
TESSERA_INLINE void store_quotient(const Held<double, Bytes>& sum, double total, R* w) {
    constexpr std::size_t narrow = VectorOf<double, Bytes>::lanes * sizeof(R);
    const Held<double, Bytes> q = sum / total;
    *reinterpret_cast<V<R, narrow>*>(w) = __builtin_convertvector(q, Held<R, narrow>);
}

// The sum of eight rows and what becomes of it. Dividing here, while rows arrive, instead of in a pass of its own saves
// 1 % of a mean.
template <class R, std::size_t Bytes, bool Scaled>
TESSERA_INLINE void sum_vector(const R* const (&rows)[mean_streams], std::size_t j, const double* factors,
                               const MeanFinish<R>& finish, std::size_t at) {
    using Vec = V<double, Bytes>;
    Held<double, Bytes> sum;
    sum_below<R, Bytes, Scaled, 1>(rows, j, factors, sum);
    for (const MeanJoint* joint = finish.first; joint != finish.last; ++joint) {
        const Held<double, Bytes> left = *reinterpret_cast<const Vec*>(joint->left + at);
        scaled_sum(sum, joint->scales.right, left, joint->scales.left);
    }
    if (finish.mean) store_quotient<R, Bytes>(sum, finish.total, finish.mean + at);
    else *reinterpret_cast<Vec*>(finish.sum + at) = sum;
}
template <class R>
TESSERA_INLINE void sum_rest(const R* const (&rows)[mean_streams], const double* factors, const MeanFinish<R>& finish,
                             std::size_t j, std::size_t n) {
    for (; j < n; ++j) {
        double sum[2 * mean_streams];
        for (std::size_t k = 0; k < mean_streams; ++k) sum[mean_streams + k] = static_cast<double>(rows[k][j]);
        for (std::size_t node = mean_streams - 1; node > 0; --node) {
            double lighter = sum[2 * node + 1] * factors[node];
            unfused(lighter);
            sum[node] = sum[2 * node] + lighter;
        }
        for (const MeanJoint* joint = finish.first; joint != finish.last; ++joint)
            scaled_sum(sum[1], joint->scales.right, joint->left[j], joint->scales.left);
        if (finish.mean) finish.mean[j] = static_cast<R>(sum[1] / finish.total);
        else finish.sum[j] = sum[1];
    }
}

// Two lines of each of four rows: into L1 (Locality 3) or L2 (2).
template <int Locality, class R>
TESSERA_INLINE void fetch_lines(const R* const* rows, std::size_t at) {
    constexpr std::size_t line = 64 / sizeof(R);
#pragma GCC unroll 4
    for (std::size_t k = 0; k < mean_streams / 2; ++k) {
        __builtin_prefetch(rows[k] + at, 0, Locality);
        __builtin_prefetch(rows[k] + at + line, 0, Locality);
    }
}
// What a row has some lines further on is fetched meanwhile. Without that, sums that wait for memory fill the scheduler
// and few reads are under way (Xeon: 40 to 47 ms instead of 28). Two lines of a row at once arrive 2 % sooner than
// one of each row; more at once, the rows that come next, and on the Xeon other distances or the second-level cache
// gain nothing. On Zen 4 (by hand, of the pure read's speed): 53 % fetched near, 62 without, 86 far; 65 far but only
// 10 lines ahead, 82 with tiles of a page. `finish` is a copy, which no store to a row of sums can change: packed
// rows would take 3 % longer with a reference.
template <class R, std::size_t Bytes, bool Scaled>
TESSERA_INLINE void sum_rows(const R* const* leaves, const double* factors, MeanFinish<R> finish, std::size_t n,
                             bool near) {
    constexpr std::size_t lanes = VectorOf<double, Bytes>::lanes, line = 64 / sizeof(R);
    const std::size_t ahead = (near ? 10 : 24) * line;
    const R* const rows[mean_streams] = {leaves[0], leaves[1], leaves[2], leaves[3],
                                         leaves[4], leaves[5], leaves[6], leaves[7]};
    std::size_t j = 0;
    for (; j + 2 * line <= n; j += 2 * line)
#pragma GCC unroll 1
        for (std::size_t half = 0; half < 2; ++half) {
            const R* const* four = rows + half * mean_streams / 2;
            if (near) fetch_lines<3>(four, j + ahead);
            else fetch_lines<2>(four, j + ahead);
            const std::size_t at = j + half * line;
#pragma GCC unroll 4
            for (std::size_t i = 0; i < line; i += lanes)
                sum_vector<R, Bytes, Scaled>(rows, at + i, factors, finish, at + i);
        }
    sum_rest(rows, factors, finish, j, n);
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void sum_eight_body(const R* const* rows, const double* factors, bool scaled,
                                   const MeanFinish<R>& finish, std::size_t n, bool near) {
    if (scaled) sum_rows<R, Bytes, true>(rows, factors, finish, n, near);
    else sum_rows<R, Bytes, false>(rows, factors, finish, n, near);
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
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        const Held<double, Bytes> held = *reinterpret_cast<const V<double, Bytes>*>(sum + j);
        store_quotient<R, Bytes>(held, total, w + j);
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

// The sum of eight rows of which some are packed; `tiles` is room for eight expanded ones.
template <class R, std::size_t Bytes>
TESSERA_INLINE void sum_packed_body(MeanLeaf<R>* leaves, const R* before, R* tiles, const double* factors, bool scaled,
                                    const MeanFinish<R>& finish, std::size_t n) {
    const R* rows[mean_streams];
    for (std::size_t k = 0; k < mean_streams; ++k) {
        rows[k] = leaves[k].x;
        if (!leaves[k].mask) continue;
        rows[k] = tiles + k * packed_tile;
        for (std::size_t j = 0; j < n; ++j) tiles[k * packed_tile + j] = before[j];
        for (std::size_t j = 0; j < n; j += 64)
            leaves[k].x = expand_bits(leaves[k].x, leaves[k].mask[j / 64], tiles + k * packed_tile + j);
    }
    sum_eight_body<R, Bytes>(rows, factors, scaled, finish, n, true);
}

#ifdef TESSERA_X86
template <>
TESSERA_AVX2 void sum_packed_body<float, 32>(MeanLeaf<float>* leaves, const float* before, float* tiles,
                                             const double* factors, bool scaled, const MeanFinish<float>& finish,
                                             std::size_t n) {
    const float* rows[mean_streams];
    for (std::size_t k = 0; k < mean_streams; ++k) {
        rows[k] = leaves[k].x;
        if (!leaves[k].mask) continue;
        rows[k] = tiles + k * packed_tile;
        for (std::size_t j = 0; j < leaves[k].ahead; j += 16) __builtin_prefetch(leaves[k].x + leaves[k].ahead + j);
        expand_body<float, 32>(&leaves[k].x, leaves[k].mask, before, tiles + k * packed_tile, n);
    }
    sum_eight_body<float, 32>(rows, factors, scaled, finish, n, true);
}

// Expanding (one port) and adding (another) side by side is 1.7 times as fast as one after the other.
template <class R, bool Scaled>
TESSERA_AVX512 void sum_packed_avx512(MeanLeaf<R>* leaves, const R* before, R* tiles, const double* factors,
                                      MeanFinish<R> finish, std::size_t n) {
    constexpr std::size_t lanes = VectorOf<R, 64>::lanes;
    alignas(64) R vectors[mean_streams * lanes];
    const R* const rows[mean_streams] = {
        vectors,             vectors + lanes,     vectors + 2 * lanes, vectors + 3 * lanes,
        vectors + 4 * lanes, vectors + 5 * lanes, vectors + 6 * lanes, vectors + 7 * lanes};
    MeanLeaf<R> leaf[mean_streams];
    for (std::size_t k = 0; k < mean_streams; ++k) leaf[k] = leaves[k];
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
        const Held<R, 64> old = *reinterpret_cast<const V<R, 64>*>(before + j);
#pragma GCC unroll 8
        for (std::size_t k = 0; k < mean_streams; ++k) {
            R* vector = vectors + k * lanes;
            __builtin_prefetch(leaf[k].x + leaf[k].ahead);
            if (leaf[k].mask) leaf[k].x += expand_vector(leaf[k].x, leaf[k].mask, j, old, vector);
            else *reinterpret_cast<V<R, 64>*>(vector) = *reinterpret_cast<const V<R, 64>*>(leaf[k].x + j);
        }
#pragma GCC unroll 2
        for (std::size_t i = 0; i < lanes; i += 8)
            sum_vector<R, 64, Scaled>(rows, i, factors, finish, j + i);
    }
    if (j < n) {
        const R* rest[mean_streams];
        for (std::size_t k = 0; k < mean_streams; ++k) {
            rest[k] = tiles + k * packed_tile;
            for (std::size_t i = j; i < n; ++i)
                tiles[k * packed_tile + i] = leaf[k].mask ? before[i] : leaf[k].x[i];
            if (leaf[k].mask)
                leaf[k].x = expand_bits(leaf[k].x, leaf[k].mask[j / 64] >> (j % 64), tiles + k * packed_tile + j);
        }
        sum_rest(rest, factors, finish, j, n);
    }
    for (std::size_t k = 0; k < mean_streams; ++k) leaves[k] = leaf[k];
}
template <>
TESSERA_AVX512 void sum_packed_body<float, 64>(MeanLeaf<float>* leaves, const float* before, float* tiles,
                                               const double* factors, bool scaled, const MeanFinish<float>& finish,
                                               std::size_t n) {
    if (scaled) sum_packed_avx512<float, true>(leaves, before, tiles, factors, finish, n);
    else sum_packed_avx512<float, false>(leaves, before, tiles, factors, finish, n);
}
template <>
TESSERA_AVX512 void sum_packed_body<double, 64>(MeanLeaf<double>* leaves, const double* before, double* tiles,
                                                const double* factors, bool scaled, const MeanFinish<double>& finish,
                                                std::size_t n) {
    if (scaled) sum_packed_avx512<double, true>(leaves, before, tiles, factors, finish, n);
    else sum_packed_avx512<double, false>(leaves, before, tiles, factors, finish, n);
}
#endif

}  // namespace detail

#define TESSERA_MEAN_KERNELS(R)                                                                               \
    TESSERA_DISPATCH(sum_eight, R,                                                                            \
                     (const R* const* rows, const double* factors, bool scaled, const MeanFinish<R>& finish,  \
                      std::size_t n, bool near),                                                              \
                     (rows, factors, scaled, finish, n, near))                                                \
    TESSERA_DISPATCH(sum_packed, R,                                                                           \
                     (MeanLeaf<R> * leaves, const R* before, R* tiles, const double* factors, bool scaled,    \
                      const MeanFinish<R>& finish, std::size_t n),                                            \
                     (leaves, before, tiles, factors, scaled, finish, n))                                     \
    TESSERA_DISPATCH(quotient, R, (const double* sum, double total, R* w, std::size_t n), (sum, total, w, n)) \
    TESSERA_DISPATCH(widen, R, (const R* x, double* out, std::size_t n), (x, out, n))
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
