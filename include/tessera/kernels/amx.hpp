// SPDX-License-Identifier: BSD-3-Clause
// Affine layers on 8-bit inputs in matrix tiles (kernel set amx): forward pass and fused update.
//
// A tile product multiplies bf16 (8 significant bits) and adds up in fp32. A byte less a whole number of [0, 255] is
// exact in bf16. A weight or a slope goes in as three terms of 8 bits, which are all of its 24; so a product is exact,
// and after a step weights err no more than after one of the fp32 kernels. (784-100-10, batch 20, 5 steps of rate 0.05:
// at most 1.3e-8 to 1.5e-8 with either; with two terms, even rounded to nearest, 2.9e-8 to 3.7e-8.)
//
// An input is (byte - shift) * scale. With c the whole number nearest to shift and e = shift - c, tiles see byte - c,
// and `- e` is one more example whose inputs are all 1: its sums are those of the rows of w, its slope is that of all
// examples together. There is none when shift is whole.
//
// The instructions have not run here yet (dispatch.hpp): the tests run the same code on reference/tiles.hpp, which does
// what the processor's manual says. In other kernel sets bytes are widened and the kernels of dense.hpp do the work; so
// are they for a shift outside [0, 255] and for updates with decay, momentum or `also`.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/core/view.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

// Examples of bytes where they lie; a feature is (byte - shift) * scale.
struct ByteRows {
    const std::uint8_t* examples = nullptr;
    const Index* ids = nullptr;
    float shift = 0, scale = 1;

    const std::uint8_t* row(std::size_t i, std::size_t width) const { return examples + ids[i] * width; }
};

namespace tiles {

// The operand of LDTILECFG: rows and bytes per row of the eight tiles.
struct alignas(64) Shapes {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
};
static_assert(sizeof(Shapes) == 64);

// Tiles 6 and 7 are right factors, `pairs` rows of bf16 pairs; others have `rows` rows, but 2, 3 and 5 `lower_rows`.
// Tiles 3, 4 and 5 may be left factors.
TESSERA_INLINE void shape(Shapes& s, std::size_t rows, std::size_t lower_rows, std::size_t pairs) {
    for (std::size_t t = 0; t < 8; ++t) {
        s.row_bytes[t] = 64;
        s.rows[t] = static_cast<std::uint8_t>(t == 2 || t == 3 || t == 5 ? lower_rows : rows);
    }
    s.row_bytes[3] = s.row_bytes[4] = s.row_bytes[5] = static_cast<std::uint16_t>(4 * pairs);
    s.rows[6] = s.rows[7] = static_cast<std::uint8_t>(pairs);
}

using Floats = detail::Held<float, 64>;
using Words = detail::Held<std::uint32_t, 64>;  // each a pair of bf16, the first in the low half
inline constexpr std::size_t lanes = 16, tile_words = 256, row_bytes = 64;
inline constexpr std::uint32_t upper_half = 0xffff0000, ones = 0x3f803f80;

#ifdef TESSERA_TILES
// The processor's tiles. Plain instructions, because the compilers' functions want literal tile numbers (and GCC 12's
// _tile_loadconfig declares only 8 of the 64 bytes that LDTILECFG reads).
struct Processor {
    TESSERA_INLINE void configure(const Shapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
    TESSERA_INLINE void release() { asm volatile("tilerelease"); }
    template <int Tile>
    TESSERA_INLINE void zero() {
        asm volatile("tilezero %%tmm%c0" ::"i"(Tile));
    }
    template <int Tile>
    TESSERA_INLINE void load(const void* from, std::size_t stride) {
        asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(Tile) : "memory");
    }
    template <int Tile>
    TESSERA_INLINE void store(void* to, std::size_t stride) {
        asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(Tile) : "memory");
    }
    template <int Sum, int Left, int Right>
    TESSERA_INLINE void multiply() {
        asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(Left), "i"(Right));
    }
};
#endif

// What tiles see of a shift: byte - whole, and `rest` by one more example where it is not 0.
struct Shift {
    std::int32_t whole;
    float rest;
    std::size_t extra;  // examples

    explicit Shift(float shift)
        : whole(static_cast<std::int32_t>(std::lrint(shift))),
          rest(shift - static_cast<float>(whole)),
          extra(rest != 0 ? 1 : 0) {}
};

