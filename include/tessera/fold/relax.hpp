// SPDX-License-Identifier: BSD-3-Clause
// Beta mixing: w = (1 - beta) w + beta fold(w). beta = 1 is the inner fold, beta = 2 extrapolates ("AM").
#pragma once

#include <cmath>
#include <string>

#include <tessera/contracts/fold.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/fold/mean.hpp>

namespace tessera::fold {

template <class Inner = Mean>
struct Relax {
    static constexpr auto offers = offer::validate;
    double beta = 1;
    Inner inner{};

    template <class R>
    struct Memory {
        memory_t<Inner, R> inner;
    };

    template <class M>
    void around(const Context<M>&, Vec<real<M>>& w, auto&, auto&& fold_inner) const {
        using R = real<M>;
        auto to = w;
        fold_inner(to);
        if (beta == 1) {
            w = std::move(to);
            return;
        }
        for (std::size_t j = 0; j < w.size(); ++j)
            w[j] = static_cast<R>((1 - beta) * static_cast<double>(w[j]) + beta * static_cast<double>(to[j]));
    }
    void validate() const {
        detail::require(std::isfinite(beta), "beta must be a number, not " + std::to_string(beta));
    }
};

}  // namespace tessera::fold
