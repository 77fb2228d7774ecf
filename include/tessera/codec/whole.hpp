// SPDX-License-Identifier: BSD-3-Clause
// Every number as it is.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/contracts/codec.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::codec {

struct Whole {
    static constexpr Offers offers{};
    static constexpr std::size_t per_byte = 1;
    static constexpr bool loses = false, biased = false;

    template <class R>
    void encode(In<R> x, Key, Bytes& out, Out<R> read) const {
        put_raw(out, x.data(), x.size_bytes());
        std::copy(x.begin(), x.end(), read.begin());
    }
    template <class R>
    void decode(Reader& in, Out<R> x) const {
        in.raw(x.data(), x.size_bytes());
    }
};

}  // namespace tessera::codec
