// SPDX-License-Identifier: BSD-3-Clause
// Full participation: every client with training data, in the order the uniform sampler would give.
#pragma once

#include <tessera/core/offers.hpp>
#include <tessera/sample/uniform.hpp>

namespace tessera::sample {

struct Everyone {
    static constexpr auto offers = offer::each_by_itself;
    Plan plan(Key key, std::size_t round, std::span<const Candidate> candidates) const {
        return Uniform{.count = candidates.size()}.plan(key, round, candidates);
    }
    constexpr double each_by_itself() const { return 1; }
};

}  // namespace tessera::sample
