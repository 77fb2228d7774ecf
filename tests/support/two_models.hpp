// SPDX-License-Identifier: BSD-3-Clause
// A method with both kinds of state: the server's w, merged as in FedAvg, and a personal v on every client that is
// pulled toward the received w.
#pragma once

#include <utility>

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera::support {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct TwoModels {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr Offers offers{};
    Local local{};
    Fold fold{};
    double pull = 0.5;
    template <class R>
    struct Client {
        Vec<R> v;
    };

    template <class M>
    auto visit(const Context<M>& at, Vec<real<M>> w, Client<real<M>>& me) const {
        const auto received = w;
        start(me.v, received);
        descend(at, w, at.epochs(1), local);
        descend(at, me.v, at.epochs(1, Pass::own), local, {.prox_center = received, .prox_weight = pull});
        return up(at, std::move(w));
    }
    template <class M>
    auto serve(const Context<M>& at, Vec<real<M>> w, Client<real<M>> me) const {
        return plain(at, start(me.v, w));
    }
};

}  // namespace tessera::support
