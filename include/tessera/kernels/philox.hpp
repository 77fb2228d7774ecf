// SPDX-License-Identifier: BSD-3-Clause
// Numbers of a key, many at once: Philox in the lanes of a register, 64 bits a number. Number 2i and 2i + 1 come from
// block i alone, so a vector may be filled in any pieces; kernels/normal.hpp and kernels/dropout.hpp say what they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <tessera/core/random.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels::detail {

// The product of the low halves.
template <class T>
TESSERA_INLINE void multiply_low(const T& a, const T& b, T& product) {
#if defined(__x86_64__) && !defined(__clang__)  // Clang finds the instruction itself
    if constexpr (sizeof(T) > 16) asm("vpmuludq %2, %1, %0" : "=v"(product) : "v"(a), "v"(b));
    else product = reinterpret_cast<T>(__builtin_ia32_pmuludq128(reinterpret_cast<Held<int, 16>>(a),
                                                                 reinterpret_cast<Held<int, 16>>(b)));
#else
    product = (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#endif
}

// Blocks `index` of the key, a word a lane.
template <class T>
TESSERA_INLINE void philox_lanes(const T& index, const Key& key, T (&word)[4]) {
    const T low = T{} + 0xFFFFFFFFu, a = T{} + 0xD2511F53u, b = T{} + 0xCD9E8D57u;
    word[0] = index & low;
    word[1] = index >> 32;
    word[2] = T{} + (key.salt & 0xFFFFFFFFu);
    word[3] = T{} + (key.salt >> 32 & 0x7FFFFFFFu);  // the top bit marks keys, not draws
    auto k0 = static_cast<std::uint32_t>(key.key), k1 = static_cast<std::uint32_t>(key.key >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
        T p, q;
        multiply_low(a, word[0], p);
        multiply_low(b, word[2], q);
        word[0] = (q >> 32) ^ word[1] ^ std::uint64_t{k0};
        word[1] = q & low;
        word[2] = (p >> 32) ^ word[3] ^ std::uint64_t{k1};
        word[3] = p & low;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

template <std::size_t Bytes, std::size_t... Lane>
TESSERA_INLINE void interleave(const Held<double, Bytes>& a, const Held<double, Bytes>& b, Held<double, Bytes>& low,
                               Held<double, Bytes>& high, std::index_sequence<Lane...>) {
    constexpr std::size_t lanes = sizeof...(Lane);
    low = __builtin_shufflevector(a, b, (Lane / 2 + Lane % 2 * lanes)...);
    high = __builtin_shufflevector(a, b, (lanes / 2 + Lane / 2 + Lane % 2 * lanes)...);
}

// out = numbers first, first + 1, ... of the key; `pair.draw` makes two of the 128 bits of a block.
template <class R, std::size_t Bytes, class Pair>
TESSERA_INLINE void fill_pairs(const Pair& pair, const Key& key, std::uint64_t first, R* out, std::size_t n) {
    constexpr std::size_t lanes = VectorOf<double, Bytes>::lanes;
    using Narrow = V<R, lanes * sizeof(R)>;
    const Key k = key;
    Held<std::uint64_t, Bytes> index;
    for (std::size_t l = 0; l < lanes; ++l) index[l] = first / 2 + l;
    R spare[2 * lanes];
    std::size_t skip = first % 2;
    for (std::size_t done = 0; done < n;) {
        Held<std::uint64_t, Bytes> word[4]{};
        Held<double, Bytes> even, odd, low, high;
        philox_lanes(index, k, word);
        pair.template draw<Bytes>(word[0] | word[1] << 32, word[2] | word[3] << 32, even, odd);
        interleave<Bytes>(even, odd, low, high, std::make_index_sequence<lanes>{});
        index += lanes;
        const bool whole = skip == 0 && done + 2 * lanes <= n;
        R* to = whole ? out + done : spare;
        *reinterpret_cast<Narrow*>(to) = __builtin_convertvector(low, Held<R, lanes * sizeof(R)>);
        *reinterpret_cast<Narrow*>(to + lanes) = __builtin_convertvector(high, Held<R, lanes * sizeof(R)>);
        const std::size_t used = std::min(2 * lanes - skip, n - done);
        if (!whole)
            for (std::size_t i = 0; i < used; ++i) out[done + i] = spare[skip + i];
        done += used;
        skip = 0;
    }
}

}  // namespace tessera::kernels::detail
