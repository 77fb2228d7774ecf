// SPDX-License-Identifier: BSD-3-Clause
// The pieces priors are made of: mu = w - eta grad Phi_i(w), the meta-step of pFedBreD (Eq. 11 and 14).
//
//   descend_once   x -= eta grad f(x; b)             Phi = f
//   remember       mu -= eta (w_last - theta)        Phi = F, by the envelope's gradient of the visit before
//   curve_once     v -= eta Hess f(w; b) v           what Dmu = I - eta Hess Phi does to v
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include <tessera/contracts/prior.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::prior {

// grad f(x; b) in the worker's workspace, counted as work.
template <class M>
const Vec<real<M>>& loss_gradient(const Context<M>& at, const Vec<real<M>>& x, const Batch<real<M>>& b) {
    auto& g = at.workspace->gradient;
    g.resize(x.size());
    at.gradient(x, b, g);
    at.workspace->tally.examples += b.size();
    return g;
}

// x -= eta g along a gradient of the model; running statistics take it whole.
template <class M>
void descend_along(const Context<M>& at, Vec<real<M>>& x, const Vec<real<M>>& g, double eta) {
    using R = real<M>;
    each_piece({}, at.model->layout(), x.size(), [&](Range r, bool of_buffers) {
        kernels::axpy(of_buffers ? R(-1) : R(-eta), g.data() + r.begin, x.data() + r.begin, r.size());
    });
}

// One pass and no stored gradient where the model can.
template <class M>
void descend_once(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, double eta) {
    using R = real<M>;
    if (eta == 0) return;
    if constexpr (FusedModel<M>) {
        const Step<R> step{.rate = eta};
        if (at.model->fuses(step)) {
            at.model->fused_step(x, b, step);
            at.workspace->tally.examples += b.size();
            return;
        }
    }
    descend_along(at, x, loss_gradient(at, x, b), eta);
}

template <class R>
void remember(const Personal<R>& me, double eta, Vec<R>& mu) {
    if (eta != 0) kernels::pulled(R(eta), me.w_last.data(), me.theta.data(), mu.data(), mu.size());
}

// Central difference of gradients along v: [g(w + d v) - g(w - d v)] / 2d. Exact on quadratics for any d; else its
// error is of order d^2 |v|^2, and that of rounding u/d, so d |v| is the cube root of u beside |w|.
template <class M>
void hessian_vector(const Context<M>& at, const Vec<real<M>>& w, const Batch<real<M>>& b, const Vec<real<M>>& v,
                    double d, Vec<real<M>>& out) {
    using R = real<M>;
    auto x = w;
    kernels::axpy(R(d), v.data(), x.data(), x.size());
    out = loss_gradient(at, x, b);
    x = w;
    kernels::axpy(R(-d), v.data(), x.data(), x.size());
    const auto& behind = loss_gradient(at, x, b);
    for (std::size_t j = 0; j < out.size(); ++j) out[j] = (out[j] - behind[j]) / R(2 * d);
}
template <class R>
double difference_step(const Vec<R>& w, const Vec<R>& v) {
    double ww = 0, vv = 0;
    kernels::dot(w.data(), w.data(), w.size(), &ww);
    kernels::dot(v.data(), v.data(), v.size(), &vv);
    if (vv == 0) return 0;
    return std::cbrt(static_cast<double>(std::numeric_limits<R>::epsilon())) * (1 + std::sqrt(ww)) / std::sqrt(vv);
}

template <class M>
void curve_once(const Context<M>& at, const Vec<real<M>>& w, const Batch<real<M>>& b, double eta, Vec<real<M>>& v) {
    const double d = difference_step(w, v);
    if (eta == 0 || d == 0) return;
    Vec<real<M>> bent;
    hessian_vector(at, w, b, v, d, bent);
    kernels::axpy(real<M>(-eta), bent.data(), v.data(), v.size());
}

}  // namespace tessera::prior
