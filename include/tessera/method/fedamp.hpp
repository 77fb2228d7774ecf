// SPDX-License-Identifier: BSD-3-Clause
// FedAMP (Huang et al., AAAI 2021): clients whose models are alike help each other.
//
//   server: keeps every w_i;  u_i = sum_j xi_ij w_j,  xi_ij = alpha_k A'(|w_i - w_j|^2) for j != i,
//           xi_ii = 1 - the others,  A'(x) = exp(-x / sigma) / sigma
//   client: w_i = E epochs (or R batches) on f(w) + lambda/(2 alpha_k) |w - u_i|^2 from its own w_i
//
// All start at the common initial value. Large sigma with alpha_k / sigma = 1/N: u_i is the mean.
// HeurFedAMP (likeness = angle): xi_ii is given, the others go by exp(sigma cos(w_i, w_j)).
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/method/detail/attention.hpp>
#include <tessera/method/detail/kept_models.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Rule = rule::Sgd>
struct FedAmp {
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::validate | offer::admits | offer::global;
    Rule local{};
    std::size_t epochs = 1, steps = 0;  // E, or batches of the client's stream
    double lambda = 0.01, sigma = 10;
    double alpha_k = 0;  // 0: sigma / N
    Likeness likeness = Likeness::distance;
    double own_share = 0;  // xi_ii by angle; 0: 1/N
    Pass pass = Pass::own;
    template <class R> using Server = detail::KeptModels<R>;
    template <class R> using Upload = detail::OwnModel<R>;
    template <class R> struct Client { Vec<R> w; Cursor cursor; };
    template <class R> struct Down { Vec<R> u; double pull = 0; };

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>&, Vec<R> w, std::size_t n) const {
        if (likeness == Likeness::distance) detail::require_own_share(alpha(n), sigma, n);
        return {w, Vec<Vec<R>>(n, w)};
    }
    template <class R>
    Down<R> send(const Server<R>& server, Id i) const {
        const std::size_t n = server.all.size();
        if (i >= n) return {server.w, lambda / alpha(n)};
        const auto xi = likeness == Likeness::angle
                            ? detail::by_angle(server.all, i, 1 - own(n), sigma)
                            : detail::by_distance(server.all, i, alpha(n), sigma);
        return {server.mixed(i, xi), lambda / alpha(n)};
    }
    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>& at, Down<R> got, Client<R>& me) const {
        descend(at, start(me.w, *at.initial), at.work(epochs, steps, me.cursor, pass), local,
                {.prox_center = got.u, .prox_weight = got.pull});
        return {me.w, at.id};
    }
    void merge(const auto&, auto& server, auto uploads) const { server.take(uploads); }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Down<R> got, Client<R> me) const {
        return plain(at, std::move(start(me.w, got.u)));
    }
    bool admits(const auto& s, Id from, const auto& up) const { return s.admits(from, up); }
    auto global(const auto& server, const auto&) const { return server.w; }
    double alpha(std::size_t n) const { return detail::given_or_nth(alpha_k, sigma, n); }
    double own(std::size_t n) const { return detail::given_or_nth(own_share, 1, n); }
    void validate() const {
        detail::require_size(lambda, "lambda"), detail::require_size(alpha_k, "alpha_k");
        detail::require_positive(sigma, "sigma"), detail::require_share(own_share);
    }
};

}  // namespace tessera
