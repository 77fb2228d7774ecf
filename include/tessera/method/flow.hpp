// SPDX-License-Identifier: BSD-3-Clause
// Flow (Panchal et al., NeurIPS 2023): each example takes the global or local copy of each block.
//
//   client: zeta_l, zeta_g = halves of its data;   w_l = K1 epochs of f from w_g on zeta_l
//           K2 epochs on zeta_g, per batch:   psi by J_psi,   then w_g by J_g   (nn/routed.hpp)
//           pulled: w_l on f + lambda D(., mu(w_g)), mu a prior; w_g on J_g + mu/2 |. - received|^2
//   server: (w_g, psi) = fold, weighted by |zeta_g|
//   serve:  w_l and psi adapted as above, w_g as received or adapted too; hard routing
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/divergence/gaussian.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/gate/any_chain.hpp>
#include <tessera/method/detail/branches.hpp>
#include <tessera/method/detail/halves.hpp>
#include <tessera/prior/identity.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Gate = gate::AnyChain, class Local = rule::Sgd, class Fold = fold::Mean,
          class Prior = prior::Identity, class Divergence = divergence::Gaussian>
struct Flow {
    static_assert(check_gate<Gate>());
    static constexpr auto by_default = verb::send | verb::merge;
    static constexpr auto offers =
        offer::validate | offer::keeps | offer::global | offer::global_at;
    Gate gate{};
    Local local{};  // of all three groups
    Fold fold{};
    std::size_t local_epochs = 1, joint_epochs = 1;  // K1, K2
    nn::RoutingTerms routing{};
    Halving halves{};
    LocalInit local_init = LocalInit::from_global;
    Alternate alternate = Alternate::batch;
    bool eval_adapt_psi = true, eval_adapt_global = false;
    Prior prior{};
    Divergence divergence{};
    double lambda = 0, mu = 0;
    template <class R>
    using Client = std::conditional_t<detail::remembers<Prior>, Personal<R>, Nothing>;

    template <class M>
    auto open(const Context<M>& context, const Vec<real<M>>& w0, std::size_t) const {
        divergence.admit(In<real<M>>(w0));
        auto x = detail::routed(*this, context).start(w0, context.key);
        if (local_init == LocalInit::averaged_local) x.insert(x.end(), w0.begin(), w0.end());
        return Shared<Fold, real<M>>{std::move(x)};
    }
    template <class M>
    auto visit(const Context<M>& at, Vec<real<M>> x, Client<real<M>>& me) const {
        const detail::Halves data(at, halves);
        const auto zeta_l = data.local(at), zeta_g = data.global(at);
        const std::size_t sent = x.size();
        detail::train_local(*this, zeta_l, x, me);
        detail::train_joint(*this, zeta_g, x, {.prox_weight = mu});
        x.resize(sent);
        return up(zeta_g, std::move(x));
    }
    template <class M>
    auto serve(const Context<M>& at, Vec<real<M>> x, Client<real<M>> me) const {
        const detail::Halves data(at, halves);
        const auto zeta_l = data.local(at), zeta_g = data.global(at);
        detail::train_local(*this, zeta_l, x, me);
        detail::train_joint(*this, zeta_g, x,
                            {eval_adapt_psi, eval_adapt_global, nn::Moves::global, mu});
        return detail::routed_predictor(*this, at, std::move(x));
    }
    auto global(const auto& server, const auto& initial) const {
        return decltype(server.w)(server.w.begin(), server.w.begin() + std::ssize(initial));
    }
    auto global_at(const auto& at, auto x, const auto&) const {
        return x.resize(at.initial->size()), x;
    }
    bool keeps(const auto& at, const auto& me, std::size_t) const {
        if constexpr (!requires { me.theta; }) return true;
        else return detail::is_kept_by_prior(me, at.initial->size());
    }
    void validate() const { detail::require_pulls(lambda, mu); }
};

}  // namespace tessera
