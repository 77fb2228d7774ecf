// SPDX-License-Identifier: BSD-3-Clause
// pFedBayes (Zhang et al., ICML 2022): each client has a distribution over models, pulled to all.
//
//   v = (mean, rho) of a Gaussian, s = log(1 + exp(rho)); w the server's
//   client, R batches:  v_k = a step on f, drawn from v_k, + zeta / n_k KL(v_k || w)
//                       w_k = a step on KL(v_k || w_k), w_k from w
//   server:             w = (1 - beta) w + beta mean of the w_k, w_k uniform     fold::Relax
//   serve:              v_k: probabilities averaged over `answers` models drawn from it
//
// f is a mean over examples, so the KL has 1 / n_k. v_k starts at the first w received.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/method/detail/with_rate.hpp>
#include <tessera/nn/objective/variational.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Relax<fold::Mean>>
struct PFedBayes {
    static_assert(!detail::offers_of<Local>().has(offer::adds_noise),
                  "tessera::PFedBayes: a model is drawn for a whole batch, so no example has a "
                  "gradient of its own to clip");
    static constexpr auto by_default = verb::send | verb::merge;
    static constexpr auto offers =
        offer::validate | offer::keeps | offer::global | offer::global_at | offer::serves_as_is;
    Local local = detail::with_rate<Local>(0.01);     // of w_k
    Local personal = detail::with_rate<Local>(0.01);  // of v_k
    Fold fold{};
    std::size_t epochs = 1, steps = 20;  // batches of the stream (R), or epochs where steps is 0
    double zeta = 10, deviation = 0.08;  // deviation: everybody's first s
    std::size_t draws = 1, answers = 10;
    Weigh weights = Weigh::uniform;
    template <class R> struct Client { Vec<R> v; Cursor cursor; };

    template <class M, class R = real<M>>
    auto open(const Context<M>& context, Vec<R> w0, std::size_t) const {
        nn::require_drawable(context.model->layout());
        w0.resize(2 * w0.size(), static_cast<R>(nn::softplus_inverse(deviation)));
        return Shared<Fold, R>{std::move(w0)};
    }
    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, Vec<R> w, Client<R>& me) const {
        const auto received = w;
        start(me.v, w);
        const double share = zeta / static_cast<double>(std::max<std::size_t>(1, at.ids.size()));
        const nn::Variational<M> own{at.model, received, share, draws};
        const nn::Nearest<M> common{at.model, me.v};
        const auto there = at.with(common);
        memory_t<Local, R> memory{};
        auto step = walk(at.with(own), personal);
        for (const auto b : at.work(epochs, steps, me.cursor)) {
            step(me.v, b);
            local.step(there, w, b, {}, memory);
        }
        return up(at, std::move(w), weights);
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<R> w, Client<R> me) const {
        const Key key = at.key(purpose::noise)(0x7062617965730000);
        return nn::DrawnPredictor<M>(*at.model, std::move(start(me.v, w)), 
                                     at.examples->labels ? answers : 0, key);
    }
    auto global(const auto& server, const auto& initial) const {
        return decltype(server.w)(server.w.begin(), server.w.begin() + std::ssize(initial));
    }
    auto global_at(const auto& at, auto x, const auto&) const {
        return x.resize(at.initial->size()), x;
    }
    bool keeps(const auto& at, const auto& me, std::size_t) const {
        return detail::fresh_or(me.v, 2 * at.initial->size());
    }
    void validate() const {
        detail::require_size(zeta, "zeta"), detail::require_positive(deviation, "deviation");
        detail::require(draws > 0, "draws must be at least 1");
    }
};

}  // namespace tessera
