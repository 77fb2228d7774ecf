// SPDX-License-Identifier: BSD-3-Clause
// Normalisation of groups of numbers, forward and backward, with a ReLU behind it or without. A group is read from
// memory once: its sums, its mean and what comes of them are taken while it lies in a cache.
//
//   h = (x - mean) / sqrt(variance + eps)     y = scale h + shift     mean and variance (divided by n) over the group
//
// What a group is, and which numbers share a scale and a shift, is said by NormShape: group, layer, instance and batch
// normalisation are shapes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <tessera/core/crew.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

// Group i of `count` is `rows` rows of `size` numbers, `apart` from one to the next; it begins at
// (i / groups) * outer + (i % groups) * inner. Row r has the pair of scale and shift number (i % groups) * pairs +
// r * pair_step; with `each`, numbers have pairs of their own, from that one on.
struct NormShape {
    std::size_t count = 0, groups = 1, rows = 1, size = 1, apart = 0, inner = 0, outer = 0;
    std::size_t pairs = 1, pair_step = 0;
    bool each = false;

    constexpr std::size_t numbers() const { return rows * size; }

    // Examples of `channels` planes of `positions` numbers, in groups of channels that lie side by side; a pair for
    // each channel, or one for each group.
    static constexpr NormShape group(std::size_t examples, std::size_t channels, std::size_t positions,
                                     std::size_t groups, bool pair_per_group = false) {
        const std::size_t rows = channels / groups, numbers = rows * positions;
        NormShape s{.count = examples * groups, .groups = groups, .inner = numbers, .outer = groups * numbers};
        if (pair_per_group || positions == 1) {
            s.size = numbers;
            s.each = !pair_per_group;
            s.pairs = s.each ? rows : 1;
        } else {
            s.rows = s.pairs = rows;
            s.size = s.apart = positions;
            s.pair_step = 1;
        }
        return s;
    }
    // The same planes, a channel over all examples being a group.
    static constexpr NormShape batch(std::size_t examples, std::size_t channels, std::size_t positions) {
        return {.count = channels,
                .groups = channels,
                .rows = examples,
                .size = positions,
                .apart = channels * positions,
                .inner = positions};
    }
};

namespace detail {

// A register, or a number, as it lies in memory.
template <class R, class T>
struct InMemory {
    using type = V<R, sizeof(T)>;
};
template <class R>
struct InMemory<R, R> {
    using type = R;
};
template <class T, class R>
TESSERA_INLINE void load(const R* from, T& to) {
    to = *reinterpret_cast<const typename InMemory<R, T>::type*>(from);
}
template <class T, class R>
TESSERA_INLINE void store(const T& from, R* to) {
    *reinterpret_cast<typename InMemory<R, T>::type*>(to) = from;
}

// The sum of all lanes, halves onto each other.
template <class R, std::size_t Bytes>
TESSERA_INLINE R sum_of_lanes(const Held<R, Bytes>& v) {
    constexpr std::size_t half = VectorOf<R, Bytes>::lanes / 2;
    if constexpr (Bytes > 16) {
        return [&]<std::size_t... Lane>(std::index_sequence<Lane...>) __attribute__((always_inline)) {
            const Held<R, Bytes / 2> sum =
                __builtin_shufflevector(v, v, Lane...) + __builtin_shufflevector(v, v, (half + Lane)...);
            return sum_of_lanes<R, Bytes / 2>(sum);
        }
        (std::make_index_sequence<half>{});
    } else if constexpr (half == 2) {
        return (v[0] + v[2]) + (v[1] + v[3]);
    } else {
        return v[0] + v[1];
    }
}

// f(j, zero) for j over n numbers, by the widest registers and then by narrower ones; `zero` is a register or a number.
template <class R, std::size_t Bytes, class F>
TESSERA_INLINE void each_register(std::size_t n, const F& f) {
    std::size_t j = 0;
    by_registers<Bytes>([&]<std::size_t Wide>() __attribute__((always_inline)) {
        for (; j + VectorOf<R, Wide>::lanes <= n; j += VectorOf<R, Wide>::lanes) f(j, Held<R, Wide>{});
    });
    for (; j < n; ++j) f(j, R{});
}
// totals[i] += the terms that f(j, sums) adds to sums[i], j as above. Four registers a sum, so the order is fixed by n.
template <class R, std::size_t Bytes, std::size_t N, class F>
TESSERA_INLINE void row_sums(std::size_t n, R (&totals)[N], const F& f) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    std::size_t j = 0;
    if (n >= lanes) {
        Held<R, Bytes> sums[4][N] = {};
        for (; j + 4 * lanes <= n; j += 4 * lanes)
#pragma GCC unroll 4
            for (std::size_t k = 0; k < 4; ++k) f(j + k * lanes, sums[k]);
        for (; j + lanes <= n; j += lanes) f(j, sums[0]);
#pragma GCC unroll 2
        for (std::size_t i = 0; i < N; ++i) {
            const Held<R, Bytes> all = (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]);
            totals[i] += sum_of_lanes<R, Bytes>(all);
        }
    }
    each_register<R, Bytes>(
        n - j, [&](std::size_t rest, const auto& zero) __attribute__((always_inline)) {
            using T = std::remove_cvref_t<decltype(zero)>;
            T part[N] = {};
            f(j + rest, part);
#pragma GCC unroll 2
            for (std::size_t i = 0; i < N; ++i) {
                if constexpr (std::is_same_v<T, R>) totals[i] += part[i];
                else totals[i] += sum_of_lanes<R, sizeof(T)>(part[i]);
            }
        });
}

