// SPDX-License-Identifier: BSD-3-Clause
// Every client by itself, with one probability: the plan that makes rounds of fold::PrivateMean cheaper. A function of
// the key, the round and the clients' keys only; a round may have nobody.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <tessera/contracts/plan.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::sample {

struct Poisson {
    static constexpr auto offers = offer::each_by_itself;
    double rate = 0.1;  // of each client, in (0, 1]

    Plan plan(Key key, std::size_t round, std::span<const Candidate> candidates) const {
        if (!(rate > 0 && rate <= 1)) throw ConfigError("rate must lie in (0, 1], not " + std::to_string(rate));
        struct Drawn {
            std::uint64_t priority;
            Id client;
        };
        // Of 2^64 equally likely words, the share `rate` of the smallest. Their order is that of the seats.
        const Key draw = key(purpose::sampling)(round);
        const double bound = std::ldexp(rate, 64);
        Vec<Drawn> drawn;
        drawn.reserve(candidates.size());
        for (const auto& c : candidates)
            if (const auto word = Stream(draw(c.key)).word64(); rate == 1 || static_cast<double>(word) < bound)
                drawn.push_back({word, c.client});
        std::sort(drawn.begin(), drawn.end(), [](const Drawn& a, const Drawn& b) {
            return a.priority != b.priority ? a.priority < b.priority : a.client < b.client;
        });
        Plan plan;
        for (const auto& each : drawn) plan.push_back({each.client, true});
        return plan;
    }
    constexpr double each_by_itself() const { return rate; }
};

}  // namespace tessera::sample
