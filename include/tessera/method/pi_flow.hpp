// SPDX-License-Identifier: BSD-3-Clause
// PI-Flow, the ablation of Flow without a local model: both branches are global.
//
//   client: K2 epochs on zeta_g, per batch:   psi by J_psi,   then both branches by J_g
//   server: (w_1, psi, w_2) = fold, weighted by |zeta_g|
//   serve:  psi adapted, the branches as received; hard routing
//
// two_global: the branches start apart. tied: they are one, which is FedAvg on zeta_g.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/gate/any_chain.hpp>
#include <tessera/method/detail/branches.hpp>
#include <tessera/method/detail/halves.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Gate = gate::AnyChain, class Local = rule::Sgd, class Fold = fold::Mean>
struct PiFlow {
    static constexpr auto by_default = verb::send | verb::merge;
    Gate gate{};
    Local local{};
    Fold fold{};
    std::size_t joint_epochs = 1;  // K2
    nn::RoutingTerms routing{};
    Halving halves{};
    Pi pi = Pi::two_global;
    Alternate alternate = Alternate::batch;
    bool eval_adapt_psi = true;

    template <class M>
    auto open(const Site<M>& hub, const Vec<real<M>>& w0, std::size_t) const {
        auto x = detail::routed(*this, hub).start(w0, hub.key);
        const auto w2 = initial_parameters(*hub.model, hub.key(purpose::init));
        if (pi == Pi::two_global) x.insert(x.end(), w2.begin(), w2.end());
        return Shared<Fold, real<M>>{std::move(x)};
    }
    template <class M>
    auto visit(const Site<M>& at, Vec<real<M>> x, Nothing&) const {
        const detail::Halves data(at, halves);
        const auto zeta_g = data.global(at);
        nn::Reuse<real<M>> reuse;
        const auto both = pi == Pi::tied ? nn::Moves::global : nn::Moves::branches;
        const auto j_psi = detail::routed(*this, at, nn::Moves::router, &reuse);
        const auto j_g = detail::routed(*this, at, both, &reuse);
        detail::Steps router(zeta_g, j_psi, local), global(zeta_g, j_g, local);
        detail::take_turns(alternate, zeta_g.epochs(joint_epochs), zeta_g.batch_count(), x, router,
                           global);
        return up(zeta_g, std::move(x));
    }
    template <class M>
    auto serve(const Site<M>& at, Vec<real<M>> x, Nothing) const {
        const detail::Halves data(at, halves);
        const auto zeta_g = data.global(at);
        const auto j_psi = detail::routed(*this, at, nn::Moves::router);
        if (eval_adapt_psi)
            descend(zeta_g.with(j_psi), x, zeta_g.epochs(joint_epochs), local, {.on = j_psi.on()});
        return nn::RoutedPredictor<M, Gate>(*at.model, gate, routing, std::move(x));
    }
    auto global(const auto& server, const auto& initial) const {
        return decltype(server.w)(server.w.begin(), server.w.begin() + std::ssize(initial));
    }
    auto global_at(const auto& at, auto x) const { return x.resize(at.initial->size()), x; }
};

}  // namespace tessera
