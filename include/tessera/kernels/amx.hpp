// SPDX-License-Identifier: BSD-3-Clause
// Affine layers on 8-bit inputs in matrix tiles (kernel set amx): forward pass and fused update.
//
// Forward, bytes multiply bytes and sums are whole numbers of 32 bits: weights go in as three digits of base 256, in
// units of 2^-22 to 2^-21 of their row's largest. Nothing is rounded but these weights, and sums once they are
// finished.
//
// Back, tiles multiply bf16 (8 significant bits) and add up in fp32. A byte is one; a slope goes in as terms of 8
// bits. An input is (byte - shift) * scale, and the shift is one more example, whose bytes are all 255 and whose
// slope is that of all together. Tiles of w take the terms in place. Slopes below 256 last places of the largest
// weight need two: whole places, which are exact to add, and 8 bits of what is left. Others have a third, which makes
// it all of a float. With a pull, or more than 31 examples, sums of three terms are finished before w moves, which
// rounds it once.
//
// After five steps weights err no more than after those of the fp32 kernels, up to a rounding; with fewer terms they do
// (both tested).
//
// Products are dear: with too many of them at a time, of factors that are not 0, the Xeon of docs/benchmarks.md goes
// from 2.75 to 2.25 GHz, for all it does. Hence two terms where two do, bytes as they are (half of a picture is 0;
// less a mean none would be), third terms only in rows that need one, and digits made in one go between products: 30
// instead of 36 us.
//
// The tests run this code on the processor's tiles where it has them, and everywhere on reference/tiles.hpp, which does
// what the manual says. In other kernel sets bytes are widened and the kernels of dense.hpp do the work; so are they
// for a shift outside [0, 255] and for updates with decay, momentum or `linear`.
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
#include <tessera/kernels/tile_factors.hpp>
#include <tessera/kernels/tiles.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {

