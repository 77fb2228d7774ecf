// SPDX-License-Identifier: BSD-3-Clause
// Affine layers whose weights exist only at the ones of a mask: forward, input gradient, weight gradient.
//
// Weights are packed in coordinate order. Activations are blocked: examples innermost, [block][number][width], where a
// block has `width` examples of a batch padded with zeros to a multiple of `example_lanes`. One weight then meets a
// vector of examples, and what it meets lies in one piece. Columns go by panels whose activations stay in L1. Sums have
// one order per pattern, whatever the batch or the place in it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/dense.hpp>

namespace tessera::kernels {

// f(number of a word's first bit, the word's bits that lie in [begin, end))
template <class F>
void each_word(const std::uint64_t* words, std::size_t begin, std::size_t end, F&& f) {
    for (std::size_t j = begin; j < end; j = (j / 64 + 1) * 64) {
        std::uint64_t bits = words[j / 64] >> (j % 64) << (j % 64);
        const std::size_t base = j / 64 * 64;
        if (end - base < 64) bits &= (std::uint64_t{1} << (end - base)) - 1;
        f(base, bits);
    }
}

// The ones of a matrix, panel by panel of columns and in a panel row by row: one run of them for each panel and row.
// Run i ends at ends[i], where the next begins; columns count from the panel's first. The values of a run stand in one
// piece from first[i] on, or, where there is no `first`, each where `source` says.
struct SparsePlaces {
    std::size_t rows = 0, columns = 0, panel = 1, count = 0;
    const std::uint32_t* ends = nullptr;
    const std::uint32_t* first = nullptr;
    const std::uint16_t* column = nullptr;
    const std::uint32_t* source = nullptr;
};

// What the kernels read of a mask's [out][in] matrix, made once.
class SparsePattern {
public:
    SparsePattern() = default;
    // The matrix begins at bit `begin` of the mask's words. Without `transposed` there is no input gradient.
    SparsePattern(const std::uint64_t* words, std::size_t begin, std::size_t out, std::size_t in, bool transposed)
        : out_(out), in_(in) {
        std::size_t count = 0;
        each_word(words, begin, begin + out * in, [&](std::size_t, std::uint64_t bits) {
            count += static_cast<std::size_t>(std::popcount(bits));
        });
        while (panel_ < widest_panel && count * panel_ < out * in * ones_in_a_run) panel_ *= 2;
        column_.resize(count);
        ends_.resize(runs(in, out));
        first_.resize(ends_.size());
        for (std::size_t r = 0, k = 0; r < out; ++r)
            for (std::size_t p = 0; p * panel_ < in; ++p) {
                const std::size_t from = begin + r * in + p * panel_, to = from + std::min(panel_, in - p * panel_);
                first_[p * out + r] = static_cast<std::uint32_t>(k);
                each_word(words, from, to, [&](std::size_t, std::uint64_t bits) {
                    k += static_cast<std::size_t>(std::popcount(bits));
                });
                ends_[p * out + r] = static_cast<std::uint32_t>(k) - first_[p * out + r];
            }
        add_up(ends_);
        for (std::size_t p = 0; p * panel_ < in; ++p)
            for (std::size_t r = 0; r < out; ++r) {
                const std::size_t from = begin + r * in + p * panel_, to = from + std::min(panel_, in - p * panel_);
                std::uint32_t& at = ends_[p * out + r];  // the run's begin, and when it is written its end
                each_word(words, from, to, [&](std::size_t base, std::uint64_t bits) {
                    for (; bits != 0; bits &= bits - 1)
                        column_[at++] =
                            static_cast<std::uint16_t>(base + static_cast<std::size_t>(std::countr_zero(bits)) - from);
                });
            }
        if (transposed) transpose();
    }

    std::size_t count() const { return column_.size(); }
    SparsePlaces places() const {
        return {out_, in_, panel_, count(), ends_.data(), first_.data(), column_.data(), nullptr};
    }
    SparsePlaces transposed() const {
        return {in_, out_, panel_, count(), turned_ends_.data(), nullptr, turned_column_.data(), source_.data()};
    }

private:
    // A run that is shorter costs more to enter and to leave than its panel in L1 gives back.
    static constexpr std::size_t ones_in_a_run = 48, widest_panel = 1024;

