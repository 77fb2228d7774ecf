// SPDX-License-Identifier: BSD-3-Clause
// Mean-regularised multi-task learning (Evgeniou and Pontil, KDD 2004), federated.
//
//   client: w_k = E epochs (or R batches) on f(w_k) + lambda/2 |w_k - wbar|^2 from its own w_k
//   server: keeps every w_k;   wbar = (1/N) sum over all clients, also those that never came
//
// All start at the common initial value. lambda = 0 is Local.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/method/detail/kept_models.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Rule = rule::Sgd>
struct Mtl {
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::validate | offer::admits | offer::global;
    Rule local{};
    std::size_t epochs = 1, steps = 0;  // E, or batches of the client's stream
    double lambda = 0.1;
    Pass pass = Pass::own;
    template <class R> using Server = detail::KeptModels<R>;
    template <class R> using Upload = detail::OwnModel<R>;
    template <class R> struct Client { Vec<R> w; Cursor cursor; };

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>&, Vec<R> w, std::size_t clients) const {
        return {w, Vec<Vec<R>>(clients, w)};
    }
    template <class R>
    Vec<R> send(const Server<R>& server, Id) const { return server.w; }
    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>& at, Vec<R> mean, Client<R>& me) const {
        descend(at, start(me.w, *at.initial), at.work(epochs, steps, me.cursor, pass), local,
                {.prox_center = mean, .prox_weight = lambda});
        return {me.w, at.id};
    }
    void merge(const auto&, auto& server, auto uploads) const { server.take(uploads); }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<R>, Client<R> me) const {
        return plain(at, std::move(start(me.w, *at.initial)));
    }
    bool admits(const auto& s, Id from, const auto& up) const { return s.admits(from, up); }
    auto global(const auto& server, const auto&) const { return server.w; }
    void validate() const { detail::require_size(lambda, "lambda"); }
};

}  // namespace tessera
