// SPDX-License-Identifier: BSD-3-Clause
// What a private run will have cost after so many more rounds, before any of them is made.
//
//   const auto ahead = privacy_forecast(run, sampler, 100);
//   ahead.dearest(1e-5).epsilon;          of the client that pays most
//   ahead.rounds_within(2, 1e-5);         rounds that an epsilon of 2 allows
//   ahead.scale_within(2, 1e-5);          by how much more noise all of them would keep to it
//
// Every client of the plan makes one visit of which nothing is kept or sent: all of its visits cost
// the same. Where the plan is drawn under a key of the system (fold::PrivateMean, sample::Poisson)
// nobody knows ahead who comes: then everybody is counted in every round, an upper bound.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <tessera/method/private.hpp>
#include <tessera/privacy/budget.hpp>
#include <tessera/runtime/federation.hpp>

namespace tessera {

template <class Me, class M, Sampler S>
    requires detail::HoldsPrivate<Me>
privacy::Forecast privacy_forecast(const Federation<Me, M>& run, const S& sampler,
                                   std::size_t rounds) {
    privacy::Forecast all;
    std::vector<Candidate> candidates;
    for (Id k = 0; k < run.size(); ++k) {
        run.bring(k);
        all.before.push_back(detail::private_state<Me>(run.client(k)).ledger);
        if (!run.data()[k].train.empty()) candidates.push_back({k, run.data()[k].key});
    }
    all.visit.resize(run.size());
    Workspace<real<M>> workspace;
    const Key key{run.settings().seed};
    const Participation drawn = participation_of(sampler);
    const bool secret = drawn.each_by_itself && drawn.rate < 1 &&
                        detail::plan_key(run.setup().method, key) != key;
    const auto plan = [&](std::size_t round) {
        if (!secret) return sampler.plan(key, round, candidates);
        Plan everybody;
        for (const Candidate& c : candidates) everybody.push_back({c.client, true});
        return everybody;
    };
    for (std::size_t r = 0; r < rounds; ++r) {
        auto& visited = all.rounds.emplace_back();
        const std::size_t round = run.rounds_done() + r;
        for (const Seat& seat : plan(round)) {
            visited.push_back(seat.client);
            if (!all.visit[seat.client].empty()) continue;
            run.bring(seat.client);
            run.at_client(seat.client, workspace, [&](auto client, auto received, auto& space) {
                try {
                    client.visit(std::move(received), round, space);
                } catch (const BudgetError&) {  // what may not be visited any more has its price
                }
                all.visit[seat.client] = space.spent;
            });
        }
    }
    return all;
}

}  // namespace tessera
