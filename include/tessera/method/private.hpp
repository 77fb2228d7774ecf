// SPDX-License-Identifier: BSD-3-Clause
// Private: any method with differential privacy of single examples, and a ledger for each client.
//
//   client: the inner method's visit, whose rules are rule::DpSgd; its noisy steps go to the ledger
//   all else: the inner method's
//
// Compiles only where all that is released, or that it reads, was trained with noise. What a client
// spends on w and on a personal model adds up. A visit past the budget throws, and nothing is sent.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/method/detail/hold_out.hpp>
#include <tessera/method/detail/released.hpp>
#include <tessera/privacy/budget.hpp>

namespace tessera {

template <class Inner>
struct Private {
    static_assert(detail::releases_only_noise<Inner>());
    static constexpr auto by_default = Verbs{};
    static constexpr bool needs_memory = true;  // a client that forgot its ledger would spend anew
    static constexpr bool serves_own = detail::serves_own<Inner>();
    Inner inner{};
    double delta = 1e-5;
    double epsilon = 0;  // the budget of each client; 0: none
    template <class R> using Server = server_t<Inner, R>;
    template <class R> struct Client { client_t<Inner, R> own; Vec<Spent> ledger; };

    template <class M>
    auto open(const Site<M>& hub, Vec<real<M>> w0, std::size_t clients) const {
        if constexpr (requires { inner.fold; }) check_hub(inner.fold, hub);
        return open_at<Inner, M>(inner, hub, std::move(w0), clients);
    }
    template <class S>
    auto send(const S& server, Id client) const {
        if constexpr (detail::HasVector<S>)
            return send_to<Inner, detail::real_of<S>>(inner, server, client);
        else return send_to<Inner, float>(inner, server, client);
    }
    template <class M, class Down>
    auto visit(const Site<M>& at, Down received, Client<real<M>>& me) const {
        at.workspace->spent.clear();
        auto upload = visit_at<Inner, M>(inner, at, std::move(received), me.own);
        for (const auto& s : at.workspace->spent) spend(me.ledger, s);
        if (epsilon > 0) privacy::keep_within(epsilon, delta, me.ledger, at.id);
        return upload;
    }
    template <class M, class Upload>
    void merge(const Site<M>& hub, Server<real<M>>& server, std::span<const Upload> ups) const {
        merge_at<Inner, M>(inner, hub, server, ups);
    }
    template <class M, class Down>
    auto serve(const Site<M>& at, Down received, Client<real<M>> me) const {
        return serve_at<Inner, M>(inner, at, std::move(received), std::move(me.own));
    }
    template <class S, class R>
        requires detail::HasVector<S>
    Vec<R> global(const S& server, const Vec<R>& initial) const {
        if constexpr (!requires { inner.global(server, initial); }) return server.w;
        else return inner.global(server, initial);
    }
    auto spent(const auto& me) const { return privacy::guarantee(me.ledger, delta); }
    void validate() const {
        detail::require(delta > 0 && delta < 1, "delta must lie in (0, 1)");
        detail::require(epsilon >= 0, "epsilon must be positive, or 0 for no budget");
    }
};

}  // namespace tessera
