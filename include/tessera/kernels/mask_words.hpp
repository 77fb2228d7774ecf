// SPDX-License-Identifier: BSD-3-Clause
// Bits of a mask 64 at a time: counted, moved to the front of a range and back, and spread over the set bits of others.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include <tessera/core/arena.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/kernels/dispatch.hpp>

namespace tessera::kernels::detail {

// Whether words may be handled by instructions that came with AVX2 and have no set of their own.
inline bool handles_words() {
#ifdef TESSERA_X86
    return active() != Set::portable && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
#else
    return false;
#endif
}
#ifdef TESSERA_X86
#define TESSERA_WORDS [[gnu::target("bmi2,popcnt")]] inline
TESSERA_WORDS std::size_t count_quickly(const std::uint64_t* words, std::size_t n) {
    std::size_t count = 0;
    for (std::size_t w = 0; w < n; ++w) count += static_cast<std::size_t>(__builtin_popcountll(words[w]));
    return count;
}
TESSERA_WORDS void deposit_quickly(const std::uint64_t* bits, const std::uint64_t* places, std::size_t words,
                                   std::uint64_t* out) {
    std::size_t at = 0;
    for (std::size_t w = 0; w < words; ++w) {
        const std::uint64_t next = bits[at / 64] >> (at % 64) | bits[at / 64 + 1] << 1 << (63 - at % 64);
        out[w] |= __builtin_ia32_pdep_di(next, places[w]);
        at += static_cast<std::size_t>(__builtin_popcountll(places[w]));
    }
}
#undef TESSERA_WORDS
#endif

inline std::size_t count_bits(const std::uint64_t* words, std::size_t n) {
#ifdef TESSERA_X86
    if (handles_words()) return count_quickly(words, n);
#endif
    std::size_t count = 0;
    for (std::size_t w = 0; w < n; ++w) count += static_cast<std::size_t>(std::popcount(words[w]));
    return count;
}
// Sets the bits of out that stand at the places whose own bit, in order, is set. Up to two words behind the last of
// `bits` are read, and do not matter.
inline void deposit(const std::uint64_t* bits, const std::uint64_t* places, std::size_t words, std::uint64_t* out) {
#ifdef TESSERA_X86
    if (handles_words()) return deposit_quickly(bits, places, words, out);
#endif
    std::size_t at = 0;
    for (std::size_t w = 0; w < words; ++w)
        for (std::uint64_t left = places[w]; left != 0; left &= left - 1, ++at)
            out[w] |= (left & (~left + 1)) * (bits[at / 64] >> (at % 64) & 1);
}

// Bits of `mask` (or their complement) in the range, moved to bit 0.
inline void cut(const Mask& mask, Range in, bool complement, const Scratch<std::uint64_t>& words) {
    const auto& from = mask.words();
    const std::size_t first = in.begin / 64, shift = in.begin % 64;
    const std::uint64_t turn = complement ? ~std::uint64_t{0} : 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::uint64_t bits = from[first + i] >> shift;
        if (shift != 0 && first + i + 1 < from.size()) bits |= from[first + i + 1] << (64 - shift);
        words[i] = bits ^ turn;
    }
    if (in.size() % 64 != 0) words[words.size() - 1] &= (std::uint64_t{1} << (in.size() % 64)) - 1;
}
// And back: what is set in `words` changes in the mask.
inline void flip(Mask& mask, Range in, const Scratch<std::uint64_t>& words) {
    const std::size_t first = in.begin / 64, shift = in.begin % 64;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::size_t w = first + i;
        mask.set_word(w, mask.words()[w] ^ words[i] << shift);
        if (shift != 0 && w + 1 < mask.words().size())
            mask.set_word(w + 1, mask.words()[w + 1] ^ words[i] >> (64 - shift));
    }
}

}  // namespace tessera::kernels::detail

namespace tessera::kernels {

// How many coordinates of a range are active.
inline std::size_t count_active(const Mask& mask, Range in) {
    const Scratch<std::uint64_t> words((in.size() + 63) / 64);
    detail::cut(mask, in, false, words);
    return detail::count_bits(words.data(), words.size());
}

}  // namespace tessera::kernels
