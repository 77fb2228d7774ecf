// SPDX-License-Identifier: BSD-3-Clause
// pFedBreD (Shi et al., NeurIPS 2023), Algorithm 1.
//
//   for r = 1..R:  mu = mu_i(w_i)                                                     7, prior
//                  theta_i = K steps of rate alpha on f(.; b) + lambda D(., mu)       8
//                  w_i -= alpha_m lambda Dmu' Hess g*(mu) (mu - theta_i)              9, Eq. 13
//   server:        w = (1 - beta) w + beta sum_k p_k w_k                             12
//
// `local` is any rule: its K steps see the pull, so what it makes of a gradient (momentum, moments)
// it makes of the whole of line 8. Its memory begins anew with every batch.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/divergence/gaussian.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/method/detail/with_rate.hpp>
#include <tessera/nn/prox.hpp>
#include <tessera/prior/identity.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Prior = prior::Identity, class Divergence = divergence::Gaussian,
          class Fold = fold::Relax<fold::Mean>, class Local = rule::Sgd>
struct FedBreD {
    static constexpr auto by_default = verb::send | verb::merge;
    static constexpr auto offers = offer::validate;
    Prior prior{};
    Divergence divergence{};
    Fold fold{};
    Local local = detail::with_rate<Local>(0.01);  // alpha
    double alpha_m = 0.01, lambda = 15;
    std::size_t steps = 20, inner_steps = 5;  // R batches, K steps on each
    ProxInit prox_init = ProxInit::automatic;
    Jacobian jacobian = Jacobian::identity;  // Dmu
    bool detached = false;                   // line 8 without its pull
    EvalModel eval_model = EvalModel::theta;
    std::size_t tune_steps = 0;  // FT
    Weigh weights = Weigh::samples;
    template <class R> using Client = Personal<R>;

    auto envelope() const {  // F_i; envelope().gap(context, w, client) is mu_i(w) - theta_i
        return nn::Envelope{prior, divergence, local, inner_steps, detached ? 0 : lambda, prox_init,
                            jacobian, eval_model};
    }
    template <class M, class R = real<M>>
    auto open(const Context<M>& context, Vec<R> w, std::size_t) const {
        envelope().admit(context, w);
        return Shared<Fold, R>{std::move(w)};
    }
    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, Vec<R> w, Personal<R>& me) const {
        const auto F = envelope();
        F.enter(w, me);
        Vec<R> direction(w.size());
        for (const auto b : local_steps(at, me.cursor, steps, prior)) {
            F(at, w, b, me, direction);                // 7, 8
            F.move(w, -alpha_m * lambda, direction);  // 9
        }
        F.leave(w, me);
        return up(at, std::move(w), weights);
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<R> w, Personal<R> me) const {
        auto& own = start(eval_model == EvalModel::theta ? me.theta : me.w_last, w);
        descend(at, own, at.stream(me.cursor, tune_steps), local);
        divergence.project(Out<R>(own));
        return plain(at, std::move(own));
    }
    void validate() const {
        detail::require_size(lambda, "lambda"), detail::require_size(alpha_m, "alpha_m");
    }
};

}  // namespace tessera
