// SPDX-License-Identifier: BSD-3-Clause
// FT (part.) of Pillutla et al., ICML 2022: FedAvg, and at evaluation each client tunes v alone.
//
//   visit, merge: FedAvg on the whole model
//   serve: v_k = E_ft epochs of `tune` on v from w, u frozen; clients keep no model
//
// v = everything is FedAvg + FT, E_ft = 0 is FedAvg.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Own = scope::Head, class Local = rule::Sgd, class Fold = fold::Mean,
          class Tune = rule::Sgd>
struct FtPart {
    static constexpr auto by_default = verb::send | verb::merge;
    static constexpr auto offers = offer::trains_to_serve;
    Own own{};  // the scope of v
    Local local{};
    Fold fold{};
    std::size_t epochs = 1;       // E
    std::size_t steps = 0;        // instead of epochs: batches of the client's stream
    std::size_t tune_epochs = 5;  // E_ft
    Tune tune{};
    Weigh weights = Weigh::samples;
    template <class R>
    struct Client {
        Cursor cursor;
    };

    template <class M>
    auto open(const Context<M>& context, Vec<real<M>> w0, std::size_t) const {
        on(own, *context.model);  // a wrong scope is known before round one
        return Shared<Fold, real<M>>{std::move(w0)};
    }
    auto visit(const auto& at, auto w, auto& me) const {
        descend(at, w, at.work(epochs, steps, me.cursor), local);
        return up(at, std::move(w), weights);
    }
    auto serve(const auto& at, auto w, auto) const {
        descend(at, w, at.epochs(tune_epochs, Pass::own), tune, {.on = on(own, *at.model, at.id)});
        return plain(at, std::move(w));
    }
    bool trains_to_serve() const { return tune_epochs > 0; }
};

}  // namespace tessera
