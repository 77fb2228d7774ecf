// SPDX-License-Identifier: BSD-3-Clause
// What matrix tiles multiply (kernels/amx.hpp): digits of weights and bytes forward, slopes and bytes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <tessera/core/arena.hpp>
#include <tessera/core/view.hpp>
#include <tessera/kernels/tiles.hpp>

namespace tessera::kernels {

// Examples of bytes where they lie; a feature is (byte - shift) * scale.
struct ByteRows {
    const std::uint8_t* examples = nullptr;
    const Index* ids = nullptr;
    float shift = 0, scale = 1;
    std::size_t each = 1;  // bytes of a number; 4 are a whole number, read as it is, which no product does

    const std::uint8_t* row(std::size_t i, std::size_t width) const { return examples + ids[i] * width; }
};

namespace tiles {

// Right factors of the forward pass: [block of 64 inputs][16 columns at a time][4 inputs][column], and sums of columns.
// Column 0 is of ones, then come the examples. Bytes are turned as dwords, so four inputs are i, i + 16, i + 32, i +
// 48.
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
            Words r[lanes];
            Halves sum{};
#pragma GCC unroll 16
            for (std::size_t i = 0; i < lanes; ++i) load_dealt(from[i] + offset, 64, r[i]);
            transpose(r);
#pragma GCC unroll 16
            for (std::size_t p = 0; p < lanes; ++p) {
                sum += (reinterpret_cast<Halves>(r[p]) & 0xff) + (reinterpret_cast<Halves>(r[p]) >> 8);
                std::memcpy(tile + p * lanes, &r[p], sizeof r[p]);
            }
            total += (reinterpret_cast<Words>(sum) & 0xffff) + (reinterpret_cast<Words>(sum) >> 16);
        }
        std::memcpy(sums + j * lanes, &total, sizeof total);
    }
}

// 16 rows of weights in fixed point, each with a unit of its own: w = unit * (d2 * 65536 + d1 * 256 + d0) to half a
// unit, and no weight has 2^22 of them. Adding `origin`, 1.5 * 2^23 + 0x8080, leaves in the low bytes of a float the
// digits plus 128, in the third plus 64.
//
// Reading all weights for a row's largest cost a step 2 of 31 us, so it is sought among some, and others may be twice
// as large. One that does not fit changes the exponent, which `digits` watch.
struct FixedPoint {
    static constexpr float origin = 0x1.8p23f + 0x8080;
    static constexpr std::uint32_t expected = 0x4b004b00;  // signs and exponents of upper halves
    alignas(64) float inverse[lanes];
    Floats unit;  // NaN where a weight is, or is infinite

