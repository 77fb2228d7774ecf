// SPDX-License-Identifier: BSD-3-Clause
// FedAvg + FT: FedAvg, and at evaluation each client fine-tunes a copy of w.
//
//   serve: w_k = E_ft epochs of the rule from w. Clients keep no model. E_ft = 0 is FedAvg.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct FedAvgFt {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr auto offers = offer::validate | offer::trains_to_serve;
    Local local{};
    Fold fold{};
    std::size_t epochs = 1;       // E
    std::size_t steps = 0;        // instead of epochs: batches of the client's stream
    std::size_t tune_epochs = 1;  // E_ft
    double tune_prox_weight = 0;  // while tuning, + tune_prox_weight/2 |v - w|^2, w as received
    Weigh weights = Weigh::samples;
    template <class R>
    struct Client {
        Cursor cursor;
    };

    auto visit(const auto& at, auto w, auto& me) const {
        descend(at, w, at.work(epochs, steps, me.cursor), local);
        return up(at, std::move(w), weights);
    }
    auto serve(const auto& at, auto w, auto) const {
        const auto received = w;
        descend(at, w, at.epochs(tune_epochs, Pass::own), local,
                {.prox_center = received, .prox_weight = tune_prox_weight});
        return plain(at, std::move(w));
    }
    bool trains_to_serve() const { return tune_epochs > 0; }
    void validate() const { detail::require_size(tune_prox_weight, "tune_prox_weight"); }
};

}  // namespace tessera
