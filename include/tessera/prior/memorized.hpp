// SPDX-License-Identifier: BSD-3-Clause
// meg: mu = w - eta (w_last - theta), Phi = F by its gradient at the end of the last visit (Eq. 14).
//
// w_last stays as it was during a visit, theta is that of the step before. At a client's first step both are the
// model it received, and mu = w.
#pragma once

#include <cmath>
#include <string>

#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/prior/meta_step.hpp>

namespace tessera::prior {

struct Memorized {
    static constexpr auto offers = offer::validate | offer::pull_back;
    double eta = 0.05;

    template <class R>
    void operator()(const auto&, const Vec<R>& w, const Drawn<R>&, const Personal<R>& me, Vec<R>& mu) const {
        mu = w;
        remember(me, eta, mu);
    }
    void pull_back(const auto&, const auto&, const auto&, const auto&, auto&) const {}  // what is remembered is fixed
    void validate() const {
        detail::require(std::isfinite(eta), "eta must be a number, not " + std::to_string(eta));
    }
};

}  // namespace tessera::prior
