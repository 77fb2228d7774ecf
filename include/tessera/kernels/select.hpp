// SPDX-License-Identifier: BSD-3-Clause
// Exactly k coordinates by magnitude, as a mask: what mask search prunes and grows by.
//
// Ties go to the lowest index. A NaN counts as larger than infinity and all NaNs are equal, so a diverged
// coordinate is the first of the largest and the last of the smallest. The answer is the same in every kernel set.
//
// Method: a sample brackets the k-th magnitude; one pass marks what lies above the bracket and sets aside what lies
// inside (some 10 %), of which the same method chooses the rest. Where the bracket holds too much, many magnitudes are
// equal to one of its ends: then what lies between the ends is tried, then that end. Where it misses, a radix search
// finds the k-th magnitude.
// One core, AVX-512, 1e6 floats, keep 20 %: 0.21 ms, and 0.32 ms where all are equal. Half of them 0: 0.22 to 0.26 ms,
// and 0.56 ms where the k-th is the last that is not.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/view.hpp>
#include <tessera/kernels/mask_words.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

// Magnitudes as integers that sort alike, all of them 0 or more.
template <class R>
using MagnitudeKey = std::conditional_t<sizeof(R) == 4, std::int32_t, std::int64_t>;
template <class R>
inline constexpr MagnitudeKey<R> nan_key = std::bit_cast<MagnitudeKey<R>>(std::numeric_limits<R>::infinity()) + 1;

template <class R>
TESSERA_INLINE MagnitudeKey<R> magnitude(const R* x, bool smallest) {
    MagnitudeKey<R> bits;
    std::memcpy(&bits, x, sizeof bits);  // x may also be keys that were set aside
    bits = std::min<MagnitudeKey<R>>(bits & std::numeric_limits<MagnitudeKey<R>>::max(), nan_key<R>);
    return smallest ? nan_key<R> - bits : bits;
}

// What a pass is given and what it finds. `among` may be null: all compete.
template <class R>
struct Bracket {
    MagnitudeKey<R> low, high;
    bool smallest;
    std::uint64_t* where;   // the bits of what lies in [low, high]
    MagnitudeKey<R>* keys;  // of these, in order of index
    std::size_t room;       // for keys; 64 more may be written
    std::size_t above, inside;
};

// Sets out's bits where the key is above the bracket; sets aside what is inside. Stops where the room ends.
template <class R>
TESSERA_INLINE void sort_out(const R* x, std::uint64_t above, std::uint64_t reach, std::size_t word,
                             std::uint64_t* out, Bracket<R>& b) {
    out[word] = above;
    b.where[word] = reach & ~above;
    b.above += static_cast<std::size_t>(std::popcount(above));
    for (std::uint64_t inside = reach & ~above; inside != 0; inside &= inside - 1)
        b.keys[b.inside++] = magnitude(x + std::countr_zero(inside), b.smallest);
}
template <class R>
TESSERA_INLINE void split_rest(const R* x, std::uint64_t among, std::size_t n, std::size_t word, std::uint64_t* out,
                                 Bracket<R>& b) {
    std::uint64_t above = 0, reach = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const auto key = magnitude(x + i, b.smallest);
        above |= std::uint64_t{key > b.high} << i;
        reach |= std::uint64_t{key >= b.low} << i;
    }
    sort_out(x, above & among, reach & among, word, out, b);
}

// Sign bits of the lanes, four floats or two doubles at a time.
template <class Vec>
TESSERA_INLINE std::uint64_t sign_bits(const Vec& v) {
    std::uint64_t bits = 0;
#ifdef TESSERA_X86
    constexpr std::size_t wide = sizeof(v[0]), lanes = 16 / wide;
    for (std::size_t i = 0; i < sizeof(Vec) / 16; ++i) {
        std::conditional_t<wide == 4, Held<float, 16>, Held<double, 16>> piece;
        std::memcpy(&piece, reinterpret_cast<const char*>(&v) + 16 * i, 16);
        if constexpr (wide == 4) bits |= static_cast<std::uint64_t>(__builtin_ia32_movmskps(piece)) << (i * lanes);
        else bits |= static_cast<std::uint64_t>(__builtin_ia32_movmskpd(piece)) << (i * lanes);
    }
#else
    for (std::size_t i = 0; i < sizeof(Vec) / sizeof(v[0]); ++i) bits |= std::uint64_t{v[i] < 0} << i;
#endif
    return bits;
}

