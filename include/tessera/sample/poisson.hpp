// SPDX-License-Identifier: BSD-3-Clause
// Every client by itself, with one probability: the plan that makes rounds of fold::PrivateMean cheaper. A function of
// the key, the round and the clients' keys only; a round may have nobody.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tessera/contracts/plan.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/random.hpp>
#include <tessera/sample/detail/priorities.hpp>

namespace tessera::sample {

struct Poisson {
    static constexpr auto offers = offer::each_by_itself;
    double rate = 0.1;  // of each client, in (0, 1]

    Plan plan(Key key, std::size_t round, std::span<const Candidate> candidates) const {
        if (!(rate > 0 && rate <= 1)) throw ConfigError("rate must lie in (0, 1], not " + std::to_string(rate));
        // Of 2^64 equally likely words, the share `rate` of the smallest. Their order is that of the seats.
        const double bound = std::ldexp(rate, 64), near = bound + 0x1p12;  // no word beyond `near` is rounded to less
        const std::uint64_t most = near < 0x1p64 ? static_cast<std::uint64_t>(near) : ~std::uint64_t{};
        Vec<detail::Drawn> drawn;
        detail::for_each_priority(key(purpose::sampling)(round), candidates, [&](const detail::Drawn& each) {
            if (each.priority > most) return;
            if (rate == 1 || static_cast<double>(each.priority) < bound) drawn.push_back(each);
        });
        std::sort(drawn.begin(), drawn.end());
        Plan plan;
        for (const auto& each : drawn) plan.push_back({each.client, true});
        return plan;
    }
    constexpr double each_by_itself() const { return rate; }
};

}  // namespace tessera::sample
