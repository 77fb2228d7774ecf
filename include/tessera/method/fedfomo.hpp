// SPDX-License-Identifier: BSD-3-Clause
// FedFomo (Zhang et al., ICLR 2021): clients take from others the models that help them.
//
//   server: keeps every w_k and P;   down: the w_j of the M' others with the largest P_kj
//   client: a_j = (L(w_k) - L(w_j)) / |w_j - w_k|, L the loss on a held-out share of its data
//           w_k += sum_j (a_j+ / sum a+) (w_j - w_k), a+ = max(0, a); w_k stays if no a_j > 0
//           w_k = E epochs (or R batches) on the rest, from there;   up: w_k and the a_j
//   server: P_kj += a_j
//
// Others are those who came before: in round one all stay alone. Equal P_kj are taken by lot, and
// with chance `explore` so is the whole list. A client that holds nothing out hears nobody.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/method/detail/hold_out.hpp>
#include <tessera/method/detail/peers.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Rule = rule::Sgd>
struct FedFomo {
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers =
        offer::validate | offer::admits | offer::takes | offer::holds | offer::no_global;
    Rule local{};
    std::size_t epochs = 1, steps = 0;  // E, or batches of the client's stream
    std::size_t others = 5;             // M'
    double explore = 0;                 // in [0, 1]
    double held_out = 0.2;              // share of the training data, in (0, 1)
    Pass pass = Pass::own;
    template <class R> using Server = detail::Acquaintances<R>;
    template <class R> using Down = Vec<detail::Peer<R>>;
    template <class R> struct Client { Vec<R> w; Cursor cursor; };
    template <class R>
    struct Upload {
        Vec<R> w;
        Vec<detail::Affinity> affinities;
        Id from = 0;
        std::uint64_t name = 0;
    };

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>&, const Vec<R>& w, std::size_t clients) const {
        return {Vec<detail::Known<R>>(clients), w.size()};
    }
    auto send(const auto& server, Id k) const { return server.shown_to(k, others, explore); }
    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>& at, Down<R> peers, Client<R>& me) const {
        const detail::HoldOut data(at, held_out);
        const auto rest = data.rest(at);
        auto worth = detail::heed(at, data.held(), peers, start(me.w, *at.initial));
        descend(rest, me.w, rest.work(epochs, steps, me.cursor, pass), local);
        return {me.w, std::move(worth), at.id, detail::name_of(at)};
    }
    template <class M>
    void merge(const Context<M>& context, auto& server, auto uploads) const {
        server.take(uploads, context.key(purpose::sampling)(context.round));
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Down<R> peers, Client<R> me) const {
        if (me.w.empty())  // never came: where its first visit would begin
            detail::heed(at, detail::HoldOut(at, held_out).held(), peers, me.w = *at.initial);
        return plain(at, std::move(me.w));
    }
    bool admits(const auto& s, Id from, const auto& up) const { return s.admits(from, up, others); }
    bool takes(const auto& at, const auto& peers, const auto&) const {
        return detail::are_models(peers, others, at.initial->size());
    }
    bool holds(const auto& opened, const auto& server) const { return server.like(opened); }
    void validate() const { detail::require_shares(explore, held_out); }
};

}  // namespace tessera
