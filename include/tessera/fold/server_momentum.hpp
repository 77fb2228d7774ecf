// SPDX-License-Identifier: BSD-3-Clause
// FedAvgM (Hsu et al. 2019). D = fold(w) - w is the pseudo-gradient:
//
//   m = beta m + D;   w += rate m            (nesterov: w += rate (D + beta m))
//
// Moments are kept in double. beta = 0, rate = 1 is the inner fold, bit for bit.
#pragma once

#include <cmath>
#include <string>

#include <tessera/contracts/fold.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/fold/mean.hpp>

namespace tessera::fold {

template <class Inner = Mean>
struct ServerMomentum {
    static constexpr auto offers = offer::validate;
    double server_rate = 1;
    double server_momentum = 0.9;  // beta, in [0, 1)
    bool nesterov = false;
    Inner inner{};

    template <class R>
    struct Memory {
        Vec<double> m;
        memory_t<Inner, R> inner;
    };

    template <class M>
    void around(const Context<M>&, Vec<real<M>>& w, auto& memory, auto&& fold_inner) const {
        auto to = w;
        fold_inner(to);
        memory.m.resize(w.size());
        const bool plain = server_momentum == 0 && server_rate == 1;  // w + (to - w) need not round to `to`
        for (std::size_t j = 0; j < w.size(); ++j) {
            const double d = static_cast<double>(to[j]) - static_cast<double>(w[j]);
            const double m = memory.m[j] = server_momentum * memory.m[j] + d;
            const double move = nesterov ? d + server_momentum * m : m;
            w[j] = plain ? to[j] : static_cast<real<M>>(static_cast<double>(w[j]) + server_rate * move);
        }
    }
    void validate() const {
        detail::require(server_rate > 0 && std::isfinite(server_rate),
                        "server_rate must be positive, not " + std::to_string(server_rate));
        detail::require(server_momentum >= 0 && server_momentum < 1,
                        "server_momentum must lie in [0, 1), not " + std::to_string(server_momentum));
    }
};

}  // namespace tessera::fold
