// SPDX-License-Identifier: BSD-3-Clause
// Dropout's factors one by one: the specification, and the oracle of the kernel test.
#pragma once

#include <cstddef>

#include <tessera/core/random.hpp>

namespace tessera::kernels::reference {

template <class R>
void dropout(Key key, double rate, R* out, std::size_t n) {
    Stream draw(key);
    for (std::size_t j = 0; j < n; ++j) out[j] = draw.uniform() < rate ? R(0) : static_cast<R>(1 / (1 - rate));
}

}  // namespace tessera::kernels::reference
