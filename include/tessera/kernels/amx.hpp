// SPDX-License-Identifier: BSD-3-Clause
// Affine layers on 8-bit inputs in matrix tiles (kernel set amx): forward pass and fused update.
//
// Forward, bytes multiply bytes and sums are whole numbers of 32 bits: weights go in as three digits of base 256, in
// units of 2^-22 to 2^-21 of their row's largest. Nothing is rounded but these weights, and sums once they are finished.
//
// Back, tiles multiply bf16 (8 significant bits) and add up in fp32. A byte less a whole number of [0, 255] is exact in
// bf16, and a slope goes in as three terms of 8 bits, which are all of its 24. An input is (byte - shift) * scale; with c
// the whole number nearest to shift and e = shift - c, tiles see byte - c, and `- e` is one more example whose inputs are
// all 1 and whose slope is that of all together. There is none when shift is whole.
//
// After five steps of rate 0.05 weights err no more than after those of the fp32 kernels, up to a rounding; with slopes of
// two terms they do (both tested).
//
// The tests run this code on the processor's tiles where it has them, and everywhere on reference/tiles.hpp, which does
// what the manual says. In other kernel sets bytes are widened and the kernels of dense.hpp do the work; so are they for
// a shift outside [0, 255] and for updates with decay, momentum or `also`.
//
// Vectors prepare factors while tiles multiply. Neither function may be long: a step runs both, and a core keeps 32 KiB
// of instructions (24 KiB for the forward pass alone cost a step 3 of 41 us).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/core/view.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/tiles.hpp>
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

// Right factors of the forward pass: [block of 64 inputs][16 columns at a time][4 inputs][column], and sums of columns.
// Column 0 is of ones, then come the examples. Bytes are turned as dwords, so four inputs are i, i + 16, i + 32, i + 48.
TESSERA_INLINE void pack_columns(const ByteRows& x, std::size_t batch, std::size_t in, std::uint32_t* to,
                                 std::int32_t* sums) {
    const std::size_t columns = batch + 1, across = (columns + lanes - 1) / lanes, whole = in / 64 * 64;
    const Scratch<std::uint8_t> ones(in), nobody(in), ends(lanes * 64);
    std::memset(ones.data(), 1, in);
    std::memset(nobody.data(), 0, in);
    std::memset(ends.data(), 0, lanes * 64);
    for (std::size_t j = 0; j < across; ++j) {
        const std::uint8_t *row[lanes], *end[lanes];
        for (std::size_t i = 0; i < lanes; ++i) {
            const std::size_t column = j * lanes + i;
            row[i] = column == 0 ? ones.data() : column < columns ? x.row(column - 1, in) : nobody.data();
            end[i] = ends.data() + i * 64;
            std::memcpy(ends.data() + i * 64, row[i] + whole, in - whole);
        }
        Words total{};
        for (std::size_t at = 0; at < in; at += 64) {
            const std::uint8_t* const* from = at < whole ? row : end;
            const std::size_t offset = at < whole ? at : 0;
            std::uint32_t* const tile = to + (at / 64 * across + j) * tile_words;
            Words r[lanes], sum{};
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i) load_dealt(from[i] + offset, 64, r[i]);
            transpose(r);
#pragma GCC unroll 16
            for (std::size_t p = 0; p < lanes; ++p) {
                sum += (r[p] & 0x00ff00ff) + (r[p] >> 8 & 0x00ff00ff);
                std::memcpy(tile + p * lanes, &r[p], sizeof r[p]);
            }
            total += (sum & 0xffff) + (sum >> 16);
        }
        std::memcpy(sums + j * lanes, &total, sizeof total);
    }
}

