// SPDX-License-Identifier: BSD-3-Clause
// Partial personalization (Pillutla et al., ICML 2022): w_k = (u, v_k), u travels, v_k stays.
//
//   client: (u_k, v_k) = order(u, v_k)      FedAlt: order::Alternate, FedSim: order::Together
//   server: u = fold of the u_k, p_k by number of batches
//   serve:  E_ft epochs of `tune` on v_k alone, u frozen; nothing is kept
//
// v_k starts at its slice of the run's initial vector, and Settings::stateless restarts it there.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/method/detail/split.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Own, class Order, class Fold = fold::Mean, Weigh By = Weigh::batches,
          class Tune = rule::Sgd>
struct Partial {
    static constexpr auto by_default = verb::send | verb::merge;
    static constexpr auto offers =
        offer::keeps | offer::holds | offer::global | offer::global_at | offer::trains_to_serve;
    Own own{};  // the scope of v
    Order order{};
    Fold fold{};
    Weigh weights = By;
    std::size_t tune_epochs = 0;  // E_ft
    Tune tune{};
    template <class R>
    using Server = detail::SharedPart<Fold, R>;
    template <class R>
    struct Client {
        Vec<R> v;
    };

    template <class M>
    auto open(const Context<M>& context, const Vec<real<M>>& w0, std::size_t) const {
        return detail::shared_part<Fold>(own, context, w0);
    }
    template <class M>
    auto visit(const Context<M>& at, const Vec<real<M>>& u, Client<real<M>>& me) const {
        constexpr bool ordered = detail::OrderOf<Order, M>;
        static_assert(ordered,
                      "tessera::Partial: an order is callable as "
                      "order(context, w, own, common) const");
        auto w = detail::joined(own, at, u, me.v);
        const Coordinates mine = on(own, *at.model, at.id), common = off(own, *at.model);
        order(at, w, mine, common);
        me.v = gather(w, mine);
        return up(at, gather(w, common), weights);
    }
    template <class M>
    auto serve(const Context<M>& at, const Vec<real<M>>& u, const Client<real<M>>& me) const {
        auto w = detail::joined(own, at, u, me.v);
        descend(at, w, at.epochs(tune_epochs, Pass::own), tune, {.on = on(own, *at.model, at.id)});
        return plain(at, std::move(w));
    }
    // The model of nobody: u with the v that everybody started from.
    template <class R>
    Vec<R> global(const Server<R>& server, const Vec<R>& initial) const {
        return server.with(initial);
    }
    template <class M>
    Vec<real<M>> global_at(const Context<M>& at, const Vec<real<M>>& u, const auto&) const {
        return detail::joined(own, at, u, {});
    }
    template <class M>
    bool keeps(const Context<M>& at, const Client<real<M>>& me, std::size_t) const {
        const auto d = at.initial->size();
        return me.v.empty() || me.v.size() == on(own, *at.model, at.id).size(d);
    }
    bool holds(const auto& opened, const auto& server) const { return server.like(opened); }
    bool trains_to_serve() const { return tune_epochs > 0; }
};

}  // namespace tessera