    // Lengths become begins.
    static void add_up(Vec<std::uint32_t>& lengths) {
        std::uint32_t sum = 0;
        for (auto& n : lengths) n = std::exchange(sum, sum + n);
    }
    std::size_t runs(std::size_t columns, std::size_t rows) const { return (columns + panel_ - 1) / panel_ * rows; }

    template <class F>  // f(r, c, packed place), run by run
    void each(F&& f) const {
        std::size_t k = 0;
        for (std::size_t p = 0; p * panel_ < in_; ++p)
            for (std::size_t r = 0; r < out_; ++r)
                for (std::size_t to = first_[p * out_ + r]; k < ends_[p * out_ + r]; ++k, ++to)
                    f(r, p * panel_ + column_[k], to);
    }
    void transpose() {
        turned_ends_.assign(runs(out_, in_), 0);
        turned_column_.resize(count());
        source_.resize(count());
        each([&](std::size_t r, std::size_t c, std::size_t) { ++turned_ends_[r / panel_ * in_ + c]; });
        add_up(turned_ends_);
        each([&](std::size_t r, std::size_t c, std::size_t k) {
            const std::uint32_t to = turned_ends_[r / panel_ * in_ + c]++;
            turned_column_[to] = static_cast<std::uint16_t>(r % panel_);
            source_[to] = static_cast<std::uint32_t>(k);
        });
    }

