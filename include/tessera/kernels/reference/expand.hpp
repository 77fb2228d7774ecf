// SPDX-License-Identifier: BSD-3-Clause
// Unpacking as a plain loop: the specification, and the oracle of the kernel test.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::kernels::reference {

// out[j] = bit j of the mask ? the next packed number : before[j]
template <class R>
void expand(const R** packed, const std::uint64_t* mask, const R* before, R* out, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) out[j] = (mask[j / 64] >> (j % 64) & 1) != 0 ? *(*packed)++ : before[j];
}

}  // namespace tessera::kernels::reference
