// SPDX-License-Identifier: BSD-3-Clause
// PI-Flow, the ablation of Flow without a local model: both branches are global.
//
//   client: K2 epochs on zeta_g, per batch:   psi by J_psi,   then both branches by J_g
//   server: (w_1, psi, w_2) = fold, weighted by |zeta_g|
//   serve:  psi adapted, the branches as received, or adapted too; hard routing
//
// two_global: the branches start apart. tied: they are one, which is FedAvg on zeta_g.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/gate/any_chain.hpp>
#include <tessera/method/detail/branches.hpp>
#include <tessera/method/detail/halves.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Gate = gate::AnyChain, class Local = rule::Sgd, class Fold = fold::Mean>
struct PiFlow {
    static_assert(check_gate<Gate>());
    static constexpr auto by_default = verb::send | verb::merge;
    static constexpr auto offers = offer::validate | offer::global | offer::global_at;
    Gate gate{};
    Local local{};
    Fold fold{};
    std::size_t joint_epochs = 1;  // K2
    nn::RoutingTerms routing{};
    Halving halves{};
    Pi pi = Pi::two_global;
    Alternate alternate = Alternate::batch;
    bool eval_adapt_psi = true, eval_adapt_global = false;

    template <class M>
    auto open(const Context<M>& context, const Vec<real<M>>& w0, std::size_t) const {
        auto x = detail::routed(*this, context).start(w0, context.key);
        const auto w2 = initial_parameters(*context.model, context.key(purpose::init));
        if (pi == Pi::two_global) x.insert(x.end(), w2.begin(), w2.end());
        return Shared<Fold, real<M>>{std::move(x)};
    }
    template <class M>
    auto visit(const Context<M>& at, Vec<real<M>> x, Nothing&) const {
        const detail::Halves data(at, halves);
        const auto zeta_g = data.global(at);
        detail::train_joint(*this, zeta_g, x, {.by_j_g = branches()});
        return up(zeta_g, std::move(x));
    }
    template <class M>
    auto serve(const Context<M>& at, Vec<real<M>> x, Nothing) const {
        const detail::Halves data(at, halves);
        const auto zeta_g = data.global(at);
        detail::train_joint(*this, zeta_g, x, {eval_adapt_psi, eval_adapt_global, branches()});
        return detail::routed_predictor(*this, at, std::move(x));
    }
    nn::Moves branches() const { return pi == Pi::tied ? nn::Moves::tied : nn::Moves::branches; }
    auto global(const auto& server, const auto& initial) const {
        return decltype(server.w)(server.w.begin(), server.w.begin() + std::ssize(initial));
    }
    auto global_at(const auto& at, auto x, const auto&) const {
        return x.resize(at.initial->size()), x;
    }
    void validate() const {
        detail::require(pi == Pi::tied || routing.global_loss == nn::GlobalLoss::personalized,
                        "global_loss=global trains w_g by its own loss, and two_global has two "
                        "branches to train; leave global_loss=personalized or set pi=tied");
    }
};

}  // namespace tessera
