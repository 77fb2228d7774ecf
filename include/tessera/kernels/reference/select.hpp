// SPDX-License-Identifier: BSD-3-Clause
// Choosing by magnitude as a sort: the specification, and the oracle of every kernel test.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <tessera/core/mask.hpp>

namespace tessera::kernels::reference {

// A NaN is larger than every number and equal to every NaN.
template <class R>
bool larger(R a, R b) {
    if (std::isnan(b)) return false;
    return std::isnan(a) || std::abs(a) > std::abs(b);
}

// The first k (or all) of the competing coordinates, sorted by magnitude; equal ones stay in order of index.
template <class R, class Competes>
Mask chosen(std::span<const R> x, std::size_t k, bool smallest, Competes&& competes) {
    std::vector<std::size_t> order;
    for (std::size_t j = 0; j < x.size(); ++j)
        if (competes(j)) order.push_back(j);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return smallest ? larger(x[b], x[a]) : larger(x[a], x[b]);
    });
    Mask mask(x.size());
    for (std::size_t i = 0; i < std::min(k, order.size()); ++i) mask.set(order[i], true);
    return mask;
}

}  // namespace tessera::kernels::reference
