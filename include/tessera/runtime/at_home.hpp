// SPDX-License-Identifier: BSD-3-Clause
// What is asked of every client is asked where its state rests, and then known on all ranks. On one rank that is a loop
// over all clients and nothing more.
#pragma once

#include <cstddef>
#include <vector>

#include <tessera/contracts/executor.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/runtime/federation.hpp>

namespace tessera::detail {

// each(k, worker) for the clients that live here, on the executor; what it throws on one rank is thrown on all.
template <report::Whom P = report::Whom::all, class Me, class M, class E, class Each>
void for_each_at_home(const Federation<Me, M>& run, const E& executor, Each&& each) {
    const std::size_t n = P == report::Whom::unseen ? run.data().unseen() : run.size();
    if (!run.ranks().several()) return executor.for_each(n, each);
    std::vector<std::size_t> here;
    for (std::size_t k = 0; k < n; ++k)
        if (P == report::Whom::unseen ? run.unseen_here(k) : run.lives_here(static_cast<Id>(k))) here.push_back(k);
    run.ranks().agree(run.ranks().attempt([&] {
        executor.for_each(here.size(), [&](std::size_t i, std::size_t worker) { each(here[i], worker); });
    }));
}

// by_client[k] was found where client k lives; now all ranks have it.
template <report::Whom P = report::Whom::all, class Me, class M, class List>
void know_everywhere(const Federation<Me, M>& run, List& by_client) {
    run.ranks().share(by_client, [&](std::size_t k) {
        return P == report::Whom::unseen ? run.unseen_here(k) : run.lives_here(static_cast<Id>(k));
    });
}

}  // namespace tessera::detail
