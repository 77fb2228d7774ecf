// SPDX-License-Identifier: BSD-3-Clause
// SCAFFOLD (Karimireddy et al., ICML 2020): clients correct the drift of their own data.
//
//   client: y = K batches (E epochs, or R) from w,  y -= eta (g(y) + c - c_k);
//           c_k' = c_k - c + (w - y) / (K eta)    option II, drift=way
//           c_k' = g_k(w)                         option I, drift=gradient
//           up: y, c_k' - c_k
//   server: w = fold of the y;   c += (|S| / N) mean of the c_k' - c_k
//
// Option II is the mean of the slopes g of the visit, which holds for plain steps: any other rule,
// and momentum, takes option I, a pass over the client's data more. eta is the rate of the round;
// at rate 0 nothing is learnt by option II, c_k stays. Weight decay is part of its g.
// A global rate eta_g is a fold: Scaffold<fold::Relax<>>{.fold = {.beta = eta_g}}.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/method/detail/drift.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Fold = fold::Mean, class Local = rule::Sgd>
struct Scaffold {
    static_assert(detail::shows_drift<Fold>());
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::validate | offer::admits | offer::holds | offer::global |
                                   offer::needs_memory | offer::serves_global;
    Local local{};
    Fold fold{};
    std::size_t epochs = 1, steps = 0;  // E, or batches of the client's stream
    Drift drift = detail::steps_plainly<Local>() ? Drift::way : Drift::gradient;
    template <class R>
    struct Server { Vec<R> w, c; memory_t<Fold, R> fold{}; std::uint64_t clients = 0; };
    template <class R> struct Client { Vec<R> c; Cursor cursor; };
    template <class R> struct Down { Vec<R> w, c; };
    template <class R> struct Upload { Vec<R> y, dc; };

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>&, Vec<R> w, std::size_t clients) const {
        return {w, Vec<R>(w.size()), {}, clients};
    }
    template <class R>
    Down<R> send(const Server<R>& server, Id) const { return {server.w, server.c}; }
    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>& at, Down<R> got, Client<R>& me) const {
        me.c.resize(got.w.size());
        Vec<R> y = got.w, correction = got.c, dc(y.size());
        for (std::size_t j = 0; j < y.size(); ++j) correction[j] -= me.c[j];
        const auto batches = at.work(epochs, steps, me.cursor);
        descend(at, y, batches, local, {.linear = correction});
        if (drift == Drift::gradient) {
            dc = detail::slope_at(at, got.w);
            for (std::size_t j = 0; j < y.size(); ++j) me.c[j] += dc[j] -= me.c[j];
        } else if constexpr (detail::steps_plainly<Local>()) {
            const double eta = local.rate * local.schedule.at(at);
            const R way = static_cast<R>(eta * static_cast<double>(batches.size()));  // K eta
            for (std::size_t j = 0; way > 0 && j < y.size(); ++j)
                me.c[j] += dc[j] = (got.w[j] - y[j]) / way - got.c[j];
        }
        return {std::move(y), std::move(dc)};
    }
    template <class M, class R = real<M>>
    void merge(const Context<M>& context, Server<R>& server, std::span<const Upload<R>> ups) const {
        Vec<Row<R>> models, changes;
        for (const auto& up : ups) models.push_back({up.y}), changes.push_back({up.dc});
        fold_rows(fold, context, server.w, Rows<R>(models), server.fold);
        detail::add_share(context, server.c, Rows<R>(changes), server.clients);
    }
    auto serve(const auto& at, auto got, const auto&) const { return plain(at, std::move(got.w)); }
    bool admits(const auto& s, Id, const auto& up) const {
        return up.y.size() == s.w.size() && up.dc.size() == s.w.size();
    }
    bool holds(const auto& opened, const auto& s) const {
        return detail::same_lengths(opened, s) && s.clients == opened.clients;
    }
    auto global(const auto& server, const auto&) const { return server.w; }
    std::string_view needs_memory() const { return "c_k is its own drift; leave stateless off"; }
    void validate() const { if (drift == Drift::way) detail::require_plain_steps(local); }
};

}  // namespace tessera