// Groups [begin, end) of every `groups`: all that have one set of pairs lie in one piece of a crew.
template <class F>
TESSERA_INLINE void each_group(const NormShape& s, std::size_t begin, std::size_t end, const F& f) {
    for (std::size_t first = 0; first < s.count; first += s.groups)
        for (std::size_t g = begin; g < end; ++g) f(first + g, first / s.groups * s.outer + g * s.inner, g * s.pairs);
}

// `saved` are mean and 1/sqrt(variance + eps) of each group; `known`: they are given. variances null: not wanted.
template <class R, std::size_t Bytes>
TESSERA_INLINE void normalise_body(const R* x, const R* scale, const R* shift, R* y, R* saved, R* variances,
                                   const NormShape& s, std::size_t begin, std::size_t end, R eps, bool relu,
                                   bool known) {
    each_group(
        s, begin, end, [&](std::size_t i, std::size_t at, std::size_t pair) __attribute__((always_inline)) {
            if (!known) {
                R sum[1] = {}, squares[1] = {};
                for (std::size_t r = 0; r < s.rows; ++r) {
                    const R* row = x + at + r * s.apart;
                    row_sums<R, Bytes>(
                        s.size, sum, [&](std::size_t j, auto* to) __attribute__((always_inline)) {
                            std::remove_reference_t<decltype(*to)> a;
                            load(row + j, a);
                            to[0] += a;
                        });
                }
                const R mean = sum[0] / R(s.numbers());
                for (std::size_t r = 0; r < s.rows; ++r) {
                    const R* row = x + at + r * s.apart;
                    row_sums<R, Bytes>(
                        s.size, squares, [&](std::size_t j, auto* to) __attribute__((always_inline)) {
                            std::remove_reference_t<decltype(*to)> a;
                            load(row + j, a);
                            a -= mean;
                            to[0] += a * a;
                        });
                }
                const R variance = squares[0] / R(s.numbers());
                saved[2 * i] = mean;
                saved[2 * i + 1] = R(1) / std::sqrt(variance + eps);
                if (variances) variances[i] = variance;
            }
            const R mean = saved[2 * i], inverse = saved[2 * i + 1];
            for (std::size_t r = 0; r < s.rows; ++r) {
                const std::size_t row = at + r * s.apart, own = pair + r * s.pair_step;
                const R factor = scale[own] * inverse, term = shift[own];
                each_register<R, Bytes>(
                    s.size, [&](std::size_t j, const auto& zero) __attribute__((always_inline)) {
                        auto a = zero;
                        load(x + row + j, a);
                        a -= mean;
                        if (s.each) {
                            auto by = a, plus = a;
                            load(scale + own + j, by);
                            load(shift + own + j, plus);
                            a = a * (by * inverse) + plus;
                        } else {
                            a = a * factor + term;
                        }
                        if (relu) a = a > R(0) ? a : zero;
                        store(a, y + row + j);
                    });
            }
        });
}

