// SPDX-License-Identifier: BSD-3-Clause
// What kernels must know of this CPU's caches before they choose how to walk through memory. It never changes a bit.
#pragma once

#include <cstddef>

#include <tessera/kernels/dispatch.hpp>

#ifdef TESSERA_X86
#include <cpuid.h>
#endif

namespace tessera::kernels {

// Lines of one set of the first-level data cache; 8 where the CPU does not say.
inline std::size_t l1_ways() {
#ifdef TESSERA_X86
    for (const unsigned leaf : {4u, 0x8000001Du})  // Intel's list of caches, AMD's
        for (unsigned entry = 0; entry < 8; ++entry) {
            unsigned a = 0, b = 0, c = 0, d = 0;
            if (!__get_cpuid_count(leaf, entry, &a, &b, &c, &d)) break;
            const unsigned type = a & 31, level = a >> 5 & 7;
            if (type == 0) break;  // the end of the list
            constexpr unsigned instructions = 2;
            if (type != instructions && level == 1) return (b >> 22) + 1;
        }
#endif
    return 8;
}

}  // namespace tessera::kernels
