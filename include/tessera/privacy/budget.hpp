// SPDX-License-Identifier: BSD-3-Clause
// A budget: an epsilon that no client passes.
//
// What a noisy step costs is its rate and its noise, and how many steps a visit takes follows from sizes that are
// public; none of it reads data. So a ledger can be held against the budget before anything of a visit is sent, and
// before the visit itself once one has shown its price (over_budget), and what a run will have cost is known before it
// begins (Forecast).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tessera/contracts/private.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/privacy/accountant.hpp>

namespace tessera {

namespace privacy {

// What one more visit at this price would be refused for, if it would. An epsilon of 0 is no budget.
inline std::optional<Overdraft> over_budget(double epsilon, double delta, const Vec<Spent>& ledger,
                                            const Vec<Spent>& price, Id client) {
    if (epsilon == 0) return std::nullopt;
    Vec<Spent> after = ledger;
    for (const Spent& s : price) spend(after, s);
    const double would = guarantee(after, delta).epsilon;
    if (would > epsilon) return Overdraft{client, would, epsilon};
    return std::nullopt;
}

// Rounds to come: what each client has spent, what one visit costs it, and who is visited when.
struct Forecast {
    std::vector<Vec<Spent>> before, visit;
    std::vector<std::vector<Id>> rounds;

    struct Dearest {
        double epsilon = 0;
        Id client = 0;
    };

    // After the first `count` rounds, with all noise to come `scale` times as large.
    Dearest dearest(double delta, std::size_t count, double scale = 1) const {
        std::vector<std::uint64_t> visits(visit.size());
        for (std::size_t r = 0; r < std::min(count, rounds.size()); ++r)
            for (const Id k : rounds[r]) ++visits[k];
        Dearest most;
        for (std::size_t k = 0; k < visits.size(); ++k) {
            Vec<Spent> ledger = before[k];
            for (const Spent& s : visit[k]) spend(ledger, {s.rate, s.noise * scale, s.steps * visits[k]});
            if (const double e = guarantee(ledger, delta).epsilon; e > most.epsilon) most = {e, static_cast<Id>(k)};
        }
        return most;
    }
    Dearest dearest(double delta) const { return dearest(delta, rounds.size()); }

    // How many rounds fit into the budget. Epsilon never falls from round to round.
    std::size_t rounds_within(double epsilon, double delta) const {
        std::size_t fit = 0, not_fit = rounds.size() + 1;
        while (not_fit - fit > 1) {
            const std::size_t middle = fit + (not_fit - fit) / 2;
            (dearest(delta, middle).epsilon <= epsilon ? fit : not_fit) = middle;
        }
        return fit;
    }

    // What all noise must be multiplied by to keep to the budget: the least that does, within one part in 1e6, and
    // never less.
    double scale_within(double epsilon, double delta) const {
        tessera::detail::require(epsilon > 0, "epsilon must be positive, not " + std::to_string(epsilon));
        const auto keeps = [&](double scale) { return dearest(delta, rounds.size(), scale).epsilon <= epsilon; };
        double low = 0, high = 1;
        while (!keeps(high)) {
            low = high;
            high *= 2;
            tessera::detail::require(high < 1e9, "no noise keeps to an epsilon of " + std::to_string(epsilon) +
                                                     " at a delta of " + std::to_string(delta) +
                                                     "; allow more of either");
        }
        while (high - low > 1e-6 * high && high > 1e-3) {
            const double middle = (low + high) / 2;
            (keeps(middle) ? high : low) = middle;
        }
        return high;
    }
};

}  // namespace privacy
}  // namespace tessera