    // The largest magnitudes of a row in each lane, every `stride`-th 16 weights; as bits, of which NaN has the
    // largest.
    TESSERA_INLINE static void peaks_of(const float* row, std::size_t n, std::size_t stride, std::uint32_t* peaks) {
        Words most{};
        for (std::size_t at = 0; at < n; at += stride * lanes) {
            Floats some;
            load_lanes(row + at, n - at, some);
            keep_larger(reinterpret_cast<Words>(some) & magnitude, most);
        }
        std::memcpy(peaks, &most, sizeof most);
    }
    TESSERA_INLINE void fit(const std::uint32_t* peaks, bool of_all) {
        Words most[lanes];
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes; ++i) std::memcpy(&most[i], peaks + i * lanes, sizeof most[i]);
        transpose(most);
#pragma GCC unroll 16
        for (std::size_t i = 1; i < lanes; ++i) keep_larger(most[i], most[0]);
        constexpr float room_for_0x8080 = 1.01f, least = 0x1p-120f;
        const Floats none{},
            wanted = reinterpret_cast<Floats>(most[0]) * ((of_all ? room_for_0x8080 : 2.0f) * 0x1p-22f);
        const Words infinite = reinterpret_cast<Words>(none) + 0x7f800000;
        unit = most[0] < infinite ? (wanted > least ? wanted : none + least)
                                  : reinterpret_cast<Floats>(infinite + 0x400000);
        const Floats one = 1.0f / unit;
        std::memcpy(inverse, &one, sizeof one);
    }
    // Digits of 64 weights of a row, a tile apart; bytes i to i + 3 are of weights i / 4 + 0, 16, 32 and 48. Where
    // one does not fit, `strayed` gets bits of sign or exponent.
    TESSERA_INLINE void digits(const float* w, std::size_t row, std::uint32_t* to, Words& strayed) const {
        Floats v[4];
#pragma GCC unroll 4
        for (std::size_t q = 0; q < 4; ++q) {
            std::memcpy(&v[q], w + q * lanes, sizeof v[q]);
            v[q] = v[q] * inverse[row] + origin;
        }
        const Words a = reinterpret_cast<Words>(v[0]), b = reinterpret_cast<Words>(v[1]);
        const Words c = reinterpret_cast<Words>(v[2]), d = reinterpret_cast<Words>(v[3]);
        const Words even_low = (a & 0xffff) | c << 16, odd_low = (b & 0xffff) | d << 16;
        const Words even_high = a >> 16 | (c & upper_half), odd_high = b >> 16 | (d & upper_half);
        strayed |= even_high ^ expected;
        strayed |= odd_high ^ expected;
        const Words digit[3] = {
            (even_low & 0x00ff00ff) | reinterpret_cast<Words>(reinterpret_cast<Halves>(odd_low) << 8),
            reinterpret_cast<Words>(reinterpret_cast<Halves>(even_low) >> 8) | (odd_low & 0xff00ff00),
            (even_high & 0x00ff00ff) | reinterpret_cast<Words>(reinterpret_cast<Halves>(odd_high) << 8)};
#pragma GCC unroll 3
        for (std::size_t q = 0; q < 3; ++q) std::memcpy(to + q * tile_words, &digit[q], sizeof digit[q]);
    }
    // Digits of 16 weights, where `digits` has them. The other bytes are any, for inputs that are 0.
    TESSERA_INLINE void last_digits(const float* w, std::size_t row, std::uint32_t* to, Words& strayed) const {
        Floats v;
        std::memcpy(&v, w, sizeof v);
        v = v * inverse[row] + origin;
#pragma GCC unroll 3
        for (std::size_t q = 0; q < 3; ++q) {
            const Words digit = reinterpret_cast<Words>(v) >> 8 * q;
            std::memcpy(to + q * tile_words, &digit, sizeof digit);
        }
        strayed |= (reinterpret_cast<Words>(v) ^ expected) & 0xff800000;
    }
    TESSERA_INLINE static bool fitted(const Words& strayed) { return !any_of(strayed & 0xff80ff80); }
    // Sums of digits times bytes as those of weights, in units; `bytes` are the sums of the bytes alone.
    TESSERA_INLINE static void value(const Ints& d0, const Ints& d1, const Ints& d2, const Ints& bytes, Floats& to) {
        const Ints middle = bytes * 128;
        const Floats low = __builtin_convertvector(d0 - middle, Floats);
        const Floats mid = __builtin_convertvector(d1 - middle, Floats);
        const Floats high = __builtin_convertvector(d2 - bytes * 64, Floats);
        to = high * 65536.0f + (mid * 256.0f + low);
    }
};

