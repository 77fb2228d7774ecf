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
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Rule = rule::Sgd>
struct Mtl {
    static constexpr auto by_default = Verbs{};
    Rule local{};
    std::size_t epochs = 1, steps = 0;  // E, or batches of the client's stream
    double lambda = 0.1;
    Pass pass = Pass::own;
    template <class R>
    struct Server {
        Vec<R> w;  // wbar
        Vec<Vec<R>> all;
    };
    template <class R>
    struct Client {
        Vec<R> w;
        Cursor cursor;
    };
    template <class R> struct Upload { Vec<R> w; Id from = 0; };

    template <class M, class R = real<M>>
    Server<R> open(const Site<M>&, Vec<R> w, std::size_t clients) const {
        return {w, Vec<Vec<R>>(clients, w)};
    }
    template <class R>
    Vec<R> send(const Server<R>& server, Id) const { return server.w; }
    template <class M, class R = real<M>>
    Upload<R> visit(const Site<M>& at, Vec<R> mean, Client<R>& me) const {
        descend(at, start(me.w, *at.initial), at.work(epochs, steps, me.cursor, pass), local,
                {.toward = mean, .pull = lambda});
        return {me.w, at.id};
    }
    template <class R>
    void merge(const auto&, Server<R>& server, std::span<const Upload<R>> uploads) const {
        for (const auto& up : uploads) server.all[up.from] = up.w;
        for (std::size_t j = 0; j < server.w.size(); ++j) {
            double sum = 0;
            for (const auto& w : server.all) sum += static_cast<double>(w[j]);
            server.w[j] = static_cast<R>(sum / static_cast<double>(server.all.size()));
        }
    }
    template <class M, class R = real<M>>
    auto serve(const Site<M>& at, Vec<R>, Client<R> me) const {
        return plain(at, std::move(start(me.w, *at.initial)));
    }
    template <class R>
    bool admits(const Server<R>& server, const Upload<R>& up) const {
        return up.from < server.all.size() && up.w.size() == server.w.size();
    }
    void validate() const { detail::require_size(lambda, "lambda"); }
};

}  // namespace tessera
