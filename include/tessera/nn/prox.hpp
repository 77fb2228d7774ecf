// SPDX-License-Identifier: BSD-3-Clause
// The Bregman proximal map: theta near the minimum of f(x) + lambda D(x, mu), by gradient steps on one batch.
//
//   descend_prox     steps of a rule on that
//   descend_toward   steps of a rule over many batches, with the mean of a prior made anew for each
//   Envelope     F_i(w) = min f + lambda D(., mu_i(w)) and its gradient (pFedBreD's Eq. 12 and 13)
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include <tessera/contracts/divergence.hpp>
#include <tessera/contracts/model.hpp>
#include <tessera/contracts/prior.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/error.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::nn {

namespace detail {
// A batch for several steps, whose bytes are converted once: 14 % of a pFedMe round of MCLR. Tiles read bytes.
template <class R>
class ReadOnce {
public:
    ReadOnce(const Batch<R>& b, std::size_t steps) : rows_(pays(b, steps) ? b.size() * b.width() : 0), batch_(b) {
        if (rows_.size() == 0) return;
        const Examples& e = b.examples();
        for (std::size_t i = 0; i < b.size(); ++i) {
            b.fetch(i + 2);
            kernels::widen_bytes(b.bytes(i), rows_.data() + i * b.width(), b.width(), R(e.shift), R(e.scale));
        }
        batch_ = b.over(rows_.data());
    }
    const Batch<R>& batch() const { return batch_; }

private:
    static bool pays(const Batch<R>& b, std::size_t steps) {
        return steps > 1 && b.size() > 0 && b.bytes(0) && kernels::active() != kernels::Set::amx;
    }
    Scratch<R> rows_;
    Batch<R> batch_;
};

// As a walk of somebody else's, if there is one (contracts/descender.hpp). The domain of half a squared norm has no
// border, so nothing is projected between its steps.
template <Model M, class Q, class R = real<M>>
bool prox_elsewhere(const Context<M>& at, Vec<R>& x, const Batch<R>& b, std::size_t steps, const Q& rule,
                    const Terms<R>& terms) {
    if (!Descender<R>::here()) return false;
    Batches<R> same(b.examples());
    for (std::size_t k = 0; k < steps; ++k) same.append(b.ids(), b.draw());
    return tessera::detail::descends_elsewhere(at, x, std::move(same).weighted(b.weights()), rule, terms);
}
}  // namespace detail

// Steps of a rule on f + lambda D(., mu), kept in the domain of the geometry. The pull is a term of the step in every
// geometry: fused kernels read it, and a rule that clips clips the gradient of f alone. `mu` may change between steps,
// in place, and is then looked at again by `aim`.
template <Model M, class Q, class Geometry>
class PulledSteps {
    using R = real<M>;

public:
    PulledSteps(const Context<M>& at, const Q& rule, const Geometry& geometry, const Vec<R>& mu, double lambda)
        : geometry_(geometry),
          mu_(mu),
          lambda_(static_cast<R>(lambda)),
          slope_at_mu_(is_euclidean<Geometry> ? 0 : mu.size()),
          pull_(slope_at_mu_.size()),
          step_(walk(at, rule, terms(lambda))) {
        aim();
    }
    PulledSteps(const PulledSteps&) = delete;
    PulledSteps& operator=(const PulledSteps&) = delete;

    void aim() {
        if constexpr (!is_euclidean<Geometry>) geometry_.gradient(In<R>(mu_), Out<R>(slope_at_mu_));
    }
    void operator()(Vec<R>& x, const Batch<R>& b) {
        if constexpr (!is_euclidean<Geometry>) {
            geometry_.gradient(In<R>(x), Out<R>(pull_));
            for (std::size_t j = 0; j < x.size(); ++j) pull_[j] = lambda_ * (pull_[j] - slope_at_mu_[j]);
        }
        step_(x, b);
        geometry_.project(Out<R>(x));
    }

private:
    Terms<R> terms(double lambda) const {
        if constexpr (is_euclidean<Geometry>) return {.prox_center = mu_, .prox_weight = lambda};
        else return {.linear = pull_};
    }

    const Geometry& geometry_;
    const Vec<R>& mu_;
    R lambda_;
    Vec<R> slope_at_mu_, pull_;
    tessera::Walk<M, Q> step_;
};

// `steps` of them, all on one batch.
template <Model M, class Q, class Geometry, class R = real<M>>
void descend_prox(const Context<M>& at, Vec<R>& x, const Batch<R>& batch, std::size_t steps, const Q& rule,
                  const Geometry& geometry, const Vec<R>& mu, double lambda) {
    if constexpr (is_euclidean<Geometry>)
        if (detail::prox_elsewhere(at, x, batch, steps, rule, {.prox_center = mu, .prox_weight = lambda})) return;
    const detail::ReadOnce<R> read(batch, steps);
    const Batch<R>& b = read.batch();
    PulledSteps<M, Q, Geometry> step(at, rule, geometry, mu, lambda);
    for (std::size_t k = 0; k < steps; ++k) step(x, b);
}