    std::size_t out_ = 0, in_ = 0, panel_ = 64;
    Vec<std::uint32_t> ends_, first_, turned_ends_, source_;
    Vec<std::uint16_t> column_, turned_column_;
};

// Examples come in vectors of this many, whatever the kernel set.
template <class R>
inline constexpr std::size_t example_lanes = 64 / sizeof(R);
template <class R>
constexpr std::size_t padded(std::size_t batch) {
    return (batch + example_lanes<R> - 1) / example_lanes<R> * example_lanes<R>;
}

namespace detail {

// Registers of examples in a whole block. A block of 64 floats is faster than one of 128 (3.0 against 3.4 ns a weight,
// 784x256, density 0.2): twice as many columns of it stay in L1.
inline constexpr std::size_t whole_block = 4;
// The hot set has a block of any width for what is left over, the others make it of single registers.
template <class R, std::size_t Bytes>
inline constexpr bool any_width = Bytes == 64 && sizeof(R) == 4;
template <std::size_t N>
using Count = std::integral_constant<std::size_t, N>;

// f(first example, registers) for the blocks of a padded batch.
template <class R, std::size_t Bytes, class F>
TESSERA_INLINE void for_blocks(std::size_t examples, const F& f) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, wide = whole_block * lanes;
    std::size_t e = 0;
    for (; e + wide <= examples; e += wide) f(e, Count<whole_block>{});
    if constexpr (any_width<R, Bytes>) {
        if (examples - e == lanes) f(e, Count<1>{});
        if (examples - e == 2 * lanes) f(e, Count<2>{});
        if (examples - e == 3 * lanes) f(e, Count<3>{});
    } else {
        for (; e < examples; e += lanes) f(e, Count<1>{});
    }
}
// Every lane of out is lane I of its four neighbours.
template <class R, std::size_t Bytes, std::size_t I, std::size_t... Lane>
TESSERA_INLINE void spread(const Held<R, Bytes>& in, Held<R, Bytes>& out, std::index_sequence<Lane...>) {
    out = __builtin_shufflevector(in, in, (Lane / 4 * 4 + I)...);
}
// Four numbers, again and again: one load and then four shuffles, not four loads, of which the loop has too many.
template <class R, std::size_t Bytes, std::size_t... Lane>
TESSERA_INLINE void repeat_four(const R* four, Held<R, Bytes>& out, std::index_sequence<Lane...>) {
    const auto& in = *reinterpret_cast<const V<R, 4 * sizeof(R)>*>(four);
#if defined(__x86_64__) && !defined(__clang__)  // GCC 12 would go through memory
    asm("vbroadcastf32x4 %1, %0" : "=v"(out) : "m"(in));
#else
    const Held<R, 4 * sizeof(R)> held = in;
    out = __builtin_shufflevector(held, held, (Lane % 4)...);
#endif
}

// y[r] = start[r] + sum of values x[column] over the ones of row r, in their order.
template <class R, std::size_t Bytes, std::size_t N, bool Elsewhere>
TESSERA_INLINE void sparse_block(const SparsePlaces& p, const R* values, const R* start, const R* x, R* y) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, width = N * lanes;
    constexpr auto all = std::make_index_sequence<lanes>{};
    std::size_t k = 0, run = 0;
    for (std::size_t panel = 0; panel == 0 || panel < p.columns; panel += p.panel, x += p.panel * width)
        for (std::size_t r = 0; r < p.rows; ++r, ++run) {
            const std::size_t end = p.ends[run];
            const R* value = Elsewhere ? values : values + p.first[run] - k;
            R* to = y + r * width;
            Held<R, Bytes> sum[N];
            if (panel == 0) {
                const Held<R, Bytes> first = Held<R, Bytes>{} + (start ? start[r] : R(0));
#pragma GCC unroll 4
                for (std::size_t v = 0; v < N; ++v) sum[v] = first;
            } else {
#pragma GCC unroll 4
                for (std::size_t v = 0; v < N; ++v) sum[v] = *reinterpret_cast<const Vec*>(to + v * lanes);
            }
            const auto add = [&](std::size_t column, const auto& w) __attribute__((always_inline)) {
                const R* from = forget(x + column * width);
#pragma GCC unroll 4
                for (std::size_t v = 0; v < N; ++v) sum[v] += w * *reinterpret_cast<const Vec*>(from + v * lanes);
            };
            const auto at = [&](std::size_t i) __attribute__((always_inline)) {
                return value[Elsewhere ? p.source[i] : i];
            };
            if constexpr (any_width<R, Bytes>)
                for (; k + 4 <= end; k += 4) {
                    std::uint64_t columns;
                    std::memcpy(&columns, p.column + k, sizeof columns);
                    const auto column = [&](std::size_t i) { return columns >> (16 * i) & 0xFFFF; };
                    if constexpr (Elsewhere) {
#pragma GCC unroll 4
                        for (std::size_t i = 0; i < 4; ++i) add(column(i), at(k + i));
                    } else {
                        Held<R, Bytes> four, w;
                        repeat_four<R, Bytes>(value + k, four, all);
                        add(column(0), (spread<R, Bytes, 0>(four, w, all), w));
                        add(column(1), (spread<R, Bytes, 1>(four, w, all), w));
                        add(column(2), (spread<R, Bytes, 2>(four, w, all), w));
                        add(column(3), (spread<R, Bytes, 3>(four, w, all), w));
                    }
                }
            for (; k < end; ++k) add(p.column[k], at(k));
#pragma GCC unroll 4
            for (std::size_t v = 0; v < N; ++v) *reinterpret_cast<Vec*>(to + v * lanes) = sum[v];
        }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void sparse_products_body(SparsePlaces p, const R* values, const R* start, const R* x, R* y,
                                         std::size_t examples) {
    for_blocks<R, Bytes>(examples, [&](std::size_t e, auto registers) __attribute__((always_inline)) {
        if (!p.first)
            sparse_block<R, Bytes, registers(), true>(p, values, start, x + e * p.columns, y + e * p.rows);
        else
            sparse_block<R, Bytes, registers(), false>(p, values, start, x + e * p.columns, y + e * p.rows);
    });
}

// What becomes of a register of finished sums, of which the first `n` count: they are added to those of earlier
// blocks, and stored, or they move the values under them.
template <class R>
struct SparseEnd {
    R* sums = nullptr;    // of all blocks so far
    R* values = nullptr;  // null: do not update
    UpdatePulls<R> pulls{};
    UpdateNumbers<R> numbers{};
    bool add = false;