template <class R, std::size_t Bytes>
TESSERA_INLINE void split_body(const R* x, const std::uint64_t* among, std::size_t n, std::uint64_t* out,
                                 Bracket<R>* result) {
    using Key = MagnitudeKey<R>;
    constexpr std::size_t lanes = VectorOf<Key, Bytes>::lanes;
    Bracket<R> b = *result;
    std::size_t j = 0;
    for (; j + 64 <= n && b.inside <= b.room; j += 64) {
        std::uint64_t above = 0, reach = 0;
#pragma GCC unroll 4
        for (std::size_t i = 0; i < 64; i += lanes) {
            Held<Key, Bytes> key = *reinterpret_cast<const V<Key, Bytes>*>(x + j + i);
            key &= std::numeric_limits<Key>::max();
            key = key > nan_key<R> ? nan_key<R> - (key & 0) : key;
            if (b.smallest) key = nan_key<R> - key;
            above |= sign_bits(key > b.high) << i;
            reach |= sign_bits(key >= b.low) << i;
        }
        const std::uint64_t competing = among ? among[j / 64] : ~std::uint64_t{0};
        sort_out(x + j, above & competing, reach & competing, j / 64, out, b);
    }
    if (j < n && b.inside <= b.room)
        split_rest(x + j, among ? among[j / 64] : ~std::uint64_t{0}, n - j, j / 64, out, b);
    *result = b;
}

// The key of a rank (0 is the largest) among n, a multiple of 64: bit by bit, the largest number that enough keys
// reach. No branch depends on a key but one a bit, while std::nth_element mispredicts on new keys: four selections of
// a mask search took 0.1 ms longer with it.
template <class R, std::size_t Bytes>
TESSERA_INLINE void ranked_body(const MagnitudeKey<R>* keys, std::size_t n, std::size_t rank, MagnitudeKey<R>* result) {
    using Key = MagnitudeKey<R>;
    constexpr std::size_t lanes = VectorOf<Key, Bytes>::lanes;
    Key found = 0;
    for (int bit = std::numeric_limits<Key>::digits - 1; bit >= 0; --bit) {
        const Key trial = found | Key{1} << bit;
        Held<Key, Bytes> reach{};
        for (std::size_t i = 0; i < n; i += lanes)
            reach -= *reinterpret_cast<const V<Key, Bytes>*>(keys + i) >= trial;
        std::size_t count = 0;
        for (std::size_t l = 0; l < lanes; ++l) count += static_cast<std::size_t>(reach[l]);
        if (count > rank) found = trial;
    }
    *result = found;
}

