// SPDX-License-Identifier: BSD-3-Clause
// Uniform sampling without replacement, a function of (seed, round) and of the clients'
// keys only: all methods of a comparison visit the same clients.
//
// Every candidate draws a priority; the `count` smallest are merged, in order of priority. Order and choice
// do not read client numbers, so relabelling clients permutes personal states and leaves the server's bits.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <tessera/contracts/plan.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/random.hpp>
#include <tessera/sample/detail/priorities.hpp>

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
        const Key draw = key(purpose::sampling)(round);
        Plan plan;
        for (const auto& each : detail::smallest(draw, candidates, everyone_trains ? candidates.size() : count))
            plan.push_back({each.client, plan.size() < count});
        return plan;
    }
};

}  // namespace tessera::sample