    template <std::size_t Bytes>
    TESSERA_INLINE void take(std::size_t k, std::size_t n, std::size_t count, const Held<R, Bytes>& fresh) const {
        using Vec = V<R, Bytes>;
        constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
        if (k + lanes > count) {
            for (std::size_t i = 0; i < n; ++i) scalar(k + i, fresh[i]);
            return;
        }
        Held<R, Bytes> sum = fresh;
        const auto lane = *reinterpret_cast<const V<LaneNumber<R>, Bytes>*>(lane_numbers<R>.data());
        const auto counts = lane < static_cast<LaneNumber<R>>(n);
        if (add) sum += *reinterpret_cast<const Vec*>(sums + k);
        if (!values) {
            Vec& to = *reinterpret_cast<Vec*>(sums + k);
            to = counts ? sum : Held<R, Bytes>(to);
            return;
        }
        Vec& x = *reinterpret_cast<Vec*>(values + k);
        Held<R, Bytes> d = sum;
        if (numbers.decay != 0) d += numbers.decay * x;
        if (pulls.toward) d += numbers.pull * (x - *reinterpret_cast<const Vec*>(pulls.toward + k));
        if (pulls.also) d += *reinterpret_cast<const Vec*>(pulls.also + k);
        if (pulls.velocity) {
            Vec& v = *reinterpret_cast<Vec*>(pulls.velocity + k);
            d = numbers.momentum * v + d;
            v = counts ? d : Held<R, Bytes>(v);
        }
        const Held<R, Bytes> old = x, moved = old - numbers.rate * d;
        x = counts ? moved : old;
    }
    TESSERA_INLINE void scalar(std::size_t k, R sum) const {
        if (add) sum += sums[k];
        if (values) UpdateTile<R, Pulled::by_any_term>{pulls, numbers}.scalar(values + k, k, sum);
        else sums[k] = sum;
    }
};

// sum over the examples of dy[r] x[column], for the ones of the matrix; a register of them is folded at once.
template <class R, std::size_t Bytes, std::size_t N>
TESSERA_INLINE void sampled_block(const SparsePlaces& p, const R* x, const R* dy, const SparseEnd<R>& end) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, width = N * lanes;
    std::size_t k = 0, run = 0;
    for (std::size_t panel = 0; panel < p.columns; panel += p.panel, x += p.panel * width)
        for (std::size_t r = 0; r < p.rows; ++r, ++run) {
            const std::size_t last = p.ends[run], there = p.first[run] - k;
            if (k == last) continue;
            Held<R, Bytes> d[N];
#pragma GCC unroll 4
            for (std::size_t v = 0; v < N; ++v) d[v] = *reinterpret_cast<const Vec*>(dy + r * width + v * lanes);
            const auto some = [&]<std::size_t Some>(std::size_t n) __attribute__((always_inline)) {
                Held<R, Bytes> acc[lanes];
#pragma GCC unroll 16
                for (std::size_t i = 0; i < lanes; ++i) {
                    if (i >= Some) {
                        acc[i] = Held<R, Bytes>{};
                        continue;
                    }
                    const R* from = forget(x + p.column[k + (i < n ? i : n - 1)] * width);
                    acc[i] = d[0] * *reinterpret_cast<const Vec*>(from);
#pragma GCC unroll 4
                    for (std::size_t v = 1; v < N; ++v)
                        acc[i] += d[v] * *reinterpret_cast<const Vec*>(from + v * lanes);
                }
                fold_lanes<R, Bytes, lanes / 2, lanes>(acc);
                const Held<R, Bytes> sums = acc[0];
                end.template take<Bytes>(k + there, n, p.count, sums);
                k += n;
            };
            while (last - k >= lanes) some.template operator()<lanes>(lanes);
            if (last - k > lanes / 2) some.template operator()<lanes>(last - k);
            else if (last - k > lanes / 4) some.template operator()<lanes / 2>(last - k);
            else if (last - k > 0) some.template operator()<lanes / 4>(last - k);
        }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void sparse_weights_body(SparsePlaces p, const R* x, const R* dy, SparseEnd<R> end,
                                        std::size_t examples) {
    for_blocks<R, Bytes>(examples, [&](std::size_t e, auto registers) __attribute__((always_inline)) {
        SparseEnd<R> here = end;
        here.add = e > 0;
        if (e + registers() * VectorOf<R, Bytes>::lanes < examples) here.values = nullptr;
        sampled_block<R, Bytes, registers()>(p, x + e * p.columns, dy + e * p.rows, here);
    });
}

// a[i][l] becomes a[l][i]: each of log2(lanes) rounds interleaves register i with the one half the rows away.
template <class R, std::size_t Bytes, std::size_t... Lane>
TESSERA_INLINE void interleave(const Held<R, Bytes>& a, const Held<R, Bytes>& b, Held<R, Bytes>* out,
                               std::index_sequence<Lane...>) {
    constexpr std::size_t lanes = sizeof...(Lane);
    out[0] = __builtin_shufflevector(a, b, (Lane / 2 + Lane % 2 * lanes)...);
    out[1] = __builtin_shufflevector(a, b, (lanes / 2 + Lane / 2 + Lane % 2 * lanes)...);
}
template <class R, std::size_t Bytes, std::size_t Rounds = 0>
TESSERA_INLINE void turn(Held<R, Bytes>* a) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    if constexpr ((std::size_t{1} << Rounds) < lanes) {
        Held<R, Bytes> next[lanes];
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes / 2; ++i)
            interleave<R, Bytes>(a[i], a[i + lanes / 2], next + 2 * i, std::make_index_sequence<lanes>{});
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes; ++i) a[i] = next[i];
        turn<R, Bytes, Rounds + 1>(a);
    }
}

