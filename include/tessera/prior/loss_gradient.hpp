// SPDX-License-Identifier: BSD-3-Clause
// lg: mu = w - eta_a grad f(w; b), Phi = f (Eq. 14). The released program takes eta_a = 0.05.
#pragma once

#include <cmath>
#include <string>

#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/prior/meta_step.hpp>

namespace tessera::prior {

struct LossGradient {
    static constexpr auto offers = offer::validate | offer::pull_back | offer::starts_at_mean | offer::forgets;
    double eta_a = 0.01;

    template <class M, class R = real<M>>
    void operator()(const Context<M>& at, const Vec<R>& w, const Drawn<R>& b, const Personal<R>&, Vec<R>& mu) const {
        mu = w;
        descend_once(at, mu, b.last(), eta_a);
    }
    template <class M, class R = real<M>>
    void pull_back(const Context<M>& at, const Vec<R>& w, const Drawn<R>& b, const Personal<R>&, Vec<R>& v) const {
        curve_once(at, w, b.last(), eta_a, v);
    }
    void validate() const {
        detail::require(std::isfinite(eta_a) && eta_a >= 0, "eta_a must be 0 or more, not " + std::to_string(eta_a));
    }
};

}  // namespace tessera::prior