// The first n lanes; the others are 0, and nothing is read there.
TESSERA_INLINE void load_lanes(const float* from, std::size_t n, Floats& to) {
    if (n >= lanes) {
        std::memcpy(&to, from, sizeof to);
        return;
    }
    to = Floats{};
    std::memcpy(&to, from, n * sizeof(float));
}
TESSERA_INLINE void store_lanes(const Floats& from, std::size_t n, float* to) {
    if (n >= lanes) std::memcpy(to, &from, sizeof from);
    else std::memcpy(to, &from, n * sizeof(float));
}

// One level of a 16 x 16 transposition: swaps the off-diagonal blocks of Block lanes of every block of twice that.
template <std::size_t Block, class Row, std::size_t... Lane>
TESSERA_INLINE void swap_blocks(Row (&r)[lanes], std::index_sequence<Lane...>) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < lanes; ++i)
        if ((i & Block) == 0) {
            const Row a = r[i], b = r[i + Block];
            r[i] = __builtin_shufflevector(a, b, ((Lane & Block) == 0 ? Lane : lanes + Lane - Block)...);
            r[i + Block] = __builtin_shufflevector(a, b, ((Lane & Block) == 0 ? Lane + Block : lanes + Lane)...);
        }
}
template <class Row>
TESSERA_INLINE void transpose(Row (&r)[lanes]) {
    constexpr auto lane = std::make_index_sequence<lanes>{};
    swap_blocks<8>(r, lane);
    swap_blocks<4>(r, lane);
    swap_blocks<2>(r, lane);
    swap_blocks<1>(r, lane);
}

// Upper halves of `first` below those of `second`. A bf16 is the upper half of a float.
TESSERA_INLINE void pair_up(const Floats& first, const Floats& second, Words& to) {
    to = ((Words)first >> 16) | ((Words)second & upper_half);
}
// The first n of 16 bytes less `whole`; what the others give does not matter.
TESSERA_INLINE void load_bytes(const std::uint8_t* bytes, std::size_t n, std::int32_t whole, Floats& to) {
    using Wider = detail::Held<std::uint16_t, 32>;
    using Signed = detail::Held<std::int32_t, 64>;
    detail::Held<std::uint8_t, 16> raw{};
    if (n >= lanes) std::memcpy(&raw, bytes, sizeof raw);
    else std::memcpy(&raw, bytes, n);
    const Wider wider = __builtin_convertvector(raw, Wider);  // fourfold at once goes lane by lane in GCC 12
    const Signed whole_number = __builtin_convertvector(wider, Signed) - whole;
    to = __builtin_convertvector(whole_number, Floats);  // 8 bits: the lower half is 0
}

// Pairs of numbers as pairs of bf16 terms, a tile apart: leading 8 bits, the next 8, what is left. Spends the numbers.
template <std::size_t Terms>
TESSERA_INLINE void split(Floats& first, Floats& second, std::uint32_t* to) {
    static_assert(Terms <= 3, "three terms of 8 bits are all of a float");
#pragma GCC unroll 3
    for (std::size_t t = 0; t < Terms; ++t) {
        Words pair;
        pair_up(first, second, pair);
        std::memcpy(to + t * tile_words, &pair, sizeof pair);
        first -= (Floats)((Words)first & upper_half);
        second -= (Floats)((Words)second & upper_half);
    }
}