namespace tiles {

inline constexpr std::size_t sampled = 4;  // registers of a row, at least, among which its largest weight is sought

// y[b][o] = bias[o] + sum_i x[b][i] w[o][i] for at least one example and one input. Left tiles are digits of 16
// outputs x 64 inputs, made on the way through L1, right ones 64 inputs x 16 columns.
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
                FixedPoint::value(digit[0], digit[1], digit[2], total, r[i]);
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
    std::size_t stride = in / lanes > sampled ? in / lanes / sampled : 1;
    for (std::size_t i = 0; i < lanes && i < out; ++i) FixedPoint::peaks_of(w + i * in, in, stride, peaks + i * lanes);
    Shapes shapes;
    shape_of_bytes(shapes);
    unit.configure(shapes);  // 70 ns, so once: of the last rows some may be nobody's
    std::size_t before_o = 0, before_j = 0, side = 0;
    bool waiting = false;
    // One turn more than there are rows: sums are finished in the turn after, while tiles are busy.
    for (std::size_t o = 0; o < out + lanes; o += lanes) {
        const bool busy = o < out;
        const std::size_t left_over = busy ? out - o : 0, rows = left_over < lanes ? left_over : lanes;
        const std::size_t next = left_over - rows < lanes ? left_over - rows : lanes;
        FixedPoint& here = fixed[o / lanes % 2];
        bool sure = stride == 1;
        Words strayed{};
        const auto digits = [&](std::size_t k) __attribute__((always_inline)) {
            const float* from = k < whole ? w + o * in + 64 * k : ends.data();
            const std::size_t apart = k < whole ? in : 64;
            std::uint32_t* to = left_tiles.data() + k % kept * block_words;
            if (k * 64 + lanes >= in) {
                for (std::size_t i = 0; i < rows; ++i) here.last_digits(from + i * apart, i, to + i * lanes, strayed);
                return;
            }
#pragma GCC unroll 1
            for (std::size_t i = 0; i < rows; ++i) here.digits(from + i * apart, i, to + i * lanes, strayed);
        };
        if (busy) {
            here.fit(peaks, sure);
            for (std::size_t i = 0; i < rows; ++i)
                for (std::size_t at = whole * 64; at < in; at += lanes) {
                    Floats end;
                    load_lanes(w + (o + i) * in + at, in - at, end);
                    std::memcpy(ends.data() + i * 64 + at - whole * 64, &end, sizeof end);
                }
        }
        for (std::size_t j = 0; j < (busy ? across : 1);) {
            const bool wide = j + 1 < across;
            if (busy) {
                if (j == 0) digits(0);
                unit.template zero<0>();
                unit.template zero<1>();
                unit.template zero<2>();
                unit.template zero<3>();
                unit.template zero<4>();
                unit.template zero<5>();
            }
            for (std::size_t k = 0; k < (busy ? blocks : 1); ++k) {
                if (busy) {
                    if (j == 0 && k + 1 < blocks) digits(k + 1);
                    const std::uint32_t* right = packed.data() + (k * across + j) * tile_words;
                    const std::uint32_t* left = left_tiles.data() + k % kept * block_words;
                    unit.template load<7>(right, row_bytes);
                    unit.template load<6>(left, row_bytes);
                    unit.template multiply_bytes<0, 6, 7>();
                    if (wide) {
                        unit.template load<7>(right + tile_words, row_bytes);
                        unit.template multiply_bytes<3, 6, 7>();
                        unit.template load<6>(left + tile_words, row_bytes);
                        unit.template multiply_bytes<4, 6, 7>();
                        unit.template load<7>(right, row_bytes);
                        unit.template multiply_bytes<1, 6, 7>();
                        unit.template load<6>(left + 2 * tile_words, row_bytes);
                        unit.template multiply_bytes<2, 6, 7>();
                        unit.template load<7>(right + tile_words, row_bytes);
                        unit.template multiply_bytes<5, 6, 7>();
                    } else {
                        unit.template load<6>(left + tile_words, row_bytes);
                        unit.template multiply_bytes<1, 6, 7>();
                        unit.template load<6>(left + 2 * tile_words, row_bytes);
                        unit.template multiply_bytes<2, 6, 7>();
                    }
                    if (j == 0)
                        for (std::size_t i = k * lanes / blocks; i < (k + 1) * lanes / blocks && i < next; ++i)
                            FixedPoint::peaks_of(w + (o + lanes + i) * in, in, stride, peaks + i * lanes);
                }
                if (waiting) finish(before_o, before_j, side ^ 1);
                waiting = false;
            }
            if (!busy) break;
            if (!sure && !FixedPoint::fitted(strayed)) {  // once more, and from now on with the largest of all
                alignas(64) std::uint32_t all[tile_words] = {};
                for (std::size_t i = 0; i < rows; ++i) FixedPoint::peaks_of(w + (o + i) * in, in, 1, all + i * lanes);
                here.fit(all, true);
                sure = true, stride = 1;
                continue;
            }
            unit.template store<0>(sums[side][0], row_bytes);
            unit.template store<1>(sums[side][1], row_bytes);
            unit.template store<2>(sums[side][2], row_bytes);
            unit.template store<3>(sums[side][3], row_bytes);
            unit.template store<4>(sums[side][4], row_bytes);
            unit.template store<5>(sums[side][5], row_bytes);
            before_o = o, before_j = j, waiting = true;
            j += 2, side ^= 1;
        }
    }
    unit.release();
}

