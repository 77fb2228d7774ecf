// SPDX-License-Identifier: BSD-3-Clause
// Per-FedAvg (Fallah et al., NeurIPS 2020).
//
//   client, R times:  ahead = w_k - alpha g(w_k; b1);   v = g(ahead; b2)
//     first order     w_k = a step of `local` along v, plain: w_k - beta v
//     Hessian-free    v = v - alpha [g(w_k + dv; b3) - g(w_k - dv; b3)] / 2d, d = delta
//   server:           as FedAvg
//   serve:            tune_steps steps of size alpha from w, on training batches; `by_both`: one of
//                     size alpha and one of `local`, as pFedBreD's authors serve it (C.3)
//
// alpha = 0 is FedAvg on every second batch. The step ahead is plain by definition: its Jacobian
// is I - alpha Hess f.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/method/detail/ahead.hpp>
#include <tessera/method/detail/with_rate.hpp>

namespace tessera {

enum class MetaGradient : std::uint8_t { first_order, hessian_free };
constexpr std::array<std::string_view, 2> words_of(MetaGradient) {
    return {"first_order", "hessian_free"};
}

template <class Fold = fold::Mean, class Local = rule::Sgd>
struct PerFedAvg {
    static_assert(!detail::offers_of<Local>().has(offer::adds_noise),
                  "tessera::PerFedAvg: the step ahead reads the data without noise, so no rule "
                  "can make the one behind it private");
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr auto offers = offer::validate;
    Fold fold{};
    Local local = detail::with_rate<Local>(0.01);  // beta
    double alpha = 0.01;
    std::size_t steps = 10;  // R
    MetaGradient meta_gradient = MetaGradient::first_order;
    double delta = 1e-3;
    std::size_t tune_steps = 1;
    bool by_both = false;
    Weigh weights = Weigh::samples;
    template <class R>
    struct Client {
        Cursor cursor;
    };

    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, Vec<R> w, Client<R>& me) const {
        detail::Ahead<M> ahead{&at, alpha, delta, meta_gradient == MetaGradient::hessian_free};
        const std::size_t each = ahead.curved ? 3 : 2;
        auto step = walk(at.with(ahead), local);
        for (const auto b : LocalSteps<R>(at.stream(me.cursor, each * steps), each)) {
            ahead.batches = &b;
            step(w, b[1]);
        }
        return up(at, std::move(w), weights);
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<R> w, Client<R> me) const {
        const std::size_t plainly = by_both ? 1 : tune_steps;
        const auto batches = at.stream(me.cursor, plainly + by_both);
        for (std::size_t k = 0; k < batches.size(); ++k)
            if (k < plainly) prior::descend_once(at, w, batches[k], alpha);
            else walk(at, local)(w, batches[k]);
        return plain(at, std::move(w));
    }
    void validate() const {
        detail::require_size(alpha, "alpha");
        detail::require_positive(delta, "delta");
    }
};

}  // namespace tessera