// y[b][o] = bias[o] + sum_i x[b][i] w[o][i] for at least one example. Left tiles are 16 outputs x 32 inputs of w, split
// on the way through L1; right ones 32 inputs x 16 examples. Pairs are inputs i and i + 16.
template <std::size_t Terms, class Unit>
TESSERA_INLINE void affine(Unit& unit, const ByteRows& x, const float* w, const float* bias, float* y,
                           std::size_t batch, std::size_t in, std::size_t out) {
    const Shift shift(x.shift);
    const std::size_t columns = (batch + shift.extra + lanes - 1) / lanes * lanes, blocks = (in + 31) / 32;

    const Scratch<std::uint32_t> packed(blocks * lanes * columns);  // [pair of inputs][example]
    for (std::size_t k = 0; k < blocks; ++k)
        for (std::size_t j = 0; j < columns; j += lanes) {
            const std::size_t left = in - 32 * k;
            Words r[lanes];
            for (std::size_t i = 0; i < lanes; ++i) {
                r[i] = Words{};
                if (j + i < shift.extra) r[i] += ones;
                if (j + i < shift.extra || j + i >= batch + shift.extra) continue;
                const std::uint8_t* bytes = x.row(j + i - shift.extra, in) + 32 * k;
                Floats first, second{};
                load_bytes(bytes, left, shift.whole, first);
                if (left > lanes) load_bytes(bytes + lanes, left - lanes, shift.whole, second);
                pair_up(first, second, r[i]);
            }
            transpose(r);
            for (std::size_t p = 0; p < lanes; ++p)
                std::memcpy(packed.data() + (k * lanes + p) * columns + j, &r[p], sizeof r[p]);
        }

    // Terms of 32 rows of w: all blocks when several groups of columns read them, else the present one and the next.
    const std::size_t kept = columns > 32 ? blocks : 2, block_words = 2 * Terms * tile_words;
    const Scratch<std::uint32_t> terms(kept * block_words);
    alignas(64) float sums[32 * 32] = {};
    Floats shifted[2] = {};
    Shapes shapes;
    for (std::size_t o = 0; o < out; o += 32) {
        const std::size_t rows = out - o < 32 ? out - o : 32;
        const bool tall = rows > lanes;
        const auto split_block = [&](std::size_t k) __attribute__((always_inline)) {
            const std::size_t left = in - 32 * k;
            std::uint32_t* to = terms.data() + k % kept * block_words;
            for (std::size_t i = 0; i < rows; ++i) {
                const float* from = w + (o + i) * in + 32 * k;
                Floats first, second{};
                load_lanes(from, left, first);
                if (left > lanes) load_lanes(from + lanes, left - lanes, second);
                split<Terms>(first, second, to + i / lanes * Terms * tile_words + i % lanes * lanes);
            }
        };
        if (o == 0 || rows < 32) {
            shape(shapes, tall ? lanes : rows, tall ? rows - lanes : lanes, lanes);
            unit.configure(shapes);
        }
        for (std::size_t j = 0; j < columns; j += 32) {
            const bool wide = j + lanes < columns;
            unit.template zero<0>();
            unit.template zero<1>();
            unit.template zero<2>();
            unit.template zero<3>();
            if (j == 0 && blocks > 0) split_block(0);
            for (std::size_t k = 0; k < blocks; ++k) {
                if (j == 0 && k + 1 < blocks) split_block(k + 1);  // while the tiles are busy
                const std::uint32_t* right = packed.data() + k * lanes * columns + j;
                const std::uint32_t* left = terms.data() + k % kept * block_words;
                unit.template load<6>(right, columns * 4);
                if (wide) unit.template load<7>(right + lanes, columns * 4);
#pragma GCC unroll 3
                for (std::size_t t = 0; t < Terms; ++t) {
                    unit.template load<4>(left + t * tile_words, row_bytes);
                    unit.template multiply<0, 4, 6>();
                    if (wide) unit.template multiply<1, 4, 7>();
                    if (!tall) continue;
                    unit.template load<5>(left + (Terms + t) * tile_words, row_bytes);
                    unit.template multiply<2, 5, 6>();
                    if (wide) unit.template multiply<3, 5, 7>();
                }
            }
            unit.template store<0>(sums, 2 * row_bytes);
            if (wide) unit.template store<1>(sums + lanes, 2 * row_bytes);
            if (tall) unit.template store<2>(sums + lanes * 32, 2 * row_bytes);
            if (tall && wide) unit.template store<3>(sums + lanes * 32 + lanes, 2 * row_bytes);

            for (std::size_t h = 0; h < (tall ? 2u : 1u); ++h) {
                const std::size_t at = o + h * lanes, width = out - at;
                Floats start{};
                if (bias) load_lanes(bias + at, width, start);
                for (std::size_t v = 0; v < (wide ? 2u : 1u); ++v) {
                    Floats r[lanes];
                    for (std::size_t i = 0; i < lanes; ++i)
                        std::memcpy(&r[i], sums + (h * lanes + i) * 32 + v * lanes, sizeof r[i]);
                    transpose(r);
                    if (j + v == 0 && shift.extra > 0) shifted[h] = r[0] * shift.rest;
                    for (std::size_t i = 0; i < lanes; ++i) {
                        const std::size_t column = j + v * lanes + i;
                        if (column < shift.extra || column >= batch + shift.extra) continue;
                        store_lanes((r[i] - shifted[h]) * x.scale + start, width,
                                    y + (column - shift.extra) * out + at);
                    }
                }
            }
        }
    }
    unit.release();
}

