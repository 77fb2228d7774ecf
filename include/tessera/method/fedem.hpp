// SPDX-License-Identifier: BSD-3-Clause
// FedEM (Marfoq et al., NeurIPS 2021): every client is a mixture of the same few models.
//
//   down, up: all M models
//   client: q_i(m) = pi_m p_m(y_i | x_i) / sum over the models;  pi_m = mean of q_i(m)
//           theta_m = E epochs (or R batches) on sum_i q_i(m) loss_i, from the theta_m received
//   server: theta_m = fold of the clients' theta_m
//   serve:  sum_m pi_m p_m(y | x)
//
// pi starts uniform, model 0 at w_0, the others `spread` of the way to fresh draws: equal models
// would stay equal, and pi uniform. M = 1 is FedAvg.
#pragma once

#include <tessera/contracts/rule.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/method/detail/clusters.hpp>
#include <tessera/method/detail/mixture.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct FedEm {
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers =
        offer::validate | offer::admits | offer::keeps | offer::no_global;
    Local local{};
    Fold fold{};
    std::size_t components = 3;         // M
    double spread = 1;
    std::size_t epochs = 1, steps = 0;  // E, or batches of the client's stream
    Weigh weights = Weigh::samples;
    template <class R> struct Server { Vec<Shared<Fold, R>> components; };
    template <class R> struct Client { Vec<double> pi; Cursor cursor; };
    template <class R> struct Upload { Vec<Vec<R>> models; double weight = 1; };

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>& context, const Vec<R>& w0, std::size_t) const {
        return {detail::first_models<Fold>(w0, context, components, spread)};
    }
    auto send(const auto& server, Id) const { return detail::models_of(server.components); }
    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>& at, Vec<Vec<R>> models, Client<R>& me) const {
        const auto [q, pi] = detail::explained(at, models, start(me.pi, even()));
        me.pi = pi;
        const Cursor began = me.cursor;
        for (std::size_t m = 0; m < models.size(); ++m) {
            me.cursor = began;  // the same batches for every model
            descend(at, models[m], at.work(epochs, steps, me.cursor).weighted(q[m]), local);
        }
        return {std::move(models), at.weight(weights)};
    }
    template <class M, class R = real<M>>
    void merge(const Context<M>& context, Server<R>& server, std::span<const Upload<R>> ups) const {
        for (std::size_t m = 0; m < server.components.size(); ++m) {
            Vec<Row<R>> rows;
            for (const auto& up : ups) rows.push_back({up.models[m], up.weight});
            auto& [w, memory] = server.components[m];
            fold_rows(fold, context, w, Rows<R>(rows), memory);
        }
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<Vec<R>> models, Client<R> me) const {
        if (me.pi.empty()) me.pi = detail::explained(at, models, even()).pi;
        return detail::Mixture<M>{at.model, std::move(models), std::move(me.pi)};
    }
    bool admits(const auto& s, Id, const auto& up) const { return detail::fits_models(s, up); }
    bool keeps(const auto&, const auto& me, std::size_t) const {
        return me.pi.empty() || me.pi.size() == components;
    }
    Vec<double> even() const { return detail::even_shares(components); }
    void validate() const { detail::require_models(components, "components", spread); }
};

}  // namespace tessera