#ifdef TESSERA_X86
// The bits of v > w, or of v >= w, among those of `here`.
template <bool Equal>
TESSERA_AVX512 std::uint64_t compared(const Held<std::int32_t, 64>& v, const Held<std::int32_t, 64>& w,
                                      std::uint64_t here) {
    return static_cast<std::uint16_t>(__builtin_ia32_cmpd512_mask(v, w, Equal ? 5 : 6, static_cast<Bits16>(here)));
}
template <bool Equal>
TESSERA_AVX512 std::uint64_t compared(const Held<std::int64_t, 64>& v, const Held<std::int64_t, 64>& w,
                                      std::uint64_t here) {
    typedef long long Lanes __attribute__((vector_size(64)));
    return static_cast<std::uint8_t>(__builtin_ia32_cmpq512_mask(
        reinterpret_cast<const Lanes&>(v), reinterpret_cast<const Lanes&>(w), Equal ? 5 : 6, static_cast<Bits8>(here)));
}
// Writes the lanes whose bit is set one after the other, and a few behind them.
TESSERA_AVX512 void store_some(const Held<std::int32_t, 64>& v, std::uint64_t bits, void* out) {
    const Held<std::int32_t, 64> some = __builtin_ia32_compresssi512_mask(v, v, static_cast<Bits16>(bits));
    std::memcpy(out, &some, sizeof some);
}
TESSERA_AVX512 void store_some(const Held<std::int64_t, 64>& v, std::uint64_t bits, void* out) {
    typedef long long Lanes __attribute__((vector_size(64)));
    const Lanes& lanes = reinterpret_cast<const Lanes&>(v);
    const Lanes some = __builtin_ia32_compressdi512_mask(lanes, lanes, static_cast<Bits8>(bits));
    std::memcpy(out, &some, sizeof some);
}

template <class R>
TESSERA_AVX512 void split_avx512(const R* x, const std::uint64_t* among, std::size_t n, std::uint64_t* out,
                                   Bracket<R>* result) {
    using Key = MagnitudeKey<R>;
    using Keys = Held<Key, 64>;
    constexpr std::size_t lanes = VectorOf<Key, 64>::lanes;
    Bracket<R> b = *result;
    // A NaN's own bits may exceed nan_key. Ends moved outwards spare the loop a comparison; what is set aside is made
    // a key when it is read again.
    using Limits = std::numeric_limits<Key>;
    const Keys zero{}, nan = zero + nan_key<R>;
    const Keys low = zero + (b.smallest && b.low == 0 ? Limits::min() : b.low);
    const Keys high = zero + (!b.smallest && b.high == nan_key<R> ? Limits::max() : b.high);
    std::size_t j = 0;
    constexpr std::size_t ahead = 4096 / sizeof(R);
    for (; j + 64 <= n && b.inside <= b.room; j += 64) {
        const std::uint64_t competing = among ? among[j / 64] : ~std::uint64_t{0};
        std::uint64_t over = 0, within = 0;
#pragma GCC unroll 8
        for (std::size_t line = 0; line < 64; line += lanes) __builtin_prefetch(x + j + ahead + line);
#pragma GCC unroll 8
        for (std::size_t i = 0; i < 64; i += lanes) {
            Keys key = *reinterpret_cast<const V<Key, 64>*>(x + j + i);
            key &= std::numeric_limits<Key>::max();
            if (b.smallest) {
                key = nan - key;
                key &= ~(key >> Limits::digits);
            }
            const std::uint64_t reach = compared<true>(key, low, competing >> i);
            const std::uint64_t above = compared<false>(key, high, reach), inside = reach ^ above;
            store_some(key, inside, b.keys + b.inside);
            b.inside += static_cast<std::size_t>(std::popcount(inside));
            over |= above << i;
            within |= inside << i;
        }
        out[j / 64] = over;
        b.where[j / 64] = within;
        b.above += static_cast<std::size_t>(std::popcount(over));
    }
    if (j < n && b.inside <= b.room)
        split_rest(x + j, among ? among[j / 64] : ~std::uint64_t{0}, n - j, j / 64, out, b);
    *result = b;
}

template <>
TESSERA_AVX512 void split_body<float, 64>(const float* x, const std::uint64_t* among, std::size_t n,
                                            std::uint64_t* out, Bracket<float>* result) {
    split_avx512(x, among, n, out, result);
}
template <>
TESSERA_AVX512 void split_body<double, 64>(const double* x, const std::uint64_t* among, std::size_t n,
                                             std::uint64_t* out, Bracket<double>* result) {
    split_avx512(x, among, n, out, result);
}

#endif

}  // namespace detail

