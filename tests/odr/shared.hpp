// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace odr {

// What one translation unit knows; both must know the same.
struct Facts {
    std::uint64_t words;   // of a keyed stream
    double uniform;        // bits must agree: no contraction may slip in here
    std::uint64_t sizes;   // of types that both units pass around
    const void* identity;  // the address of one inline function
    friend bool operator==(const Facts&, const Facts&) = default;
};

Facts plain();
Facts avx2();

}  // namespace odr
