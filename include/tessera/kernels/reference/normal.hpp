// SPDX-License-Identifier: BSD-3-Clause
// Normal numbers one by one: the specification, and the oracle of the kernel test.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tessera/core/random.hpp>

namespace tessera::kernels::reference {

// Numbers first, first + 1, ... of Stream(key).normal()
template <class R>
void normal(Key key, std::uint64_t first, R* out, std::size_t n) {
    Stream draw(key);
    for (std::uint64_t i = 0; i < first; ++i) draw.normal();
    for (std::size_t j = 0; j < n; ++j) out[j] = static_cast<R>(draw.normal());
}

}  // namespace tessera::kernels::reference
