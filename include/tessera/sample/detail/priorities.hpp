// SPDX-License-Identifier: BSD-3-Clause
// What every candidate draws in a round, Stream(draw(its key)).word64(), and the order that follows from it. Nobody's
// draw depends on another's; they are made side by side, 3 ns a candidate with AVX-512, 35 one by one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tessera/contracts/plan.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>
#include <tessera/kernels/draws.hpp>

namespace tessera::sample::detail {

struct Drawn {
    std::uint64_t priority;
    Id client;
    // Equal ones are told apart by their number, so that a plan is a function of who there is, not of their order.
    friend bool operator<(const Drawn& a, const Drawn& b) {
        return a.priority != b.priority ? a.priority < b.priority : a.client < b.client;
    }
};

// use(drawn) for each candidate, in their order.
template <class Use>
void for_each_priority(Key draw, std::span<const Candidate> candidates, Use&& use) {
    constexpr std::size_t at_once = 512;
    std::uint64_t names[at_once], words[at_once];
    for (; !candidates.empty(); candidates = candidates.subspan(std::min(at_once, candidates.size()))) {
        const std::size_t n = std::min(at_once, candidates.size());
        for (std::size_t i = 0; i < n; ++i) names[i] = candidates[i].key;
        kernels::first_draws(&draw, names, words, n);
        for (std::size_t i = 0; i < n; ++i) use(Drawn{words[i], candidates[i].client});
    }
}

// The `count` smallest, in order. Memory for some more than these, not for all candidates.
inline Vec<Drawn> smallest(Key draw, std::span<const Candidate> candidates, std::size_t count) {
    Vec<Drawn> kept;
    if (count == 0) return kept;
    const std::size_t most = std::min(candidates.size(), 2 * count + 512);
    kept.reserve(most);
    Drawn last{~std::uint64_t{}, ~Id{}};  // of those kept when there were too many: whoever comes after it is out
    for_each_priority(draw, candidates, [&](const Drawn& each) {
        if (each.priority > last.priority) return;
        kept.push_back(each);
        if (kept.size() < most || kept.size() == count) return;
        const auto end = kept.begin() + static_cast<std::ptrdiff_t>(count);
        std::nth_element(kept.begin(), end - 1, kept.end());
        last = end[-1];
        kept.erase(end, kept.end());
    });
    std::sort(kept.begin(), kept.end());
    kept.resize(std::min(kept.size(), count));
    return kept;
}

}  // namespace tessera::sample::detail
