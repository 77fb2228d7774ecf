// SPDX-License-Identifier: BSD-3-Clause
// The sums of a weighted mean (kernels/mean.hpp), eight rows at a time, bit for bit the same in every kernel set.
//
// Nothing is fused into multiply-adds here: a node's a*sa + b*sb must round alike wherever it is computed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tessera/kernels/expand.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

inline constexpr std::size_t mean_tile = 1024;   // coordinates; a page of floats of each row
inline constexpr std::size_t packed_tile = 512;  // with masks; both are multiples of 64
inline constexpr std::size_t mean_streams = 8;   // rows added up in registers

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

}  // namespace detail

#define TESSERA_MEAN_KERNELS(R)                                                                               \
    TESSERA_DISPATCH(sum_eight, R,                                                                            \
                     (const R* const* rows, const double* factors, bool scaled, const MeanFinish<R>& finish,  \
                      std::size_t n, bool near),                                                              \
                     (rows, factors, scaled, finish, n, near))                                                \
    TESSERA_DISPATCH(quotient, R, (const double* sum, double total, R* w, std::size_t n), (sum, total, w, n)) \
    TESSERA_DISPATCH(widen, R, (const R* x, double* out, std::size_t n), (x, out, n))
TESSERA_MEAN_KERNELS(float)
TESSERA_MEAN_KERNELS(double)
#undef TESSERA_MEAN_KERNELS
TESSERA_DISPATCH(join_sums, double, (double* a, double sa, const double* b, double sb, std::size_t n),
                 (a, sa, b, sb, n))

namespace detail {

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
    sum_eight(rows, factors, scaled, finish, n, true);
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
    sum_eight(rows, factors, scaled, finish, n, true);
}

// Expanding (one port) and adding (another) side by side is 1.7 times as fast as one after the other.
// Factors of 1 change no bit, so there is one loop for both kinds of trees.
template <class R>
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
            sum_vector<R, 64, true>(rows, i, factors, finish, j + i);
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
                                               const double* factors, bool, const MeanFinish<float>& finish,
                                               std::size_t n) {
    sum_packed_avx512<float>(leaves, before, tiles, factors, finish, n);
}
template <>
TESSERA_AVX512 void sum_packed_body<double, 64>(MeanLeaf<double>* leaves, const double* before, double* tiles,
                                                const double* factors, bool, const MeanFinish<double>& finish,
                                                std::size_t n) {
    sum_packed_avx512<double>(leaves, before, tiles, factors, finish, n);
}
#endif

}  // namespace detail

#define TESSERA_PACKED_MEAN_KERNEL(R)                                                                    \
    TESSERA_DISPATCH(sum_packed, R,                                                                      \
                     (MeanLeaf<R> * leaves, const R* before, R* tiles, const double* factors,            \
                      bool scaled, const MeanFinish<R>& finish, std::size_t n),                          \
                     (leaves, before, tiles, factors, scaled, finish, n))
TESSERA_PACKED_MEAN_KERNEL(float)
TESSERA_PACKED_MEAN_KERNEL(double)
#undef TESSERA_PACKED_MEAN_KERNEL

}  // namespace tessera::kernels