// One step on each batch of f(x; b) + lambda D(x, mu_i(w)), mu_i(w) made anew for each as pFedBreD does; a prior that
// draws several batches takes so many of them for a step, which reads the last. `me` is what the prior remembers: theta
// is x after the step before.
template <Model M, class Q, class P, class Geometry, class R = real<M>>
void descend_toward(const Context<M>& at, Vec<R> w, Vec<R>& x, const LocalSteps<R>& batches, const Q& rule,
                    const P& prior, const Geometry& geometry, double lambda, Personal<R>& me) {
    static_assert(check_prior<P, M>() && check_divergence<Geometry, double>());
    geometry.project(Out<R>(w));
    geometry.project(Out<R>(x));
    start(me.theta, w);
    start(me.w_last, w);
    Vec<R> mu = w, made(w.size());
    PulledSteps<M, Q, Geometry> step(at, rule, geometry, mu, lambda);
    for (const auto b : batches) {
        prior(at, w, b, me, made);
        if constexpr (tessera::detail::is_natural<P>) geometry.mean(Out<R>(made));
        geometry.project(Out<R>(made));
        std::copy(made.begin(), made.end(), mu.begin());  // where the steps look
        step.aim();
        step(x, b.last());
        me.theta = x;
    }
    me.w_last = w;
}

// F_i(w) = min f + lambda D(., mu_i(w)), by a prior and K steps of a rule. Refers to what it is made of.
template <class P, class Geometry, class Q>
struct Envelope {
    static_assert(check_divergence<Geometry, double>());
    const P& prior;
    const Geometry& geometry;
    const Q& rule;
    std::size_t steps;
    double lambda;
    ProxInit init;
    Jacobian jacobian;
    EvalModel served;

    // Before the first step of a visit: w inside the domain, and a client that was never visited starts from it.
    template <class R>
    void enter(Vec<R>& w, Personal<R>& me) const {
        geometry.project(Out<R>(w));
        start(me.theta, w);
        if (keeps_last()) start(me.w_last, w);
    }
    template <class R>
    void leave(const Vec<R>& w, Personal<R>& me) const {
        if (keeps_last()) me.w_last = w;
    }
    bool keeps_last() const { return tessera::detail::remembers<P> || served == EvalModel::w_local; }
    // mu = mu_i(w) and me.theta; a prior may move w.
    template <class M, class R = real<M>>
    void minimise(const Context<M>& at, Vec<R>& w, const Drawn<R>& b, Personal<R>& me, Vec<R>& mu) const {
        static_assert(check_prior<P, M>());
        prior(at, w, b, me, mu);
        if constexpr (tessera::detail::is_natural<P>) geometry.mean(Out<R>(mu));
        geometry.project(Out<R>(mu));
        const bool automatic = init == ProxInit::automatic;
        const bool at_mean = automatic ? tessera::detail::starts_at_mean<P> : init == ProxInit::mu;
        if (init != ProxInit::theta_prev) me.theta = at_mean ? mu : w;
        descend_prox(at, me.theta, b.last(), steps, rule, geometry, mu, lambda);
    }
    // The same, and mu leaves as Dmu(w)' Hess g*(mu) (mu - theta): the gradient of F_i at w without its factor lambda.
    template <class M, class R = real<M>>
    void operator()(const Context<M>& at, Vec<R>& w, const Drawn<R>& b, Personal<R>& me, Vec<R>& mu) const {
        minimise(at, w, b, me, mu);
        geometry.envelope(Out<R>(mu), In<R>(me.theta));
        if constexpr (DifferentiablePrior<P, M>)
            if (jacobian == Jacobian::hvp) prior.pull_back(at, w, b, me, mu);
    }
    template <class R>
    void move(Vec<R>& w, double rate, const Vec<R>& direction) const {
        kernels::axpy(static_cast<R>(rate), direction.data(), w.data(), w.size());
        geometry.project(Out<R>(w));
    }
    // mu_i(w) - theta_i on the client's next batches; zero if it has no data.
    template <class M, class R = real<M>>
    Vec<R> gap(const Context<M>& at, Vec<R> w, Personal<R> me) const {
        enter(w, me);
        Vec<R> mu = me.theta;
        for (const auto b : local_steps(at, me.cursor, 1, prior)) minimise(at, w, b, me, mu);
        for (std::size_t j = 0; j < mu.size(); ++j) mu[j] -= me.theta[j];
        return mu;
    }
    // What cannot work at all, before round one.
    template <class M, class R = real<M>>
    void admit(const Context<M>&, const Vec<R>& w) const {
        geometry.admit(In<R>(w));
        tessera::detail::require(jacobian == Jacobian::identity || DifferentiablePrior<P, M>,
                                 "jacobian = hvp needs a prior with `pull_back`; take identity, or write it");
    }
};
template <class P, class G, class Q>
Envelope(const P&, const G&, const Q&, std::size_t, double, ProxInit, Jacobian, EvalModel) -> Envelope<P, G, Q>;

}  // namespace tessera::nn