// w -= rate * (sum_b dy[b][o] x[b][i] + prox_weight * (w - prox_center)) for at least one example; `slopes` are sums of
// dy over the batch. Left tiles are 16 outputs x 32 examples, right ones 32 examples x 16 inputs. Terms: 3, or fewer to
// see the loss.
template <std::size_t Terms, class Unit>
TESSERA_INLINE void update(Unit& unit, const float* dy, const float* slopes, const ByteRows& x, float* w,
                           const float* prox_center, std::size_t batch, std::size_t in, std::size_t out, float rate,
                           float prox_weight) {
    if (out == 0) return;
    UpdateFactors factors(dy, slopes, x, w, batch, in, out, rate, prox_center != nullptr);
    const std::size_t blocks = factors.blocks, vectors = factors.vectors;
    constexpr std::size_t ring = 6, lag = 1;  // tiles of sums, and how many of them wait
    alignas(64) float sums[ring][tile_words];
    Shapes shapes;
    std::size_t right_made = 0;
    // One turn more than there are rows: in the first there are factors to be made and nothing to multiply.
    for (std::size_t turn = 0; turn < out + lanes; turn += lanes) {
        const bool busy = turn > 0, more = turn < out;
        const std::size_t o = busy ? turn - lanes : 0, rows = out - o < lanes ? out - o : lanes;
        const bool in_place = busy && factors.in_place, third = busy && !factors.two_terms(o);
        float* const here = w + o * in;
        if (o == 0 || rows < lanes) {
            shape(shapes, rows, factors.pairs);
            unit.configure(shapes);
        }
        const auto load_left = [&](std::size_t b) __attribute__((always_inline)) {
            unit.template load<3>(factors.left(o, b, 0), row_bytes);
            unit.template load<4>(factors.left(o, b, 1), row_bytes);
            if (third) unit.template load<5>(factors.left(o, b, 2), row_bytes);
        };
        if (busy && blocks == 1) load_left(0);
        const auto add_products = [&]<int T>(std::size_t b, std::size_t v) __attribute__((always_inline)) {
            constexpr int right = 6 + T % 2;
            unit.template load<right>(factors.right(b, v), vectors * row_bytes);
            unit.template multiply<T, 3, right>();
            if constexpr (Terms > 1) unit.template multiply<T, 4, right>();
            if (Terms > 2 && third) unit.template multiply<T, 5, right>();
        };

        // The next tile of w is loaded while this one is at work, and the one before is stored. Meanwhile vectors
        // make the next left factors, and right ones ahead of the first tiles that need them.
        const std::size_t apart = in * sizeof(float), whole = in_place ? in / lanes : 0;
        const auto turn_in_place = [&]<int T>(std::size_t v) __attribute__((always_inline)) {
            if (v + 1 < whole) unit.template load<(T + 1) % 3>(here + (v + 1) * lanes, apart);
            if (v < whole) add_products.template operator()<T>(0, v);
            if (v > 0 && v <= whole) unit.template store<(T + 2) % 3>(here + (v - 1) * lanes, apart);
        };
        if (in_place) unit.template load<0>(here, apart);
        const std::size_t right_due = busy || factors.right_pieces() < 2 ? factors.right_pieces() : 2;
        const std::size_t left_due = more ? factors.left_pieces() : 0;
        for (std::size_t v = 0, left_made = 0; v <= whole || left_made < left_due || right_made < right_due; v += 3) {
            turn_in_place.template operator()<0>(v);
            turn_in_place.template operator()<1>(v + 1);
            turn_in_place.template operator()<2>(v + 2);
            if (left_made < left_due) factors.make_left(turn, left_made++);
            if (right_made < right_due) factors.make_right(right_made++);
        }

        const auto move = [&](std::size_t v) __attribute__((always_inline)) {
            const std::size_t n = in - v * lanes;
            const float* from = sums[v % ring];
            for (std::size_t i = 0; i < rows; ++i) {
                float* to = here + v * lanes + i * in;
                Floats now, change, anchor;
                load_lanes(to, n, now);
                std::memcpy(&change, from + i * lanes, sizeof change);
                if (prox_center) {
                    load_lanes(prox_center + (to - w), n, anchor);
                    change -= rate * (prox_weight * (now - anchor));
                }
                store_lanes(now + change, n, to);
            }
        };
        // A tile of sums is begun, the one before is stored, and the one `lag` before that moves w.
        const auto turn_aside = [&]<int T>(std::size_t v) __attribute__((always_inline)) {
            if (v < vectors) {
                unit.template zero<T>();
                for (std::size_t b = 0; b < blocks; ++b) {
                    if (blocks > 1) load_left(b);
                    add_products.template operator()<T>(b, v);
                }
            }
            if (v > whole + lag && v - lag - 1 < vectors) move(v - lag - 1);
            if (v > whole && v <= vectors) unit.template store<(T + 2) % 3>(sums[(v - 1) % ring], row_bytes);
        };
        for (std::size_t v = whole; busy && whole < vectors && v < vectors + lag + 1; v += 3) {
            turn_aside.template operator()<0>(v);
            turn_aside.template operator()<1>(v + 1);
            turn_aside.template operator()<2>(v + 2);
        }
    }
    unit.release();
}

}  // namespace tiles