// y[b][o] = bias[o] + sum_i x[b][i] w[o][i] for at least one example and one input. Left tiles are digits of 16 outputs x
// 64 inputs, made on the way through L1, right ones 64 inputs x 16 columns.
template <class Unit>
TESSERA_INLINE void affine(Unit& unit, const ByteRows& x, const float* w, const float* bias, float* y,
                           std::size_t batch, std::size_t in, std::size_t out) {
    const std::size_t columns = batch + 1, across = (columns + lanes - 1) / lanes;
    const std::size_t blocks = (in + 63) / 64, whole = in / 64;
    const Scratch<std::uint32_t> packed(blocks * across * tile_words);
    const Scratch<std::int32_t> bytes(across * lanes);
    pack_columns(x, batch, in, packed.data(), bytes.data());

    // Digits of 16 rows: of all blocks when several groups of columns read them, else of the present one and the next.
    constexpr std::size_t block_words = 3 * tile_words;
    const std::size_t kept = across > 2 ? blocks : 2;
    const Scratch<std::uint32_t> left_tiles(kept * block_words);
    const Scratch<float> ends(lanes * 64);  // of rows, with zeros behind them
    std::memset(ends.data(), 0, lanes * 64 * sizeof(float));
    alignas(64) std::int32_t sums[2][6][tile_words];  // [of these columns, and of those before][16 columns, digit]
    alignas(64) std::uint32_t peaks[tile_words] = {};
    FixedPoint fixed[2];  // of these rows, and of those before

    Floats shifted{};
    const auto finish = [&](std::size_t o, std::size_t j, std::size_t side) __attribute__((always_inline)) {
        const FixedPoint& rows = fixed[o / lanes % 2];
        const std::size_t width = out - o < lanes ? out - o : lanes;
        Floats start{};
        if (bias) load_lanes(bias + o, width, start);
        const Floats scale = rows.unit * x.scale;
        for (std::size_t v = 0; v < 2 && j + v < across; ++v) {
            Ints total, digit[3];
            Floats r[lanes];
            std::memcpy(&total, bytes.data() + (j + v) * lanes, sizeof total);
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i) {
#pragma GCC unroll 3
                for (std::size_t q = 0; q < 3; ++q)
                    std::memcpy(&digit[q], sums[side][3 * v + q] + i * lanes, sizeof digit[q]);
                rows.value(digit[0], digit[1], digit[2], total, i, r[i]);
            }
            transpose(r);
            alignas(64) float turned[lanes][lanes];
            std::memcpy(turned, r, sizeof r);
            if (j + v == 0) shifted = r[0] * x.shift;
            for (std::size_t i = j + v == 0 ? 1 : 0; i < lanes && (j + v) * lanes + i < columns; ++i) {
                Floats one;
                std::memcpy(&one, turned[i], sizeof one);
                store_lanes((one - shifted) * scale + start, width, y + ((j + v) * lanes + i - 1) * out + o);
            }
        }
    };
    for (std::size_t i = 0; i < lanes && i < out; ++i) FixedPoint::peaks_of(w + i * in, in, peaks + i * lanes);
    Shapes shapes;
    std::size_t before_o = 0, before_j = 0, side = 0;
    bool waiting = false;
    // One turn more than there are rows: sums are finished in the turn after, while tiles are busy.
    for (std::size_t o = 0; o < out + lanes; o += lanes) {
        const bool busy = o < out;
        const std::size_t left_over = busy ? out - o : 0, rows = left_over < lanes ? left_over : lanes;
        const std::size_t next = left_over - rows < lanes ? left_over - rows : lanes;
        FixedPoint& here = fixed[o / lanes % 2];
        const auto digits = [&](std::size_t k, std::size_t first, std::size_t last) __attribute__((always_inline)) {
            const float* from = k < whole ? w + o * in + 64 * k : ends.data();
            const std::size_t stride = k < whole ? in : 64;
            std::uint32_t* to = left_tiles.data() + k % kept * block_words;
#pragma GCC unroll 1
            for (std::size_t i = first; i < last; ++i) here.digits(from + i * stride, i, to + i * lanes);
        };
        if (busy) {
            here.fit(peaks);
            for (std::size_t i = 0; i < rows; ++i)
                for (std::size_t at = whole * 64; at < in; at += lanes) {
                    Floats end;
                    load_lanes(w + (o + i) * in + at, in - at, end);
                    std::memcpy(ends.data() + i * 64 + at - whole * 64, &end, sizeof end);
                }
            if (o == 0 || rows < lanes) {
                shape_of_bytes(shapes, rows);
                unit.configure(shapes);
            }
            digits(0, 0, rows);
        }
        for (std::size_t j = 0; j < (busy ? across : 1); j += 2, side ^= 1) {
            const bool wide = j + 1 < across;
            if (busy) {
                unit.template zero<0>();
                unit.template zero<1>();
                unit.template zero<2>();
                unit.template zero<3>();
                unit.template zero<4>();
                unit.template zero<5>();
            }
            for (std::size_t k = 0; k < (busy ? blocks : 1); ++k) {
                if (busy) {
                    const std::size_t more = j == 0 && k + 1 < blocks ? rows : 0;
                    const std::uint32_t* right = packed.data() + (k * across + j) * tile_words;
                    const std::uint32_t* left = left_tiles.data() + k % kept * block_words;
                    unit.template load<7>(right, row_bytes);
                    unit.template load<6>(left, row_bytes);
                    unit.template multiply_bytes<0, 6, 7>();
                    digits(k + 1, 0, more / 4);
                    unit.template load<6>(left + tile_words, row_bytes);
                    unit.template multiply_bytes<1, 6, 7>();
                    unit.template load<6>(left + 2 * tile_words, row_bytes);
                    unit.template multiply_bytes<2, 6, 7>();
                    digits(k + 1, more / 4, more / 2);
                    if (wide) {
                        unit.template load<7>(right + tile_words, row_bytes);
                        unit.template load<6>(left, row_bytes);
                        unit.template multiply_bytes<3, 6, 7>();
                    }
                    digits(k + 1, more / 2, 3 * more / 4);
                    if (wide) {
                        unit.template load<6>(left + tile_words, row_bytes);
                        unit.template multiply_bytes<4, 6, 7>();
                        unit.template load<6>(left + 2 * tile_words, row_bytes);
                        unit.template multiply_bytes<5, 6, 7>();
                    }
                    digits(k + 1, 3 * more / 4, more);
                    if (j == 0)
                        for (std::size_t i = k * lanes / blocks; i < (k + 1) * lanes / blocks && i < next; ++i)
                            FixedPoint::peaks_of(w + (o + lanes + i) * in, in, peaks + i * lanes);
                }
                if (k == 0 && waiting) finish(before_o, before_j, side ^ 1);
            }
            if (!busy) break;
            unit.template store<0>(sums[side][0], row_bytes);
            unit.template store<1>(sums[side][1], row_bytes);
            unit.template store<2>(sums[side][2], row_bytes);
            unit.template store<3>(sums[side][3], row_bytes);
            unit.template store<4>(sums[side][4], row_bytes);
            unit.template store<5>(sums[side][5], row_bytes);
            before_o = o, before_j = j, waiting = true;
        }
    }
    unit.release();
}

