// SPDX-License-Identifier: BSD-3-Clause
// FedDyn (Acar et al., ICLR 2021).
//
//   client: w_k = E epochs (or R batches) on f(w) - <h_k, w> + alpha/2 |w - w^t|^2 from w^t
//           h_k = h_k - alpha (w_k - w^t)
//   server: h = h - alpha/N sum of the w_k - w^t over the cohort
//           w = mean of the w_k - h / alpha
//
// A client that stands still has h_k = grad f_k, and the h_k add up to h = 0: the fixed point is
// the optimum of the mean loss, however long clients train.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/method/detail/drift.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct FedDyn {
    static constexpr auto by_default = verb::send | verb::serve;
    static constexpr auto offers = offer::validate | offer::global | offer::holds;
    Local local{};
    Fold fold{};
    std::size_t epochs = 1, steps = 0;  // E, or batches of the client's stream
    double alpha = 0.1;
    Weigh weights = Weigh::uniform;
    template <class R>
    struct Server {
        Vec<R> w, h;
        memory_t<Fold, R> fold{};
        std::uint64_t clients = 0;  // N
    };
    template <class R>
    struct Client {
        Vec<R> h;
        Cursor cursor;
    };

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>&, Vec<R> w, std::size_t clients) const {
        return {w, Vec<R>(w.size()), {}, clients};
    }
    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, Vec<R> w, Client<R>& me) const {
        const auto received = w;
        me.h.resize(w.size());
        Vec<R> lean(w.size());
        for (std::size_t j = 0; j < w.size(); ++j) lean[j] = -me.h[j];
        descend(at, w, at.work(epochs, steps, me.cursor), local,
                {.prox_center = received, .prox_weight = alpha, .linear = lean});
        for (std::size_t j = 0; j < w.size(); ++j)
            me.h[j] -= static_cast<R>(alpha) * (w[j] - received[j]);
        return up(at, std::move(w), weights);
    }
    template <class M, class R = real<M>>
    void merge(const Context<M>& context, Server<R>& server, std::span<const Up<R>> ups) const {
        const R share = static_cast<R>(alpha / static_cast<double>(server.clients));
        for (const auto& up : ups)
            for (std::size_t j = 0; j < server.w.size(); ++j)
                server.h[j] -= share * (up.x[j] - server.w[j]);
        fold_rows(fold, context, server.w, Rows<R>(rows_of(ups)), server.fold);
        const Layout layout = context.model->layout();
        each_piece({}, layout, server.w.size(), [&](Range r, bool of_buffers) {
            for (std::size_t j = r.begin; !of_buffers && j < r.end; ++j)  // averaged alone
                server.w[j] -= server.h[j] / static_cast<R>(alpha);
        });
    }
    auto global(const auto& server, const auto&) const { return server.w; }
    bool holds(const auto& opened, const auto& s) const {
        return detail::same_lengths(opened, s) && s.clients == opened.clients;
    }
    void validate() const { detail::require_positive(alpha, "alpha"); }
};

}  // namespace tessera