#define TESSERA_SELECT_KERNELS(R)                                                                                   \
    TESSERA_DISPATCH(split, R,                                                                                      \
                     (const R* x, const std::uint64_t* among, std::size_t n, std::uint64_t* out,                    \
                      detail::Bracket<R>* result),                                                                  \
                     (x, among, n, out, result))                                                                    \
    TESSERA_DISPATCH(ranked, R,                                                                                     \
                     (const detail::MagnitudeKey<R>* keys, std::size_t n, std::size_t rank,                         \
                      detail::MagnitudeKey<R>* result),                                                             \
                     (keys, n, rank, result))
TESSERA_SELECT_KERNELS(float)
TESSERA_SELECT_KERNELS(double)
#undef TESSERA_SELECT_KERNELS

namespace detail {

inline bool bit_at(const std::uint64_t* words, std::size_t j) { return !words || (words[j / 64] >> (j % 64) & 1) != 0; }

// The k-th largest key, digit by digit; a pass over x for each eleven bits.
template <class R>
MagnitudeKey<R> kth_key(const R* x, const std::uint64_t* among, std::size_t n, std::size_t k, bool smallest) {
    using Key = MagnitudeKey<R>;
    constexpr int digit = 11;
    Key prefix = 0;
    for (int shift = std::numeric_limits<Key>::digits; shift > 0;) {
        const int wide = std::min(digit, shift), below = shift - wide;
        std::array<std::size_t, std::size_t{1} << digit> count{};
        for (std::size_t j = 0; j < n; ++j) {
            if (!bit_at(among, j)) continue;
            const Key key = magnitude(x + j, smallest);
            if (shift == std::numeric_limits<Key>::digits || key >> shift == prefix)
                ++count[static_cast<std::size_t>(key >> below) & (count.size() - 1) & ((std::size_t{1} << wide) - 1)];
        }
        std::size_t d = (std::size_t{1} << wide) - 1;
        while (count[d] < k) k -= count[d--];
        prefix = static_cast<Key>(prefix << wide) | static_cast<Key>(d);
        shift = below;
    }
    return prefix;
}

// To a multiple of 64, with keys below all others.
template <class R>
std::size_t fill_up(MagnitudeKey<R>* keys, std::size_t n) {
    const std::size_t filled = (n + 63) / 64 * 64;
    std::fill(keys + n, keys + filled, MagnitudeKey<R>{-1});
    return filled;
}

// Enough for a bracket of a tenth, which costs about as much to sort out as the sample.
inline constexpr std::size_t sample_size = 1024;

// Where the k-th of `competing` keys should lie: 3.5 standard deviations of the sample's rank to both sides. One key of
// every `step`, and not the same of each: a step that divides a row's length would see a few columns only.
template <class R>
void guess(const R* x, const std::uint64_t* among, std::size_t n, std::size_t competing, std::size_t k, Bracket<R>& b) {
    using Key = MagnitudeKey<R>;
    std::array<Key, sample_size + 64> sample;
    const std::size_t size = std::min(sample_size, n / 4), step = n / size;
    std::size_t taken = 0;
    for (std::uint64_t i = 0; i < size; ++i) {
        const std::size_t j = i * step + ((i * 0x9e3779b97f4a7c15u >> 32) * step >> 32);
        sample[taken] = magnitude(x + j, b.smallest);
        taken += bit_at(among, j);
    }
    const double share = static_cast<double>(k) / static_cast<double>(competing);
    const double rank = share * static_cast<double>(taken);
    const double margin = 3.5 * std::sqrt(rank * (1 - share)) + 2;
    const std::size_t filled = fill_up<R>(sample.data(), taken);
    b.low = 0;
    b.high = nan_key<R>;
    if (rank + margin < static_cast<double>(taken))
        ranked(sample.data(), filled, static_cast<std::size_t>(rank + margin), &b.low);
    if (rank > margin) ranked(sample.data(), filled, static_cast<std::size_t>(rank - margin), &b.high);
}

// The k largest (smallest) magnitudes among those whose bit is set; k is less than their number.
template <class R>
void choose(const R* x, const std::uint64_t* among, std::size_t n, std::size_t competing, std::size_t k, bool smallest,
            std::uint64_t* out);

// Takes the rest of k from what was set aside.
template <class R>
void settle(const Bracket<R>& b, std::size_t n, std::size_t k, std::uint64_t* out) {
    std::size_t rest = k - b.above;
    if (b.low == b.high || rest == b.inside) {  // all alike: the first ones
        for (std::size_t w = 0; rest > 0; ++w)
            if (const auto here = static_cast<std::size_t>(std::popcount(b.where[w])); here <= rest) {
                out[w] |= b.where[w];
                rest -= here;
            } else {
                for (std::uint64_t bits = b.where[w]; rest > 0; bits &= bits - 1, --rest) out[w] |= bits & (~bits + 1);
            }
        return;
    }
    if (rest == 0) return;
    const Scratch<std::uint64_t> taken((b.inside + 63) / 64 + 2);
    std::fill_n(taken.end() - 2, 2, 0);
    choose(reinterpret_cast<const R*>(b.keys), nullptr, b.inside, b.inside, rest, false, taken.data());
    deposit(taken.data(), b.where, (n + 63) / 64, out);
}

// The k-th key of a few.
template <class R>
MagnitudeKey<R> kth_of_few(const R* x, const std::uint64_t* among, std::size_t n, std::size_t k, bool smallest) {
    const Scratch<MagnitudeKey<R>> keys(n + 64);
    std::size_t count = 0;
    for (std::size_t j = 0; j < n; ++j) {
        keys[count] = magnitude(x + j, smallest);
        count += bit_at(among, j);
    }
    MagnitudeKey<R> kth = 0;
    ranked(keys.data(), fill_up<R>(keys.data(), count), k - 1, &kth);
    return kth;
}

template <class R>
void choose(const R* x, const std::uint64_t* among, std::size_t n, std::size_t competing, std::size_t k, bool smallest,
            std::uint64_t* out) {
    using Key = MagnitudeKey<R>;
    Scratch<std::uint64_t> where((n + 63) / 64);
    Bracket<R> b{};
    b.smallest = smallest;
    b.where = where.data();
    const auto run = [&](Key low, Key high, std::size_t room) {
        Scratch<Key> keys(room + 64);
        b.low = low;
        b.high = high;
        b.keys = keys.data();
        b.room = room;
        b.above = b.inside = 0;
        split(x, among, n, out, &b);
        const bool hit = b.inside <= room && b.above <= k && k <= b.above + b.inside;
        if (hit) settle(b, n, k, out);
        return hit;
    };
    const auto equal = [&](Key kth) { return run(kth, kth, n); };
    if (n <= 1024) {
        equal(kth_of_few(x, among, n, k, smallest));
        return;
    }
    guess(x, among, n, competing, k, b);
    const Key low = b.low, high = b.high;
    if (run(low, high, low == high ? n : n / 3)) return;
    if (b.inside > b.room) {
        if (run(low + 1, high - 1, n / 3)) return;
        if (b.inside <= b.room && equal(k < b.above ? high : low)) return;
    }
    equal(kth_key(x, among, n, k, smallest));
}

// As many as there are, if that is less than k.
template <class R>
void pick(const R* x, const std::uint64_t* among, std::size_t n, std::size_t competing, std::size_t k, bool smallest,
          std::uint64_t* out) {
    const std::size_t words = (n + 63) / 64;
    if (k > 0 && k < competing) return choose(x, among, n, competing, k, smallest, out);
    for (std::size_t w = 0; w < words; ++w) out[w] = k == 0 ? 0 : among ? among[w] : ~std::uint64_t{0};
    if (n % 64 != 0) out[words - 1] &= (std::uint64_t{1} << (n % 64)) - 1;
}

// Chooses in a range among active (smallest) or inactive coordinates, and flips what is chosen in `onto`.
template <class R>
void flip_chosen(In<R> x, const Mask& active, Range in, std::size_t k, bool smallest, Mask& onto) {
    if (in.begin > in.end || in.end > x.size() || active.size() != x.size())
        throw ConfigError("the range or the mask does not fit the vector that coordinates are chosen from");
    const std::size_t words = (in.size() + 63) / 64;
    const Scratch<std::uint64_t> among(words), picked(words);
    cut(active, in, !smallest, among);
    pick(x.data() + in.begin, among.data(), in.size(), count_bits(among.data(), words), k, smallest, picked.data());
    flip(onto, in, picked);
}

template <class R>
Mask largest(In<R> x, std::size_t k) {
    Vec<std::uint64_t> picked((x.size() + 63) / 64);
    pick(x.data(), nullptr, x.size(), x.size(), k, false, picked.data());
    Mask result;
    result.assign(x.size(), std::move(picked));
    return result;
}
template <class R>
Mask chosen(In<R> x, const Mask& active, Range in, std::size_t k, bool smallest) {
    Mask result(x.size());
    flip_chosen(x, active, in, k, smallest, result);
    return result;
}
template <class R>
void drop_smallest(In<R> packed, Mask& mask, Range in, std::size_t k) {
    const bool fits = in.begin <= in.end && in.end <= mask.size();
    const std::size_t words = fits ? (in.size() + 63) / 64 : 0;
    const Scratch<std::uint64_t> active(words), dropped(words), weakest((packed.size() + 63) / 64 + 2);
    if (fits) cut(mask, in, false, active);
    if (!fits || count_bits(active.data(), words) != packed.size())
        throw ConfigError("a mask is pruned by as many numbers as it has active coordinates in the range");
    pick(packed.data(), nullptr, packed.size(), packed.size(), k, true, weakest.data());
    std::fill_n(weakest.end() - 2, 2, 0);
    std::fill_n(dropped.data(), words, 0);
    deposit(weakest.data(), active.data(), words, dropped.data());
    flip(mask, in, dropped);
}

}  // namespace detail