// Right factors of the update: two rows of bytes less a whole number each, side by side.
TESSERA_INLINE void pack_pair(const std::uint8_t* first, const std::uint8_t* second, float first_origin,
                              float second_origin, std::size_t in, std::uint32_t* to) {
    for (std::size_t i = 0; i < in; i += 4 * lanes) {
        Words dealt[2];
        load_dealt(first + i, in - i, dealt[0]);
        load_dealt(second + i, in - i, dealt[1]);
#pragma GCC unroll 4
        for (std::size_t at = 0; at < 4; ++at) {
            if (i + at * lanes >= in) break;
            Floats half[2];
            Words pair;
            byte_of(dealt[0], at, first_origin, half[0]);
            byte_of(dealt[1], at, second_origin, half[1]);
            pair_up(half[0], half[1], pair);
            std::memcpy(to + i + at * lanes, &pair, sizeof pair);
        }
    }
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
    const Scratch<std::uint8_t> nobody(in);
    std::memset(nobody.data(), 0, in);
    for (std::size_t b = 0; b < blocks; ++b)
        for (std::size_t p = 0; p < pairs; ++p) {
            const std::uint8_t* row[2];
            float origin[2];
            for (std::size_t h = 0; h < 2; ++h) {
                const std::size_t c = column(b, h, p);
                const bool real = c >= shift.extra && c < examples;
                row[h] = real ? x.row(c - shift.extra, in) : nobody.data();
                origin[h] = 0x1p23f + (real ? static_cast<float>(shift.whole) : c < shift.extra ? -1.0f : 0.0f);
            }
            pack_pair(row[0], row[1], origin[0], origin[1], in, packed.data() + (b * pairs + p) * vectors * lanes);
        }

    const Scratch<std::uint32_t> terms(blocks * Terms * tile_words);  // [block][term][output][pair of examples]
    constexpr std::size_t ring = 6, lag = 1;  // tiles of sums, and how many of them wait
    alignas(64) float sums[ring][tile_words];
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
        const auto load_left = [&](std::size_t b) __attribute__((always_inline)) {
            const std::uint32_t* left = terms.data() + b * Terms * tile_words;
            unit.template load<3>(left, row_bytes);
            if constexpr (Terms > 1) unit.template load<4>(left + tile_words, row_bytes);
            if constexpr (Terms > 2) unit.template load<5>(left + 2 * tile_words, row_bytes);
        };
        if (blocks == 1) load_left(0);
        const auto multiply = [&]<int T>(std::size_t v) __attribute__((always_inline)) {
            constexpr int right = 6 + T % 2;
            unit.template zero<T>();
            for (std::size_t b = 0; b < blocks; ++b) {
                if (blocks > 1) load_left(b);
                unit.template load<right>(packed.data() + (b * pairs * vectors + v) * lanes, vectors * row_bytes);
                unit.template multiply<T, 3, right>();
                if constexpr (Terms > 1) unit.template multiply<T, 4, right>();
                if constexpr (Terms > 2) unit.template multiply<T, 5, right>();
            }
        };
        const auto move = [&](std::size_t v) __attribute__((always_inline)) {
            const std::size_t at = o * in + v * lanes, n = in - v * lanes;
            const float* from = sums[v % ring];
            if (n >= lanes && !toward && rows == lanes) {
                float* to = w + at;
#pragma GCC unroll 16
                for (std::size_t i = 0; i < lanes; ++i) {
                    Floats now, slope;
                    std::memcpy(&now, to + i * in, sizeof now);
                    std::memcpy(&slope, from + i * lanes, sizeof slope);
                    now -= rate * slope;
                    std::memcpy(to + i * in, &now, sizeof now);
                }
                return;
            }
            for (std::size_t i = 0; i < rows; ++i) {
                float* to = w + at + i * in;
                Floats now, slope, anchor;
                load_lanes(to, n, now);
                std::memcpy(&slope, from + i * lanes, sizeof slope);
                if (toward) {
                    load_lanes(toward + at + i * in, n, anchor);
                    slope += pull * (now - anchor);
                }
                store_lanes(now - rate * slope, n, to);
            }
        };
        // A tile of sums is begun, the one before is stored, and the one `lag` before that moves w.
        const auto turn = [&]<int T>(std::size_t v) __attribute__((always_inline)) {
            if (v < vectors) multiply.template operator()<T>(v);
            if (v > lag && v - lag - 1 < vectors) move(v - lag - 1);
            if (v > 0 && v <= vectors) unit.template store<(T + 2) % 3>(sums[(v - 1) % ring], row_bytes);
        };
        for (std::size_t v = 0; v < vectors + lag + 1; v += 3) {
            turn.template operator()<0>(v);
            turn.template operator()<1>(v + 1);
            turn.template operator()<2>(v + 2);
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

// From how many outputs of a layer on that is worth packing examples. With 10 a step of 784-10 took 2.5 times as long as in
// fp32; with 100 it gains a little (scripts/bench --only dense_step).
constexpr bool tiles_pay(std::size_t outputs) { return outputs >= 64; }

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
[[gnu::noinline, gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx512vbmi,avx2,fma")]] TESSERA_KERNELS_INLINE void affine_bytes(
    const ByteRows& x, const float* w, const float* bias, float* y, std::size_t batch, std::size_t in,
    std::size_t out) {
    tiles::Processor unit;
    tiles::affine(unit, x, w, bias, y, batch, in, out);
}
[[gnu::noinline, gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx512vbmi,avx2,fma")]] TESSERA_KERNELS_INLINE void
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
    if (tiles_read(x.shift) && batch > 0 && in > 0) return affine_bytes(x, w, bias, y, batch, in, out);
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
