// SPDX-License-Identifier: BSD-3-Clause
// Vectors by blocks that have one scale each: a large number in one layer does not cost the others their bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>

namespace tessera::codec::detail {

inline constexpr std::size_t block_size = 1024;  // a float of scale costs 0.4 % of 8 bits, 3 % of one

// f(block, to) for blocks of x and the same places of `to`.
template <class X, class To, class F>
void for_each_block(X x, To to, F&& f) {
    for (std::size_t i = 0; i < x.size(); i += block_size) {
        const std::size_t n = std::min(block_size, x.size() - i);
        f(x.subspan(i, n), to.subspan(i, n));
    }
}
// A scale that came from outside.
template <class R>
R read_scale(Reader& in) {
    R scale = 0;
    in.raw(&scale, sizeof scale);
    if (!(scale >= 0 && std::isfinite(scale))) throw WireError("a scale is finite and not negative");
    return scale;
}

}  // namespace tessera::codec::detail