// dx, and the sums over groups of dscale and dshift, which are added to; null: not wanted.
//   dx = inverse (d - mean(d) - h mean(d h)),  d = dy scale;   dx = inverse d where mean and variance were `known`
template <class R, std::size_t Bytes>
TESSERA_INLINE void normalise_gradient_body(const R* x, const R* dy, const R* scale, const R* shift, const R* saved,
                                            R* dx, R* dscale, R* dshift, const NormShape& s, std::size_t begin,
                                            std::size_t end, bool relu, bool known) {
    each_group(
        s, begin, end, [&](std::size_t i, std::size_t at, std::size_t pair) __attribute__((always_inline)) {
            const R mean = saved[2 * i], inverse = saved[2 * i + 1];
            R slope = 0, along = 0;  // sums of d and of d (x - mean)
            // x - mean, and dy where the ReLU lets it through
            const auto read = [&](std::size_t number, std::size_t own, std::size_t j, auto& off, auto& d)
                __attribute__((always_inline)) {
                load(x + number, off);
                off -= mean;
                load(dy + number, d);
                if (!relu) return;
                auto by = off, plus = off;
                if (s.each) {
                    load(scale + own + j, by);
                    load(shift + own + j, plus);
                    by = off * (by * inverse) + plus;
                } else {
                    by = off * (scale[own] * inverse) + shift[own];
                }
                d = by > R(0) ? d : decltype(by){};
            };
            for (std::size_t r = 0; r < s.rows; ++r) {
                const std::size_t row = at + r * s.apart, own = pair + r * s.pair_step;
                if (s.each) {
                    R sums[2] = {};
                    row_sums<R, Bytes>(
                        s.size, sums, [&](std::size_t j, auto* to) __attribute__((always_inline)) {
                            std::remove_reference_t<decltype(*to)> off, d, by;
                            read(row + j, own, j, off, d);
                            if (dscale) {
                                load(dscale + own + j, by);
                                by += d * off * inverse;
                                store(by, dscale + own + j);
                                load(dshift + own + j, by);
                                by += d;
                                store(by, dshift + own + j);
                            }
                            load(scale + own + j, by);
                            d *= by;
                            to[0] += d;
                            to[1] += d * off;
                        });
                    slope += sums[0];
                    along += sums[1];
                } else {
                    R sums[2] = {};
                    row_sums<R, Bytes>(
                        s.size, sums, [&](std::size_t j, auto* to) __attribute__((always_inline)) {
                            std::remove_reference_t<decltype(*to)> off, d;
                            read(row + j, own, j, off, d);
                            to[0] += d;
                            to[1] += d * off;
                        });
                    if (dscale) {
                        dscale[own] += sums[1] * inverse;
                        dshift[own] += sums[0];
                    }
                    slope += sums[0] * scale[own];
                    along += sums[1] * scale[own];
                }
            }
            if (!dx) return;
            const R less = known ? R(0) : inverse * slope / R(s.numbers());
            const R tilt = known ? R(0) : inverse * inverse * inverse * along / R(s.numbers());
            for (std::size_t r = 0; r < s.rows; ++r) {
                const std::size_t row = at + r * s.apart, own = pair + r * s.pair_step;
                const R factor = scale[own] * inverse;
                each_register<R, Bytes>(
                    s.size, [&](std::size_t j, const auto& zero) __attribute__((always_inline)) {
                        auto off = zero, d = zero, by = zero;
                        read(row + j, own, j, off, d);
                        if (s.each) {
                            load(scale + own + j, by);
                            d *= by * inverse;
                        } else {
                            d *= factor;
                        }
                        store(d - less - off * tilt, dx + row + j);
                    });
            }
        });
}

}  // namespace detail

#define TESSERA_NORM_KERNELS(R)                                                                                     \
    TESSERA_DISPATCH(normalise, R,                                                                                  \
                     (const R* x, const R* scale, const R* shift, R* y, R* saved, R* variances, const NormShape& s, \
                      std::size_t begin, std::size_t end, R eps, bool relu, bool known),                            \
                     (x, scale, shift, y, saved, variances, s, begin, end, eps, relu, known))                       \
    TESSERA_DISPATCH(normalise_gradient, R,                                                                         \
                     (const R* x, const R* dy, const R* scale, const R* shift, const R* saved, R* dx, R* dscale,    \
                      R* dshift, const NormShape& s, std::size_t begin, std::size_t end, bool relu, bool known),    \
                     (x, dy, scale, shift, saved, dx, dscale, dshift, s, begin, end, relu, known))
TESSERA_NORM_KERNELS(float)
TESSERA_NORM_KERNELS(double)
#undef TESSERA_NORM_KERNELS

// What a norm does besides: a ReLU behind it, and mean and variance that are given.
struct NormOptions {
    bool relu = false;   // y = max(0, y)
    bool known = false;  // `saved` have mean and 1/sqrt(variance + eps) already, as a norm has them in evaluation
};

namespace detail {
// f(begin, end) for pieces of the groups. Large ones go to the crew: from 26 us of an AVX-512 core on.
template <class F>
void groups_by_crew(const NormShape& s, const F& f) {
    const std::size_t threads = s.count * s.numbers() < std::size_t{1} << 17 ? 1 : Crew::size();
    const std::size_t each = (s.groups + threads - 1) / threads;
    if (each >= s.groups) return f(std::size_t{0}, s.groups);
    Crew::for_each((s.groups + each - 1) / each,
                   [&](std::size_t piece) { f(piece * each, std::min(s.groups, (piece + 1) * each)); });
}
}  // namespace detail

// y and `saved`, two for each group; variances (divided by n) where they are wanted.
template <class R>
void norm(const R* x, const R* scale, const R* shift, R* y, R* saved, const NormShape& s, R eps, NormOptions o = {},
          R* variances = nullptr) {
    detail::groups_by_crew(s, [&](std::size_t begin, std::size_t end) {
        normalise(x, scale, shift, y, saved, variances, s, begin, end, eps, o.relu, o.known);
    });
}
// Writes dx, dscale and dshift (of `pairs` numbers); a null one is not wanted, the latter two go together.
template <class R>
void norm_gradient(const R* x, const R* dy, const R* scale, const R* shift, const R* saved, R* dx, R* dscale, R* dshift,
                   std::size_t pairs, const NormShape& s, NormOptions o = {}) {
    if (dscale) std::fill_n(dscale, pairs, R(0));
    if (dscale) std::fill_n(dshift, pairs, R(0));
    detail::groups_by_crew(s, [&](std::size_t begin, std::size_t end) {
        normalise_gradient(x, dy, scale, shift, saved, dx, dscale, dshift, s, begin, end, o.relu, o.known);
    });
}

}  // namespace tessera::kernels
