// SPDX-License-Identifier: BSD-3-Clause
// Factors of dropout: 0 with probability `rate`, else 1 / (1 - rate), by the numbers of Stream(key).uniform(). The same
// bits in every kernel set.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>
#include <tessera/kernels/philox.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

struct DropoutPair {
    std::int64_t dropped;  // of the 2^53 numbers that uniform() can give, how many lie below the rate
    double kept;

    template <std::size_t Bytes>
    TESSERA_INLINE void draw(const Held<std::uint64_t, Bytes>& first, const Held<std::uint64_t, Bytes>& second,
                             Held<double, Bytes>& even, Held<double, Bytes>& odd) const {
        using I = Held<std::int64_t, Bytes>;
        using D = Held<double, Bytes>;
        even = reinterpret_cast<I>(first >> 11) < dropped ? D{} : D{} + kept;
        odd = reinterpret_cast<I>(second >> 11) < dropped ? D{} : D{} + kept;
    }
};

template <class R, std::size_t Bytes>
TESSERA_INLINE void dropout_body(const Key* key, std::int64_t dropped, double kept, R* out, std::size_t n) {
    fill_pairs<R, Bytes>(DropoutPair{dropped, kept}, *key, 0, out, n);
}

}  // namespace detail

#define TESSERA_DROPOUT_KERNELS(R)                                                                          \
    TESSERA_DISPATCH(dropout, R, (const Key* key, std::int64_t dropped, double kept, R* out, std::size_t n), \
                     (key, dropped, kept, out, n))
TESSERA_DROPOUT_KERNELS(float)
TESSERA_DROPOUT_KERNELS(double)
#undef TESSERA_DROPOUT_KERNELS

// k / 2^53 < rate just if k < ceil(2^53 rate): the scaling is exact.
template <class R>
void fill_dropout(Key key, double rate, Out<R> factors) {
    dropout(&key, static_cast<std::int64_t>(std::ceil(rate * 0x1p53)), 1 / (1 - rate), factors.data(), factors.size());
}

}  // namespace tessera::kernels
