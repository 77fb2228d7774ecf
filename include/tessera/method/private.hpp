// SPDX-License-Identifier: BSD-3-Clause
// Private: any method with differential privacy of single examples, and a ledger for each client.
//
//   client: the inner method's visit, whose rules are rule::DpSgd; its noisy steps go to the ledger
//   all else: the inner method's
//
// Compiles only where all that is released, or that it reads, was trained with noise. What a client
// spends on w and on a personal model adds up. A visit past the budget throws, and nothing is sent;
// its price is kept, so that the client is left out from then on (runtime/federation.hpp).
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/method/detail/released.hpp>
#include <tessera/privacy/budget.hpp>

namespace tessera {

template <class Inner>
struct Private {
    static_assert(detail::releases_only_noise<Inner>());
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers = offer::validate | offer::keeps | offer::needs_memory |
                                     offer::over_budget | offer::keep_spent;
    Inner inner{};
    double delta = 1e-5;
    double epsilon = 0;  // the budget of each client; 0: none
    template <class R> struct Client { client_t<Inner, R> own; Vec<Spent> ledger, price; };

    auto visit(const auto& at, auto received, auto& me) const {
        at.workspace->spent.clear();
        auto upload = visit_at(inner, at, std::move(received), me.own);
        me.price = at.workspace->spent;
        if (const auto refused = over_budget(me, at.id)) throw BudgetError(*refused);
        for (const auto& s : me.price) spend(me.ledger, s);
        return upload;
    }
    template <class M>
    bool keeps(const Context<M>& at, const auto& me, std::size_t length) const {
        return detail::keeps_state<Inner, M>(inner, at, me.own, length) && valid(me.ledger) &&
               valid(me.price);
    }
    // Sent is spent, and what a visit costs is known from now on.
    void keep_spent(auto& before, auto& after) const {
        before.ledger = std::move(after.ledger);
        before.price = std::move(after.price);
    }
    std::string_view needs_memory() const { return "a client without its ledger spends anew"; }
    auto spent(const auto& me) const { return privacy::guarantee(me.ledger, delta); }
    auto over_budget(const auto& me, Id client) const {
        return privacy::over_budget(epsilon, delta, me.ledger, me.price, client);
    }
    void validate() const {
        detail::keeps_what_it_covers(inner);
        detail::require(delta > 0 && delta < 1, "delta must lie in (0, 1)");
        detail::require(epsilon >= 0, "epsilon must be positive, or 0 for no budget");
    }
};

}  // namespace tessera
