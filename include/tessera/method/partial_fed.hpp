// SPDX-License-Identifier: BSD-3-Clause
// PartialFed, adaptive (Sun et al., NeurIPS 2021): each layer common or own, by logits a_j in R^2.
//
//   client, per batch: s_j = straight-through Gumbel-softmax sample of a_j, for every layer j
//                      w(s) -= eta g(w(s)), w(s)_j the layer received or the client's own by s_j
//                      a    -= rate da, the slope of f(w(s)) through the sample
//   up, and kept as own: w(argmax a);   server: as FedAvg
//   serve: w(argmax a), common layers as received
//
// Own layers start at the first w received. a_j = (0, lean): far below 0 FedAvg, far above Local.
#pragma once

#include <cmath>

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/method/detail/layer_choice.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct PartialFed {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr auto offers = offer::validate | offer::keeps;
    Local local{};
    Fold fold{};
    std::size_t epochs = 1, steps = 0;  // E, or batches of the client's stream
    double logit_rate = 0.1, temperature = 1, lean = 0;
    Weigh weights = Weigh::samples;
    template <class R> struct Client { Vec<R> w; detail::ChoiceLogits logits; Cursor cursor; };

    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, Vec<R> w, Client<R>& me) const {
        start(me.logits, detail::first_logits(at.model->layout(), lean));
        detail::LayerChoice<R> model(at.model->layout(), w, start(me.w, w), me.logits);
        auto step = walk(at, local);
        Key draw = at.key(purpose::sampling)(at.round);
        Vec<R> gradient(w.size());
        for (const auto b : at.work(epochs, steps, me.cursor)) {
            model.draw(draw = draw(0), temperature);
            step(model.used(), b);
            if (logit_rate == 0) continue;
            at.gradient(model.used(), b, gradient);
            at.workspace->tally.examples += b.size();
            model.learn(gradient, temperature, logit_rate);
        }
        model.settle();
        me.w = model.used();
        return up(at, std::move(model.used()), weights);
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<R> w, Client<R> me) const {
        start(me.logits, detail::first_logits(at.model->layout(), lean));
        detail::LayerChoice<R> model(at.model->layout(), w, start(me.w, w), me.logits);
        model.settle();
        return plain(at, std::move(model.used()));
    }
    template <class M, class R = real<M>>
    bool keeps(const Context<M>& at, const Client<R>& me, std::size_t d) const {
        const auto logits = detail::first_logits(at.model->layout(), lean).size();
        return (me.w.empty() || me.w.size() == d) &&
               (me.logits.empty() || me.logits.size() == logits);
    }
    void validate() const {
        detail::require_size(logit_rate, "logit_rate");
        detail::require_positive(temperature, "temperature");
        detail::require(std::isfinite(lean), "lean must be finite, not " + std::to_string(lean));
    }
};

}  // namespace tessera