// Whether so many bytes a row with this shift are read as they are; otherwise it is better to widen them once. Sums of
// 255 times a digit, which is at most 128 from its middle, have 32 bits: enough for 65,793 bytes.
inline constexpr std::size_t widest_bytes = 65'536;
inline bool tiles_read([[maybe_unused]] float shift, [[maybe_unused]] std::size_t in) {
#ifdef TESSERA_TILES
    return active() == Set::amx && shift >= 0 && shift <= 255 && in <= widest_bytes;
#else
    return false;
#endif
}

// From how many outputs of a layer on that is worth packing examples. With 10 a step of 784-10 took 2.5 times as long
// as in fp32; with 100 it gains a little (scripts/bench --only dense_step).
constexpr bool tiles_pay(std::size_t outputs) { return outputs >= 64; }

#ifdef TESSERA_TILES
#if defined(TESSERA_LINKED_KERNELS) && !defined(TESSERA_KERNELS_SOURCE)
inline namespace linked {
void affine_bytes(const ByteRows& x, const float* w, const float* bias, float* y, std::size_t batch, std::size_t in,
                  std::size_t out);
void affine_update_bytes(const float* dy, const float* slopes, const ByteRows& x, float* w, const float* prox_center,
                         std::size_t batch, std::size_t in, std::size_t out, float rate, float prox_weight);
}
#else
TESSERA_KERNELS_OPEN
[[gnu::noinline, gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx512vbmi,avx2,fma")]] TESSERA_KERNELS_INLINE void
affine_bytes(const ByteRows& x, const float* w, const float* bias, float* y, std::size_t batch, std::size_t in,
             std::size_t out) {
    tiles::Processor unit;
    tiles::affine(unit, x, w, bias, y, batch, in, out);
}
[[gnu::noinline, gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx512vbmi,avx2,fma")]] TESSERA_KERNELS_INLINE void
affine_update_bytes(const float* dy, const float* slopes, const ByteRows& x, float* w, const float* prox_center,
                    std::size_t batch, std::size_t in, std::size_t out, float rate, float prox_weight) {
    tiles::Processor unit;
    tiles::update<3>(unit, dy, slopes, x, w, prox_center, batch, in, out, rate, prox_weight);
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
    if (tiles_read(x.shift, in) && batch > 0 && in > 0) return affine_bytes(x, w, bias, y, batch, in, out);
#endif
    affine(Widened(x, batch, in).data(), w, bias, y, batch, in, out);
}
inline void affine_weight_gradient(const float* dy, const ByteRows& x, float* dw, float* dbias, std::size_t batch,
                                   std::size_t in, std::size_t out) {
    affine_weight_gradient(dy, Widened(x, batch, in).data(), dw, dbias, batch, in, out);
}
inline void affine_update(const float* dy, const ByteRows& x, float* w, std::size_t batch, std::size_t in,
                          std::size_t out, const UpdateVectors<float>& reads, const UpdateNumbers<float>& numbers) {
#ifdef TESSERA_TILES
    const bool hot = numbers.decay == 0 && !reads.linear && !reads.velocity;
    if (tiles_read(x.shift, in) && hot && batch > 0) {
        const Scratch<float> slopes(out);
        bias_gradient(dy, slopes.data(), batch, out);
        affine_update_bytes(dy, slopes.data(), x, w, reads.prox_center, batch, in, out, numbers.rate,
                            numbers.prox_weight);
        const auto of_bias = reads.at(out * in);
        return update(w + out * in, slopes.data(), of_bias.prox_center, nullptr, nullptr, out, 1.0f, numbers);
    }
#endif
    affine_update(dy, Widened(x, batch, in).data(), w, batch, in, out, reads, numbers);
}

}  // namespace tessera::kernels
