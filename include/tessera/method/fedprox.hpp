// SPDX-License-Identifier: BSD-3-Clause
// FedProx (Li et al., MLSys 2020).
//
//   client: E epochs on f(w_k) + mu/2 |w_k - w|^2 from w;   server: as FedAvg
//
// mu = 0 is FedAvg.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct FedProx {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr auto offers = offer::validate | offer::Released;
    using Released = Trained<Local>;
    Local local{};
    Fold fold{};
    std::size_t epochs = 1;  // E
    std::size_t steps = 0;   // instead of epochs: batches of the client's stream
    double mu = 0.1;
    Weigh weights = Weigh::samples;
    template <class R>
    struct Client {
        Cursor cursor;
    };

    auto visit(const auto& at, auto w, auto& me) const {
        const auto received = w;
        descend(at, w, at.work(epochs, steps, me.cursor), local,
                {.prox_center = received, .prox_weight = mu});
        return up(at, std::move(w), weights);
    }
    void validate() const { detail::require_size(mu, "mu"); }
};

}  // namespace tessera
