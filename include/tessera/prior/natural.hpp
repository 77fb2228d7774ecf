// SPDX-License-Identifier: BSD-3-Clause
// A prior given by its natural parameter: mu = grad g(s_i(w)), where s_i is yours (Eq. 12).
//
// The map has the call of a prior and writes s. The geometry of the method turns s into a mean; for
// divergence::Gaussian the two are the same. The map s = grad g*(w) gives mu = w.
#pragma once

#include <tessera/contracts/prior.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::prior {

template <class Map>
struct Natural {
    static constexpr Offers offers = offer::natural | offer::draws |
                                     offer::when(detail::starts_at_mean<Map>, offer::starts_at_mean) |
                                     offer::when(!detail::remembers<Map>, offer::forgets);
    Map map{};

    std::size_t draws() const { return detail::draws_of(map); }

    template <class M, class R = real<M>>
    void operator()(const Context<M>& at, Vec<R>& w, const Drawn<R>& b, const Personal<R>& me, Vec<R>& s) const {
        static_assert(check_prior<Map, M>());
        map(at, w, b, me, s);
    }
};

}  // namespace tessera::prior
