// SPDX-License-Identifier: BSD-3-Clause
// pFedHN (Shamsian et al., ICML 2021): one network at the server makes every client's model.
//
//   down:   w_k = H(e_k; phi), H a hypernetwork, e_k what the server knows of client k
//   client: E epochs (or R batches) from w_k to w_k';   up: D = w_k - w_k'
//   server: phi = phi - a (dH/dphi)' D,  e_k = e_k - a (dH/de_k)' D:  a step of SGD for each client
//           in the plan's order; every slope is taken where w_k was made, before the first step
//   serve:  w_k; to a stranger H of the mean of all e_k
//
// H begins with the initial w as biases of its last layer and weights of 0 there: all start at w.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/method/detail/hyper_network.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Rule = rule::Sgd>
struct PFedHn {
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers =
        offer::validate | offer::admits | offer::holds | offer::no_global;
    Rule local{};
    std::size_t epochs = 1, steps = 0;    // E, or batches of the client's stream
    std::size_t embedding = 0;            // numbers of an e_k; 0: 1 + N/4
    std::size_t hidden = 3, width = 100;  // layers of H, and their width
    double spread = 1;                    // deviation of the first e_k
    double hyper_rate = 0.01, hyper_momentum = 0.9, hyper_decay = 1e-3, hyper_clip = 50;
    double embedding_pace = 1;            // rate of the e_k / hyper_rate; 0: they stay
    template <class R> using Server = detail::HyperServer<R>;
    template <class R> struct Client { Cursor cursor; };
    template <class R> struct Upload { Vec<R> change; Id from = 0; };

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>& context, const Vec<R>& w0, std::size_t n) const {
        const std::size_t m = embedding > 0 ? embedding : 1 + n / 4;
        const Key init = context.key(purpose::init);
        return {detail::hyper_network_around(w0, m, hidden, width, init(0), hyper_momentum != 0),
                detail::first_embeddings<R>(n, m, spread, init(1), hyper_momentum != 0)};
    }
    auto send(const auto& server, Id k) const { return server.network(server.embedding(k)); }
    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>& at, Vec<R> w, Client<R>& me) const {
        auto change = w;
        descend(at, w, at.work(epochs, steps, me.cursor), local);
        for (std::size_t j = 0; j < w.size(); ++j) change[j] -= w[j];
        return {std::move(change), at.id};
    }
    template <class M, class R = real<M>>
    void merge(const Context<M>&, Server<R>& server, std::span<const Upload<R>> ups) const {
        auto along = server.slopes(ups);
        along.clip(hyper_clip);
        kernels::UpdateNumbers<R> sgd{R(hyper_rate), R(hyper_decay), R(0), R(hyper_momentum)};
        server.network.descend(along, sgd);
        sgd.rate = static_cast<R>(hyper_rate * embedding_pace);
        for (std::size_t i = 0; i < ups.size(); ++i)
            server.embeddings[ups[i].from].descend(along.embedding(i), sgd);
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<R> w, Client<R>) const {
        return plain(at, std::move(w));
    }
    bool admits(const auto& s, Id from, const auto& up) const { return s.admits(from, up); }
    bool holds(const auto& opened, const auto& server) const { return server.like(opened); }
    void validate() const {
        detail::require_sgd(hyper_rate, hyper_momentum, hyper_decay, hyper_clip, embedding_pace);
        detail::require_size(spread, "spread");
        detail::require(width > 0, "width must be at least 1; without hidden layers, hidden is 0");
        detail::require_sizes(embedding, hidden, width);
    }
};

}  // namespace tessera