// f(first example, where its first number stands in the blocks, how far numbers are apart) for every register of
// examples.
template <class R, std::size_t Bytes, class F>
TESSERA_INLINE void for_strips(std::size_t examples, std::size_t numbers, const F& f) {
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes, wide = whole_block * lanes;
    for (std::size_t e = 0; e < examples; e += lanes) {
        std::size_t begin = e / wide * wide, width = wide;  // of the block, as for_blocks cuts them
        if (examples - begin < wide) {
            begin = any_width<R, Bytes> ? begin : e;
            width = any_width<R, Bytes> ? examples - begin : lanes;
        }
        f(e, begin * numbers + (e - begin), width);
    }
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void to_blocks_body(const R* const* rows, R* blocks, std::size_t batch, std::size_t numbers,
                                   std::size_t examples) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    for_strips<R, Bytes>(examples, numbers, [&](std::size_t e, std::size_t at, std::size_t apart)
                                                __attribute__((always_inline)) {
        R* to = blocks + at;
        std::size_t j = 0;
        if (e + lanes <= batch)
            for (; j + lanes <= numbers; j += lanes) {
                Held<R, Bytes> tile[lanes];
#pragma GCC unroll 16
                for (std::size_t i = 0; i < lanes; ++i) tile[i] = *reinterpret_cast<const Vec*>(rows[e + i] + j);
                turn<R, Bytes>(tile);
#pragma GCC unroll 16
                for (std::size_t i = 0; i < lanes; ++i) *reinterpret_cast<Vec*>(to + (j + i) * apart) = tile[i];
            }
        for (; j < numbers; ++j)
            for (std::size_t i = 0; i < lanes; ++i) to[j * apart + i] = e + i < batch ? rows[e + i][j] : R(0);
    });
}
template <class R, std::size_t Bytes>
TESSERA_INLINE void from_blocks_body(const R* blocks, R* rows, std::size_t batch, std::size_t numbers,
                                     std::size_t examples) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    for_strips<R, Bytes>(examples, numbers, [&](std::size_t e, std::size_t at, std::size_t apart)
                                                __attribute__((always_inline)) {
        const R* from = blocks + at;
        std::size_t j = 0;
        if (e + lanes <= batch)
            for (; j + lanes <= numbers; j += lanes) {
                Held<R, Bytes> tile[lanes];
#pragma GCC unroll 16
                for (std::size_t i = 0; i < lanes; ++i) tile[i] = *reinterpret_cast<const Vec*>(from + (j + i) * apart);
                turn<R, Bytes>(tile);
#pragma GCC unroll 16
                for (std::size_t i = 0; i < lanes; ++i)
                    *reinterpret_cast<Vec*>(rows + (e + i) * numbers + j) = tile[i];
            }
        for (; j < numbers; ++j)
            for (std::size_t i = 0; i < lanes && e + i < batch; ++i) rows[(e + i) * numbers + j] = from[j * apart + i];
    });
}