// Numbers as terms of bf16: whole steps, 8 bits of what is left, and the next 8.
class Grid {
public:
    // For numbers of at most `largest` (magnitudes, as bits). The first term just holds them in its 8 bits; with
    // steps of the last place of `weight`, if it can, for that is exact to add. Then the third is less than that
    // place, and left out.
    TESSERA_INLINE void fit(const Words& largest, std::uint32_t weight) {
        const Words none{}, place = none + (weight >> 23), top = none + 254;
        const Words finest = (largest >> 23) + 16, coarsest = finest + 1;
        third_ = finest > place ? none + upper_half : none;
        Words exponent = place < coarsest ? place : coarsest;
        exponent = exponent > finest ? exponent : finest;
        exponent = exponent < top ? exponent : top;
        origin_ = reinterpret_cast<Floats>(exponent << 23 | 0x00400000);
    }
    TESSERA_INLINE bool two_terms() const { return !any_of(third_); }
    TESSERA_INLINE void split(const Floats& number, Words (&terms)[3], Floats& lost) const {
        const Floats whole = (number + origin_) - origin_;
        Floats left = number - whole;
        terms[0] = reinterpret_cast<Words>(whole);
        terms[1] = (reinterpret_cast<Words>(left) + half_a_place) & upper_half;
        left -= reinterpret_cast<Floats>(terms[1]);
        terms[2] = (reinterpret_cast<Words>(left) + half_a_place) & third_;
        lost += left - reinterpret_cast<Floats>(terms[2]);
    }

private:
    static constexpr std::uint32_t half_a_place = 0x8000;
    Floats origin_;  // 1.5 * 2^23 steps: a number that is added to it is rounded to whole ones
    Words third_;    // which lanes have a third term
};

// The largest magnitude among 32 weights of each row, others in every one; as bits.
TESSERA_INLINE std::uint32_t largest_of_some(const float* w, std::size_t rows, std::size_t in) {
    const std::size_t vectors = in / lanes;
    Words most{};
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t half = 0; half < 2; ++half) {
            Words some;
            std::memcpy(&some, w + i * in + (3 * i + half * (vectors / 2)) % vectors * lanes, sizeof some);
            keep_larger(some & magnitude, most);
        }
    return largest_lane(most);
}

// Factors of the update, made piece by piece while tiles work on what there is. An example is a row of bytes; behind
// them comes the one of the shift, all `brightest`, then nobody fills up. Pairs of them are what tiles multiply.
class UpdateFactors {
public:
    static constexpr std::size_t terms = 3;
    const std::size_t batch, in, examples, blocks, pairs, vectors;
    const bool in_place;  // tiles of w take the terms one after the other; else sums are finished before w moves

    UpdateFactors(const float* dy, const float* slopes, const ByteRows& x, const float* w, std::size_t batch_,
                  std::size_t in_, std::size_t out, float rate, bool pulled)
        : batch(batch_), in(in_), examples(batch + (x.shift != 0 ? 1 : 0)), blocks((examples + 31) / 32),
          pairs(blocks > 1 ? lanes : (examples + 1) / 2), vectors((in + lanes - 1) / lanes),
          in_place(!pulled && blocks == 1 && in >= lanes), dy_(dy), slopes_(slopes), w_(w), out_(out),
          scale_(-rate * x.scale), shift_(x.shift / brightest), rows_(2 * blocks * pairs),
          right_(blocks * pairs * vectors * lanes), bytes_(2 * in), scaled_(2 * blocks * pairs * lanes),
          split_(terms * tile_words), left_(2 * blocks * terms * tile_words) {
        std::memset(bytes_.data(), 0, in);
        std::memset(bytes_.data() + in, brightest, in);
        std::memset(split_.data(), 0, terms * tile_words * sizeof(std::uint32_t));
        for (std::size_t c = 0; c < 2 * blocks * pairs; ++c)
            rows_[c] = c < batch ? x.row(c, in) : bytes_.data() + (c < examples ? in : 0);
    }

    // Right factors, [pair][input], 64 inputs of all pairs a piece.
    std::size_t right_pieces() const { return (in + 63) / 64; }
    TESSERA_INLINE void make_right(std::size_t piece) {
        const std::size_t i = 64 * piece;
        for (std::size_t p = 0; p < blocks * pairs; ++p) {
            Words dealt[2];
            load_dealt(rows_[2 * p] + i, in - i, dealt[0]);
            load_dealt(rows_[2 * p + 1] + i, in - i, dealt[1]);
#pragma GCC unroll 4
            for (std::size_t at = 0; at < 4; ++at) {
                if (i + at * lanes >= in) break;
                Floats half[2];
                Words pair;
                byte_of(dealt[0], at, half[0]);
                byte_of(dealt[1], at, half[1]);
                pair_up(reinterpret_cast<Words>(half[0]), reinterpret_cast<Words>(half[1]), pair);
                std::memcpy(right_.data() + p * vectors * lanes + i + at * lanes, &pair, sizeof pair);
            }
        }
    }
    const std::uint32_t* right(std::size_t block, std::size_t v) const {
        return right_.data() + (block * pairs * vectors + v) * lanes;
    }

