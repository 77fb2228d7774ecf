// SPDX-License-Identifier: BSD-3-Clause
// FedPAC (Xu, Tong and Huang, ICLR 2023): features aligned, heads mixed among those alike.
//
//   client: E_h epochs on its head with the extractor u fixed, then E epochs on u with the head
//           fixed, on f + lambda |z(x) - c_y|^2, c the centroids (a class without one: no pull)
//   up:     u_k, head_k, n_kc, mu_kc = mean of z over class c, V_k = (spread of z) / n_k
//   server: u = fold of the u_k;   c_c = sum_k n_kc mu_kc / sum_k n_kc
//           head_i = sum_j a_ij head_j,  a_i = argmin over the simplex of a' (diag(V) + H_i) a,
//           H_i[j,l] = sum_c <p_ic mu_ic - p_jc mu_jc, p_ic mu_ic - p_lc mu_lc>,  p_kc = n_kc / n_k
//
// Who never came gets the mean head. lambda = 0 without collaboration is FedRep.
#pragma once

#include <tessera/method/detail/heads.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct FedPac {
    static_assert(detail::shares_heads<Fold>());
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::validate | offer::admits | offer::takes | offer::keeps |
                                   offer::holds | offer::global;
    static constexpr scope::Head own{};
    Local local{}, personal{};  // of extractor and head
    Fold fold{};
    std::size_t epochs = 1, head_epochs = 1;  // E, E_h
    double lambda = 0.01;
    bool collaborate = true;  // false: a_i picks its own head, which stays on the client
    Weigh weights = Weigh::samples;
    template <class R> using Server = detail::MixedHeads<Fold, R>;
    template <class R> using Upload = detail::HeadUpload<R>;
    template <class R> struct Client { Vec<R> v; };  // its head, where heads do not travel
    template <class R> struct Down { Vec<R> u, head; nn::Centroids<R> centroids; };

    auto open(const auto& context, const auto& w0, std::size_t clients) const {
        return detail::mixed_heads<Fold>(context, w0, clients);
    }
    template <class R>
    Down<R> send(const Server<R>& server, Id i) const {
        return {server.w, collaborate ? server.head_of(i) : Vec<R>{}, server.known_centroids()};
    }
    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>& at, const Down<R>& got, Client<R>& me) const {
        const Coordinates head = on(own, *at.model), body = off(own, *at.model);
        auto w = model_of(at, got, me);
        descend(at, w, at.epochs(head_epochs, Pass::own), personal, {.on = head});
        detail::descend_aligned(at, w, at.epochs(epochs), local, body, got.centroids, lambda);
        Upload<R> up{gather(w, body), at.weight(weights), {}, {}, at.id};
        (collaborate ? up.head : me.v) = gather(w, head);
        if (tells()) up.statistics = detail::class_statistics(at, w);
        return up;
    }
    void merge(const auto& context, auto& server, auto ups) const {
        fold_rows(fold, context, server.w, rows_of(ups), server.fold);
        if (lambda > 0) detail::take_centroids(server.centroids, ups);
        if (collaborate) detail::mix_heads(context, server, ups);
    }
    auto serve(const auto& at, const auto& got, const auto& me) const {
        return plain(at, model_of(at, got, me));
    }
    auto model_of(const auto& at, const auto& got, const auto& me) const {
        return detail::joined(own, at, got.u, collaborate ? got.head : me.v);
    }
    bool tells() const { return collaborate || lambda > 0; }  // of its features
    auto global(const auto& server, const auto& w0) const { return server.whole(w0); }
    bool admits(const auto& s, Id from, const auto& up) const {
        return up.from == from && s.fits(up, collaborate, tells());
    }
    bool takes(const auto& at, const auto& got, const auto&) const {
        return detail::are_parts(at, got, collaborate);
    }
    bool keeps(const auto& at, const auto& me, std::size_t) const {
        return me.v.empty() || me.v.size() == on(own, *at.model).size(at.initial->size());
    }
    bool holds(const auto& opened, const auto& server) const { return server.like(opened); }
    void validate() const { detail::require_size(lambda, "lambda"); }
};

}  // namespace tessera
