// SPDX-License-Identifier: BSD-3-Clause
// Per-FedAvg (Fallah et al., NeurIPS 2020).
//
//   client, R times:  ahead = w_k - alpha g(w_k; b1);   v = g(ahead; b2)
//     first order     w_k -= beta_m v
//     Hessian-free    w_k -= beta_m (v - alpha [g(w_k + dv; b3) - g(w_k - dv; b3)] / 2d), d = delta
//   server:           as FedAvg
//   serve:            tune_steps steps of size alpha from w, on training batches
//
// alpha = 0 is FedAvg with steps of size beta_m on every second batch.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/prior/meta_step.hpp>

namespace tessera {

enum class MetaGradient : std::uint8_t { first_order, hessian_free };
constexpr std::array<std::string_view, 2> words_of(MetaGradient) {
    return {"first_order", "hessian_free"};
}

template <class Fold = fold::Mean>
struct PerFedAvg {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr auto offers = offer::validate;
    Fold fold{};
    double alpha = 0.01, beta_m = 0.01;
    std::size_t steps = 10;  // R
    MetaGradient meta_gradient = MetaGradient::first_order;
    double delta = 1e-3;
    std::size_t tune_steps = 1;
    Weigh weights = Weigh::samples;
    template <class R>
    struct Client {
        Cursor cursor;
    };

    template <class M, class R = real<M>>
    auto visit(const Site<M>& at, Vec<R> w, Client<R>& me) const {
        const bool curved = meta_gradient == MetaGradient::hessian_free;
        const LocalSteps<R> draws(at.stream(me.cursor, (curved ? 3 : 2) * steps), curved ? 3 : 2);
        Vec<R> ahead, v, bent;
        for (const auto b : draws) {
            ahead = w;
            prior::descend_once(at, ahead, b[0], alpha);
            v = prior::loss_gradient(at, ahead, b[1]);
            if (curved) {
                prior::hessian_vector(at, w, b[2], v, delta, bent);
                kernels::axpy(R(-alpha), bent.data(), v.data(), v.size());
            }
            prior::descend_along(at, w, v, beta_m);
        }
        return up(at, std::move(w), weights);
    }
    template <class M, class R = real<M>>
    auto serve(const Site<M>& at, Vec<R> w, Client<R> me) const {
        for (const auto b : at.stream(me.cursor, tune_steps)) prior::descend_once(at, w, b, alpha);
        return plain(at, std::move(w));
    }
    void validate() const {
        detail::require_size(alpha, "alpha"), detail::require_size(beta_m, "beta_m");
        detail::require_positive(delta, "delta");
    }
};

}  // namespace tessera
