// SPDX-License-Identifier: BSD-3-Clause
// FedBABU (Oh et al., ICLR 2022): the head keeps its first value while the body is learnt together.
//
//   client: body_k = E epochs on the body, the head frozen where everybody's started
//   server: body = sum_k p_k body_k, p_k = n_k / sum n;   the head never travels
//   serve:  E_ft epochs of `tune` on the head, or on everything; nothing is kept
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/method/detail/split.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean, class Tune = rule::Sgd>
struct FedBabu {
    static constexpr auto by_default = verb::send | verb::merge;
    static constexpr auto offers =
        offer::global | offer::global_at | offer::holds | offer::trains_to_serve;
    static constexpr scope::Head head{};
    Local local{};
    Fold fold{};
    std::size_t epochs = 1;       // E
    std::size_t tune_epochs = 1;  // E_ft
    bool tune_all = false;        // the body too
    Tune tune{};
    Weigh weights = Weigh::samples;
    template <class R>
    using Server = detail::SharedPart<Fold, R>;

    template <class M>
    auto open(const Context<M>& context, const Vec<real<M>>& w0, std::size_t) const {
        return detail::shared_part<Fold>(head, context, w0);
    }
    template <class M>
    auto visit(const Context<M>& at, const Vec<real<M>>& body, Nothing&) const {
        auto w = global_at(at, body, Nothing{});
        const Coordinates moves = off(head, *at.model);
        descend(at, w, at.epochs(epochs), local, {.on = moves});
        return up(at, gather(w, moves), weights);
    }
    template <class M>
    auto serve(const Context<M>& at, const Vec<real<M>>& body, Nothing) const {
        auto w = global_at(at, body, Nothing{});
        const Coordinates moves = tune_all ? Coordinates{} : on(head, *at.model);
        descend(at, w, at.epochs(tune_epochs, Pass::own), tune, {.on = moves});
        return plain(at, std::move(w));
    }
    template <class R>
    Vec<R> global(const Server<R>& server, const Vec<R>& initial) const {
        return server.with(initial);
    }
    template <class M>
    Vec<real<M>> global_at(const Context<M>& at, const Vec<real<M>>& body, const auto&) const {
        return detail::joined(head, at, body, {});
    }
    bool holds(const auto& opened, const auto& server) const { return server.like(opened); }
    bool trains_to_serve() const { return tune_epochs > 0; }
};

}  // namespace tessera