// sums[j] = sum over the examples of number j
template <class R, std::size_t Bytes>
TESSERA_INLINE void block_sums_body(const R* blocks, R* sums, std::size_t numbers, std::size_t examples) {
    using Vec = V<R, Bytes>;
    constexpr std::size_t lanes = VectorOf<R, Bytes>::lanes;
    for_strips<R, Bytes>(examples, numbers, [&](std::size_t e, std::size_t at, std::size_t apart)
                                                __attribute__((always_inline)) {
        const R* from = blocks + at;
        std::size_t j = 0;
        for (; j + lanes <= numbers; j += lanes) {
            Held<R, Bytes> tile[lanes];
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i) tile[i] = *reinterpret_cast<const Vec*>(from + (j + i) * apart);
            fold_lanes<R, Bytes, lanes / 2, lanes>(tile);
            Vec& to = *reinterpret_cast<Vec*>(sums + j);
            to = e > 0 ? to + tile[0] : tile[0];
        }
        for (; j < numbers; ++j) {
            R sum = e > 0 ? sums[j] : R(0);
            for (std::size_t i = 0; i < lanes; ++i) sum += from[j * apart + i];
            sums[j] = sum;
        }
    });
}

}  // namespace detail

#define TESSERA_SPARSE_KERNELS(R)                                                                                    \
    TESSERA_DISPATCH(sparse_products, R,                                                                             \
                     (kernels::SparsePlaces places, const R* values, const R* start, const R* x, R* y,               \
                      std::size_t examples),                                                                         \
                     (places, values, start, x, y, examples))                                                        \
    TESSERA_DISPATCH(sparse_weights, R,                                                                              \
                     (kernels::SparsePlaces places, const R* x, const R* dy, kernels::detail::SparseEnd<R> end,      \
                      std::size_t examples),                                                                         \
                     (places, x, dy, end, examples))                                                                 \
    TESSERA_DISPATCH(to_blocks, R,                                                                                   \
                     (const R* const* rows, R* blocks, std::size_t batch, std::size_t numbers, std::size_t examples),\
                     (rows, blocks, batch, numbers, examples))                                                       \
    TESSERA_DISPATCH(from_blocks, R,                                                                                 \
                     (const R* blocks, R* rows, std::size_t batch, std::size_t numbers, std::size_t examples),       \
                     (blocks, rows, batch, numbers, examples))                                                       \
    TESSERA_DISPATCH(block_sums, R, (const R* blocks, R* sums, std::size_t numbers, std::size_t examples),           \
                     (blocks, sums, numbers, examples))
TESSERA_SPARSE_KERNELS(float)
TESSERA_SPARSE_KERNELS(double)
#undef TESSERA_SPARSE_KERNELS

// The four entry points. x, y, dx and dy are blocked, weights packed; `start` holds a number a row, or is null.
// y[r] = start[r] + sum of w[r][c] x[c]
template <class R>
void sparse_affine(const SparsePattern& pattern, const R* w, const R* start, const R* x, R* y, std::size_t batch) {
    sparse_products(pattern.places(), w, start, x, y, padded<R>(batch));
}
// dx[c] = sum of w[r][c] dy[r]
template <class R>
void sparse_input_gradient(const SparsePattern& pattern, const R* w, const R* dy, R* dx, std::size_t batch) {
    sparse_products(pattern.transposed(), w, static_cast<const R*>(nullptr), dy, dx, padded<R>(batch));
}
// dw[r][c] = sum over the examples of dy[r] x[c], where w[r][c] exists
template <class R>
void sparse_weight_gradient(const SparsePattern& pattern, const R* dy, const R* x, R* dw, std::size_t batch) {
    sparse_weights(pattern.places(), x, dy, detail::SparseEnd<R>{.sums = dw}, padded<R>(batch));
}
// The same gradient, and the update of w with it.
template <class R>
void sparse_update(const SparsePattern& pattern, const R* dy, const R* x, R* w, std::size_t batch,
                   const UpdatePulls<R>& pulls, const UpdateNumbers<R>& numbers) {
    const Scratch<R> sums(pattern.count());  // of all blocks but the last
    sparse_weights(pattern.places(), x, dy,
                   detail::SparseEnd<R>{.sums = sums.data(), .values = w, .pulls = pulls, .numbers = numbers},
                   padded<R>(batch));
}

}  // namespace tessera::kernels
