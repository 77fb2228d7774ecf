// SPDX-License-Identifier: BSD-3-Clause
// PerAda (Xie et al., CVPR 2024, Algorithm 1) on a frozen backbone: the model is nn::Tuned, so w,
// theta_k and v_k are adapters, norms and head, and nothing else is trained or sent.
//
//   client: v_k: S steps on f(v) + lambda/2 |v - w|^2 from v_k, rate eta_p
//           theta_k: E steps on f from w, rate eta_l
//   server: w = mean of the theta_k, then distilled on public data (fold::Distill)
//
// That is Ditto, v_k from the first w received or from v^0 (own_init), with uniform weights and a
// fold that distils.
// lambda_scale = 2 is the authors' program, which leaves the 1/2 out. On all parameters: w is
// FedDF's with distillation, (w, v_k) Ditto's without (fold::Mean).
#pragma once

#include <tessera/fold/distill.hpp>
#include <tessera/method/ditto.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Distill<>, class Own = Local>
struct PerAda {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr auto offers =
        offer::validate | offer::Released | offer::Kept | offer::serves_as_is;
    using Released = Trained<Local>;
    using Kept = Trained<Own>;  // w never reads v
    Local local{};   // eta_l
    Own personal{};  // eta_p
    Fold fold{};
    std::size_t epochs = 1, own_epochs = 1;
    std::size_t steps = 0, own_steps = 0;  // E and S, instead of epochs: batches of the stream
    double lambda = 1, lambda_scale = 1;
    Weigh weights = Weigh::uniform;
    OwnInit own_init = OwnInit::received;
    template <class R>
    using Client = typename Ditto<Local, Fold, Own>::template Client<R>;

    template <class M>
    auto visit(const Context<M>& at, Vec<real<M>> w, Client<real<M>>& me) const {
        return ditto().visit(at, std::move(w), me);
    }
    template <class M>
    auto serve(const Context<M>& at, Vec<real<M>> w, Client<real<M>> me) const {
        return ditto().serve(at, std::move(w), std::move(me));
    }
    Ditto<Local, Fold, Own> ditto() const {
        return {local, personal, fold, epochs, own_epochs, steps, own_steps,
                lambda * lambda_scale, weights, own_init};
    }
    void validate() const {
        detail::require_size(lambda, "lambda");
        detail::require_size(lambda_scale, "lambda_scale");
    }
};

}  // namespace tessera
