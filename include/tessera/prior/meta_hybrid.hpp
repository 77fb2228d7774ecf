// SPDX-License-Identifier: BSD-3-Clause
// The variant of mh in the paper's appendix (Eq. 22): the loss is looked at one step ahead, as MAML does.
//
//   mu = w - eta { share grad f(w - ahead grad f(w; b1); b2) + w_last - theta }
//
// The paper sets share = eta_a / eta and ahead = eta_a. With one batch b1 = b2.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>

#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/prior/meta_step.hpp>

namespace tessera::prior {

struct MetaHybrid {
    static constexpr auto offers = offer::validate | offer::draws | offer::pull_back;
    double eta = 0.05, share = 0.2, ahead = 0.01;
    std::size_t batches = 1;  // or 2

    std::size_t draws() const { return batches; }

    template <class M, class R = real<M>>
    void operator()(const Context<M>& at, const Vec<R>& w, const Drawn<R>& b, const Personal<R>& me, Vec<R>& mu) const {
        mu = w;
        descend_once(at, mu, b[0], ahead);
        const auto& g = loss_gradient(at, mu, b.last());
        mu = w;
        descend_along(at, mu, g, eta * share);
        remember(me, eta, mu);
    }
    // Dmu' v = v - eta share (I - ahead Hess f(w; b1)) Hess f(w - ahead grad f(w; b1); b2) v
    template <class M, class R = real<M>>
    void pull_back(const Context<M>& at, const Vec<R>& w, const Drawn<R>& b, const Personal<R>&, Vec<R>& v) const {
        auto x = w, bent = v;
        descend_once(at, x, b[0], ahead);
        curve_once(at, x, b.last(), 1, bent);  // bent = v - H(x) v
        for (std::size_t j = 0; j < v.size(); ++j) bent[j] = v[j] - bent[j];
        curve_once(at, w, b[0], ahead, bent);
        kernels::axpy(R(-eta * share), bent.data(), v.data(), v.size());
    }
    void validate() const {
        detail::require(std::isfinite(eta), "eta must be a number, not " + std::to_string(eta));
        detail::require(std::isfinite(share), "share must be a number, not " + std::to_string(share));
        detail::require(std::isfinite(ahead) && ahead >= 0, "ahead must be 0 or more, not " + std::to_string(ahead));
        detail::require(batches == 1 || batches == 2, "batches must be 1 or 2, not " + std::to_string(batches));
    }
};

}  // namespace tessera::prior
