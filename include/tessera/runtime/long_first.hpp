// SPDX-License-Identifier: BSD-3-Clause
// The order in which the visits of a round are begun. Positions stay the plan's, so no bit depends on it.
//
// A long visit that is begun last keeps one worker busy while the others wait. So visits longer than a twentieth of a
// worker's share of all work are begun first, the longest of them first, and whoever waits at the end waits for at most
// a twentieth (Graham 1969), unless one visit alone is longer than a worker's share. The others keep the plan's order:
// uploads are added up with their neighbours, and those that are moved, at most twenty for each worker, wait for
// theirs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tessera/core/arena.hpp>

namespace tessera::detail {

// Places in `work`, which says how long each visit is expected to be: by its examples, for all clients of a method make
// the same number of epochs or steps.
inline Vec<std::uint32_t> long_first(std::span<const std::uint64_t> work, std::size_t workers) {
    constexpr std::uint64_t share = 20;
    std::uint64_t total = 0;
    for (const auto w : work) total += w;
    const auto is_long = [&](std::size_t i) { return workers > 1 && work[i] * workers * share > total; };
    Vec<std::uint32_t> order;
    order.reserve(work.size());
    for (std::size_t i = 0; i < work.size(); ++i)
        if (is_long(i)) order.push_back(static_cast<std::uint32_t>(i));
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return work[a] != work[b] ? work[a] > work[b] : a < b; });
    for (std::size_t i = 0; i < work.size(); ++i)
        if (!is_long(i)) order.push_back(static_cast<std::uint32_t>(i));
    return order;
}

}  // namespace tessera::detail