    // Left factors of 16 outputs from o on, [term][output][pair]: -rate * scale * dy of each example, the sum of all
    // for the shift.
    std::size_t left_pieces() const { return 1 + blocks * (pairs + terms); }
    TESSERA_INLINE void make_left(std::size_t o, std::size_t piece) {
        if (piece == 0) return measure(o);
        const std::size_t block = (piece - 1) / (pairs + terms), part = (piece - 1) % (pairs + terms);
        if (part < pairs) split_pair(block, part);
        else if (part < pairs + 2 || !two_terms(o)) turn(o, block, part - pairs);
    }
    const std::uint32_t* left(std::size_t o, std::size_t block, std::size_t term) const {
        return left_.data() + ((o / lanes % 2 * blocks + block) * terms + term) * tile_words;
    }
    bool two_terms(std::size_t o) const { return two_terms_[o / lanes % 2]; }

private:
    static constexpr std::uint8_t brightest = 255;

    TESSERA_INLINE void measure(std::size_t o) {
        const std::size_t rows = out_ - o < lanes ? out_ - o : lanes;
        Words largest{};
        for (std::size_t c = 0; c < 2 * blocks * pairs; ++c) {
            Floats one{};
            if (c < examples) load_lanes(c < batch ? dy_ + c * out_ + o : slopes_ + o, rows, one);
            one *= c < batch ? scale_ : -scale_ * shift_;
            std::memcpy(scaled_.data() + c * lanes, &one, sizeof one);
            keep_larger(reinterpret_cast<Words>(one) & magnitude, largest);
        }
        grid_.fit(largest, in_place ? largest_of_some(w_ + o * in, rows, in) : 0);
        two_terms_[o / lanes % 2] = grid_.two_terms();
        lost_ = Floats{};
    }
    TESSERA_INLINE void split_pair(std::size_t block, std::size_t p) {
        Words half[2][terms];
#pragma GCC unroll 2
        for (std::size_t h = 0; h < 2; ++h) {
            const std::size_t c = 2 * (block * pairs + p) + h;
            Floats one;
            std::memcpy(&one, scaled_.data() + c * lanes, sizeof one);
            if (c == batch) one += lost_ * shift_;  // as if it had been lost by bytes less the shift
            grid_.split(one, half[h], lost_);
        }
#pragma GCC unroll 3
        for (std::size_t t = 0; t < terms; ++t) {
            Words pair;
            pair_up(half[0][t], half[1][t], pair);
            std::memcpy(split_.data() + t * tile_words + p * lanes, &pair, sizeof pair);
        }
    }
    TESSERA_INLINE void turn(std::size_t o, std::size_t block, std::size_t term) {
        const std::uint32_t* from = split_.data() + term * tile_words;
        std::uint32_t* to = left_.data() + ((o / lanes % 2 * blocks + block) * terms + term) * tile_words;
        Words r[lanes];
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes; ++i) std::memcpy(&r[i], from + i * lanes, sizeof r[i]);
        transpose(r);
#pragma GCC unroll 16
        for (std::size_t i = 0; i < lanes; ++i) std::memcpy(to + i * lanes, &r[i], sizeof r[i]);
    }

    const float *dy_, *slopes_, *w_;
    std::size_t out_;
    float scale_, shift_;
    bool two_terms_[2] = {};
    Grid grid_;
    Floats lost_;
    Scratch<const std::uint8_t*> rows_;
    Scratch<std::uint32_t> right_;
    Scratch<std::uint8_t> bytes_;  // nobody's, then those of the shift
    Scratch<float> scaled_;        // [example][output]
    Scratch<std::uint32_t> split_, left_;
};

}  // namespace tiles

}  // namespace tessera::kernels