// w -= rate * (sum_b dy[b][o] x[b][i] + pull * (w - toward)) for at least one example; `slopes` are sums of dy over the
// batch. Left tiles are 16 outputs x 32 examples of scale * dy, right ones 32 examples x 16 inputs. Sums are finished
// before w moves: added to tiles of w term by term, they would round it three times a step.
template <std::size_t Terms, class Unit>
TESSERA_INLINE void update(Unit& unit, const float* dy, const float* slopes, const ByteRows& x, float* w,
                           const float* toward, std::size_t batch, std::size_t in, std::size_t out, float rate,
                           float pull) {
    const Shift shift(x.shift);
    const std::size_t examples = batch + shift.extra, blocks = (examples + 31) / 32;
    const std::size_t pairs = blocks > 1 ? lanes : (examples + 1) / 2, vectors = (in + lanes - 1) / lanes;
    // Example `column(b, h, p)` is half h of pair p of block b; the first may be the one of ones.
    const auto column = [&](std::size_t b, std::size_t h, std::size_t p) { return (2 * b + h) * pairs + p; };

    const Scratch<std::uint32_t> packed(blocks * pairs * vectors * lanes);  // [pair of examples][input]
    for (std::size_t b = 0; b < blocks; ++b)
        for (std::size_t p = 0; p < pairs; ++p)
            for (std::size_t v = 0; v < vectors; ++v) {
                Floats half[2] = {};
                for (std::size_t h = 0; h < 2; ++h) {
                    const std::size_t c = column(b, h, p);
                    if (c < shift.extra) half[h] += 1.0f;
                    else if (c < examples)
                        load_bytes(x.row(c - shift.extra, in) + v * lanes, in - v * lanes, shift.whole, half[h]);
                }
                Words pair;
                pair_up(half[0], half[1], pair);
                std::memcpy(packed.data() + ((b * pairs + p) * vectors + v) * lanes, &pair, sizeof pair);
            }

    constexpr std::size_t group = 3;  // tiles of sums
    const Scratch<std::uint32_t> terms(blocks * Terms * tile_words);  // [block][term][output][pair of examples]
    alignas(64) float sums[2][group][tile_words];                     // of this group and of the one before
    Shapes shapes;
    for (std::size_t o = 0; o < out; o += lanes) {
        const std::size_t rows = out - o < lanes ? out - o : lanes;
        for (std::size_t b = 0; b < blocks; ++b) {
            Floats r[2][lanes] = {};
            for (std::size_t h = 0; h < 2; ++h) {
                for (std::size_t p = 0; p < pairs; ++p) {
                    const std::size_t c = column(b, h, p);
                    if (c < shift.extra) load_lanes(slopes + o, rows, r[h][p]);
                    else if (c < examples) load_lanes(dy + (c - shift.extra) * out + o, rows, r[h][p]);
                    r[h][p] *= c < shift.extra ? -x.scale * shift.rest : x.scale;
                }
                transpose(r[h]);
            }
            for (std::size_t i = 0; i < rows; ++i)
                split<Terms>(r[0][i], r[1][i], terms.data() + b * Terms * tile_words + i * lanes);
        }
        if (o == 0 || rows < lanes) {
            shape(shapes, rows, rows, pairs);
            unit.configure(shapes);
        }
        const auto multiply = [&]<int T>(std::size_t b, std::size_t v) __attribute__((always_inline)) {
            constexpr int right = 6 + T % 2;
            if (v + T >= vectors) return;
            if (b == 0) unit.template zero<T>();
            unit.template load<right>(packed.data() + (b * pairs * vectors + v + T) * lanes, vectors * row_bytes);
            unit.template multiply<T, 3, right>();
            if constexpr (Terms > 1) unit.template multiply<T, 4, right>();
            if constexpr (Terms > 2) unit.template multiply<T, 5, right>();
        };
        for (std::size_t v = 0, side = 0; v < vectors + group; v += group, side ^= 1) {
            for (std::size_t b = 0; v < vectors && b < blocks; ++b) {
                const std::uint32_t* left = terms.data() + b * Terms * tile_words;
                if (blocks > 1 || v == 0) {
                    unit.template load<3>(left, row_bytes);
                    if constexpr (Terms > 1) unit.template load<4>(left + tile_words, row_bytes);
                    if constexpr (Terms > 2) unit.template load<5>(left + 2 * tile_words, row_bytes);
                }
                multiply.template operator()<0>(b, v);
                multiply.template operator()<1>(b, v);
                multiply.template operator()<2>(b, v);
            }
            if (v < vectors) unit.template store<0>(sums[side][0], row_bytes);
            if (v + 1 < vectors) unit.template store<1>(sums[side][1], row_bytes);
            if (v + 2 < vectors) unit.template store<2>(sums[side][2], row_bytes);
            for (std::size_t t = 0; v >= group && t < group && v - group + t < vectors; ++t) {  // the group before
                const std::size_t at = (v - group + t) * lanes, n = in - at;
                for (std::size_t i = 0; i < rows; ++i) {
                    float* to = w + (o + i) * in + at;
                    Floats now, slope, anchor;
                    load_lanes(to, n, now);
                    std::memcpy(&slope, sums[side ^ 1][t] + i * lanes, sizeof slope);
                    if (toward) {
                        load_lanes(toward + (to - w), n, anchor);
                        slope += pull * (now - anchor);
                    }
                    store_lanes(now - rate * slope, n, to);
                }
            }
        }
    }
    unit.release();
}

}  // namespace tiles

