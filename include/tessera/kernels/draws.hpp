// SPDX-License-Identifier: BSD-3-Clause
// The first 64 bits of many streams at once, one for each of a list of names: Stream(key(name)).word64(). The same bits
// in every kernel set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tessera/core/random.hpp>
#include <tessera/kernels/philox.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

// One of ten rounds, on the lower halves of the lanes; what the upper ones hold is neither read nor cleared.
template <class T>
TESSERA_INLINE void philox_round(T& w0, T& w1, T& w2, T& w3, const T& k0, const T& k1) {
    const T a = T{} + 0xD2511F53u, b = T{} + 0xCD9E8D57u;
    T p, q;
    multiply_low(a, w0, p);
    multiply_low(b, w2, q);
    w0 = (q >> 32) ^ w1 ^ k0;
    w1 = q;
    w2 = (p >> 32) ^ w3 ^ k1;
    w3 = p;
}

template <class, std::size_t Bytes>
TESSERA_INLINE void first_draws_body(const Key* key, const std::uint64_t* names, std::uint64_t* out, std::size_t n) {
    using T = Held<std::uint64_t, Bytes>;
    using Load = V<std::uint64_t, Bytes>;
    constexpr std::size_t lanes = Bytes / sizeof(std::uint64_t), rounds = 10;
    constexpr std::uint64_t more0 = 0x9E3779B9u, more1 = 0xBB67AE85u;
    const T low = T{} + 0xFFFFFFFFu;
    T k0[rounds], k1[rounds];  // the same for all names
    for (std::size_t r = 0; r < rounds; ++r) {
        k0[r] = T{} + (key->key + r * more0);
        k1[r] = T{} + ((key->key >> 32) + r * more1);
    }
    // The top bit of the salt marks keys, not draws.
    const T salt0 = T{} + (key->salt & 0xFFFFFFFFu), salt1 = T{} + (key->salt >> 32 | 0x80000000u);
    // Two registers of names at a time: a round waits 6 cycles for itself, and there is room for another.
    constexpr std::size_t each = 2 * lanes;
    std::uint64_t spare[each]{}, drawn[each];
    for (std::size_t done = 0; done < n; done += each) {
        const bool whole = done + each <= n;
        if (!whole) std::copy(names + done, names + n, spare);
        const std::uint64_t* const from = whole ? names + done : spare;
        std::uint64_t* const to = whole ? out + done : drawn;
        const T first = *reinterpret_cast<const Load*>(from), second = *reinterpret_cast<const Load*>(from + lanes);
        T x0 = first, x1 = first >> 32, x2 = salt0, x3 = salt1;
        T y0 = second, y1 = second >> 32, y2 = salt0, y3 = salt1;
#pragma GCC unroll 10
        for (std::size_t r = 0; r < rounds; ++r) {  // the key of the name
            philox_round(x0, x1, x2, x3, k0[r], k1[r]);
            philox_round(y0, y1, y2, y3, k0[r], k1[r]);
        }
        T kx0 = x0, kx1 = x1, ky0 = y0, ky1 = y1;
        x0 = x1 = y0 = y1 = T{};
        x3 &= std::uint64_t{0x7FFFFFFFu};
        y3 &= std::uint64_t{0x7FFFFFFFu};
#pragma GCC unroll 10
        for (std::size_t r = 0; r < rounds; ++r) {  // block 0 of that key
            philox_round(x0, x1, x2, x3, kx0, kx1);
            philox_round(y0, y1, y2, y3, ky0, ky1);
            kx0 += more0, ky0 += more0;
            kx1 += more1, ky1 += more1;
        }
        *reinterpret_cast<Load*>(to) = (x0 & low) | x1 << 32;
        *reinterpret_cast<Load*>(to + lanes) = (y0 & low) | y1 << 32;
        if (!whole) std::copy(drawn, drawn + (n - done), out + done);
    }
}

}  // namespace detail

TESSERA_DISPATCH(first_draws, std::uint64_t,
                 (const Key* key, const std::uint64_t* names, std::uint64_t* out, std::size_t n), (key, names, out, n))

}  // namespace tessera::kernels