// The k largest magnitudes of x (all of them, if there are fewer).
inline Mask largest(In<float> x, std::size_t k) { return detail::largest<float>(x, k); }
inline Mask largest(In<double> x, std::size_t k) { return detail::largest<double>(x, k); }

// The k largest magnitudes at inactive coordinates of a range: where a mask grows. The mask given back has the size
// of x and no bit outside the range.
inline Mask largest_inactive(In<float> x, const Mask& active, Range in, std::size_t k) {
    return detail::chosen<float>(x, active, in, k, false);
}
inline Mask largest_inactive(In<double> x, const Mask& active, Range in, std::size_t k) {
    return detail::chosen<double>(x, active, in, k, false);
}

// The k smallest magnitudes at active coordinates of a range: where a mask is pruned.
inline Mask smallest_active(In<float> x, const Mask& active, Range in, std::size_t k) {
    return detail::chosen<float>(x, active, in, k, true);
}
inline Mask smallest_active(In<double> x, const Mask& active, Range in, std::size_t k) {
    return detail::chosen<double>(x, active, in, k, true);
}

// The same in place. Pruning takes the numbers packed, one for each active coordinate of the range.
inline void drop_smallest(In<float> packed, Mask& mask, Range in, std::size_t k) {
    detail::drop_smallest<float>(packed, mask, in, k);
}
inline void drop_smallest(In<double> packed, Mask& mask, Range in, std::size_t k) {
    detail::drop_smallest<double>(packed, mask, in, k);
}
inline void add_largest(In<float> x, Mask& mask, Range in, std::size_t k) {
    detail::flip_chosen<float>(x, mask, in, k, false, mask);
}
inline void add_largest(In<double> x, Mask& mask, Range in, std::size_t k) {
    detail::flip_chosen<double>(x, mask, in, k, false, mask);
}

}  // namespace tessera::kernels