// Whether bytes with this shift are read as they are; otherwise it is better to widen them once.
inline bool tiles_read([[maybe_unused]] float shift) {
#ifdef TESSERA_TILES
    return active() == Set::amx && shift >= 0 && shift <= 255;
#else
    return false;
#endif
}

#ifdef TESSERA_TILES
#if defined(TESSERA_LINKED_KERNELS) && !defined(TESSERA_KERNELS_SOURCE)
inline namespace linked {
void affine_bytes(const ByteRows& x, const float* w, const float* bias, float* y, std::size_t batch, std::size_t in,
                  std::size_t out);
void affine_update_bytes(const float* dy, const float* slopes, const ByteRows& x, float* w, const float* toward,
                         std::size_t batch, std::size_t in, std::size_t out, float rate, float pull);
}
#else
TESSERA_KERNELS_OPEN
[[gnu::noinline, gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]] TESSERA_KERNELS_INLINE void affine_bytes(
    const ByteRows& x, const float* w, const float* bias, float* y, std::size_t batch, std::size_t in,
    std::size_t out) {
    tiles::Processor unit;
    tiles::affine<3>(unit, x, w, bias, y, batch, in, out);
}
[[gnu::noinline, gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]] TESSERA_KERNELS_INLINE void
affine_update_bytes(const float* dy, const float* slopes, const ByteRows& x, float* w, const float* toward,
                    std::size_t batch, std::size_t in, std::size_t out, float rate, float pull) {
    tiles::Processor unit;
    tiles::update<3>(unit, dy, slopes, x, w, toward, batch, in, out, rate, pull);
}
TESSERA_KERNELS_CLOSE
#endif
#endif

// Numbers instead of bytes, one row after the other.
class Widened {
public:
    Widened(const ByteRows& x, std::size_t batch, std::size_t in) : rows_(batch * in) {
        for (std::size_t i = 0; i < batch; ++i)
            widen_bytes(x.row(i, in), rows_.data() + i * in, in, x.shift, x.scale);
    }
    const float* data() const { return rows_.data(); }

private:
    Scratch<float> rows_;
};

inline void affine(const ByteRows& x, const float* w, const float* bias, float* y, std::size_t batch, std::size_t in,
                   std::size_t out) {
#ifdef TESSERA_TILES
    if (tiles_read(x.shift) && batch > 0) return affine_bytes(x, w, bias, y, batch, in, out);
#endif
    affine(Widened(x, batch, in).data(), w, bias, y, batch, in, out);
}
inline void affine_weight_gradient(const float* dy, const ByteRows& x, float* dw, float* dbias, std::size_t batch,
                                   std::size_t in, std::size_t out) {
    affine_weight_gradient(dy, Widened(x, batch, in).data(), dw, dbias, batch, in, out);
}
inline void affine_update(const float* dy, const ByteRows& x, float* w, std::size_t batch, std::size_t in,
                          std::size_t out, const UpdatePulls<float>& pulls, const UpdateNumbers<float>& numbers) {
#ifdef TESSERA_TILES
    const bool hot = numbers.decay == 0 && !pulls.also && !pulls.velocity;
    if (tiles_read(x.shift) && hot && batch > 0) {
        const Scratch<float> slopes(out);
        bias_gradient(dy, slopes.data(), batch, out);
        affine_update_bytes(dy, slopes.data(), x, w, pulls.toward, batch, in, out, numbers.rate, numbers.pull);
        const auto of_bias = pulls.at(out * in);
        return update(w + out * in, slopes.data(), of_bias.toward, nullptr, nullptr, out, 1.0f, numbers);
    }
#endif
    affine_update(dy, Widened(x, batch, in).data(), w, batch, in, out, pulls, numbers);
}

}  // namespace tessera::kernels
