// SPDX-License-Identifier: BSD-3-Clause
// FedAvg (McMahan et al., AISTATS 2017).
//
//   client: w_k = E epochs (or R batches) of the local rule from w
//   server: w = sum_k p_k w_k, p_k = n_k / sum n
//
// Any server optimizer is a fold: FedAvg<rule::Sgd, fold::ServerAdam<>>.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct FedAvg {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr auto offers = offer::Released;
    using Released = Trained<Local>;
    Local local{};
    Fold fold{};
    std::size_t epochs = 1;  // E
    std::size_t steps = 0;   // instead of epochs: batches of the client's stream
    Weigh weights = Weigh::samples;
    template <class R>
    struct Client {
        Cursor cursor;
    };

    auto visit(const auto& at, auto w, auto& me) const {
        descend(at, w, at.work(epochs, steps, me.cursor), local);
        return up(at, std::move(w), weights);
    }
};

}  // namespace tessera
