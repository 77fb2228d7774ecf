// SPDX-License-Identifier: BSD-3-Clause
// Uniform sampling without replacement, a function of (seed, round) and of the clients'
// keys only: all methods of a comparison visit the same clients.
//
// Every candidate draws a priority; the `count` smallest are merged, in order of priority. Order and choice
// do not read client numbers, so relabelling clients permutes personal states and leaves the server's bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <tessera/contracts/plan.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::sample {

struct Uniform {
    static constexpr Offers offers{};
    std::size_t count = 10;        // clients whose upload counts
    bool everyone_trains = false;  // the pFedMe family trains all and merges `count`

    Plan plan(Key key, std::size_t round, std::span<const Candidate> candidates) const {
        // The sentence is made only when it is needed: rounds take nothing from the heap.
        if (count > candidates.size())
            throw ConfigError("per_round is " + std::to_string(count) + " but only " +
                              std::to_string(candidates.size()) + " clients have training data");
        struct Drawn {
            std::uint64_t priority;
            Id client;
        };
        const Key draw = key(purpose::sampling)(round);
        Vec<Drawn> drawn;
        drawn.reserve(candidates.size());
        for (const auto& c : candidates) drawn.push_back({Stream(draw(c.key)).word64(), c.client});
        const auto by_priority = [](const Drawn& a, const Drawn& b) {
            return a.priority != b.priority ? a.priority < b.priority : a.client < b.client;
        };
        if (everyone_trains)
            std::sort(drawn.begin(), drawn.end(), by_priority);
        else
            std::partial_sort(drawn.begin(), drawn.begin() + static_cast<std::ptrdiff_t>(count), drawn.end(),
                              by_priority);
        Plan plan;
        const std::size_t seats = everyone_trains ? drawn.size() : count;
        for (std::size_t i = 0; i < seats; ++i) plan.push_back({drawn[i].client, i < count});
        return plan;
    }
};

}  // namespace tessera::sample
