// SPDX-License-Identifier: BSD-3-Clause
// Stochastic gradient descent: no dampening, no Nesterov.
//
//   d = g + weight_decay*x (+ the method's terms);   m = momentum*m + d;   x -= rate*s(t)*m
//
// The optimizer is created anew at each walk, so momentum never crosses visits. Frozen coordinates do not
// move and gather no momentum.
#pragma once

#include <cmath>
#include <string>

#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/rule/schedule.hpp>
#include <tessera/rule/step.hpp>

namespace tessera::rule {

struct Sgd {
    static constexpr auto offers = offer::validate | offer::plain;
    double rate = 0.1;
    double momentum = 0;      // in [0, 1)
    double weight_decay = 0;
    double clip = 0;          // largest gradient norm; 0 does not clip
    Schedule schedule{};

    template <class R>
    struct Memory {
        Vec<R> velocity;
    };

    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
                Memory<real<M>>& memory) const {
        if (momentum != 0) memory.velocity.resize(x.size());
        auto s = plain(at, terms);
        s.velocity = &memory.velocity;
        return tessera::take_step(at, x, b, s);
    }
    template <class M>
    Step<real<M>> plain(const Context<M>& at, const Terms<real<M>>& terms) const {
        return {.terms = terms,
                .rate = rate * schedule.at(at),
                .decay = weight_decay,
                .clip = clip,
                .momentum = momentum};
    }

    void validate() const {
        detail::require(std::isfinite(rate) && rate >= 0, "rate must be 0 or more, not " + std::to_string(rate));
        detail::require(momentum >= 0 && momentum < 1, "momentum must lie in [0, 1), not " + std::to_string(momentum));
        detail::require_size(weight_decay, "weight_decay");
        detail::require(clip >= 0, "clip must be 0 (off) or a positive norm, not " + std::to_string(clip));
    }
};

}  // namespace tessera::rule
