// SPDX-License-Identifier: BSD-3-Clause
// mu = w: no personal prior. With it pFedBreD is pFedMe.
#pragma once

#include <tessera/contracts/prior.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::prior {

struct Identity {
    static constexpr auto offers = offer::pull_back | offer::forgets;
    template <class R>
    void operator()(const auto&, const Vec<R>& w, const Drawn<R>&, const Personal<R>&, Vec<R>& mu) const {
        mu = w;
    }
    void pull_back(const auto&, const auto&, const auto&, const auto&, auto&) const {}
};

}  // namespace tessera::prior
