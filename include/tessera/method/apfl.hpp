// SPDX-License-Identifier: BSD-3-Clause
// APFL (Deng et al., 2020).
//
//   client, per batch, all gradients at the old point, m = alpha v_k + (1 - alpha) w_k:
//     v_k -= eta alpha g(m);   w_k -= eta g(w_k);   alpha -= rate <g(m), v_k - w_k>, in [0, 1]
//   server: as FedAvg;   serve: m
//
// alpha = 0 predicts with w; alpha = 1 is Local trained on the side. w is FedAvg's for every alpha.
#pragma once

#include <algorithm>

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/nn/blend.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct Apfl {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr auto offers = offer::validate;
    Local local{};
    Fold fold{};
    std::size_t epochs = 1, steps = 0;  // E, or batches of the client's stream
    double alpha = 0.5, alpha_rate = 0.1;  // alpha: the first one, if it moves
    nn::Mixing mixing = nn::Mixing::fixed;
    Weigh weights = Weigh::samples;
    template <class R>
    struct Client {
        Vec<R> v;
        double alpha = 0;
        Cursor cursor;
    };

    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, Vec<R> w, Client<R>& me) const {
        nn::Blend<M> mixed{at.model, &w, share(me)};
        start(me.v, w);
        auto own = walk(at.with(mixed), local);
        auto common = walk(at, local);
        bool moves = mixing != nn::Mixing::fixed;
        for (const auto b : at.work(epochs, steps, me.cursor)) {
            const double slope = moves ? mixed.slope(me.v, b) : 0;
            own(me.v, b);
            common(w, b);
            if (moves) at.workspace->tally.examples += b.size();  // the slope is a gradient as well
            mixed.alpha = std::clamp(mixed.alpha - alpha_rate * slope, 0.0, 1.0);
            moves = mixing == nn::Mixing::per_step;
        }
        me.alpha = mixed.alpha;
        return up(at, std::move(w), weights);
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<R> w, Client<R> me) const {
        const nn::Blend<M> mixed{at.model, &w, share(me)};
        return plain(at, mixed.mix(start(me.v, w)));
    }
    double share(const auto& me) const {
        return me.v.empty() || mixing == nn::Mixing::fixed ? alpha : me.alpha;
    }
    void validate() const {
        detail::require(alpha >= 0 && alpha <= 1, "alpha must lie in [0, 1]");
        detail::require_size(alpha_rate, "alpha_rate");
    }
};

}  // namespace tessera
