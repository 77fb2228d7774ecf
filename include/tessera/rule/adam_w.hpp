// SPDX-License-Identifier: BSD-3-Clause
// AdamW (Loshchilov and Hutter, ICLR 2019): Adam, and weights that decay by themselves instead of through its moments:
//
//   x' = x - rate s(t) (m / (1 - b1^k)) / (sqrt(v / (1 - b2^k)) + eps) - rate s(t) weight_decay x
//
// m and v are of d = g (+ the method's terms) alone. weight_decay = 0 is Adam, bit for bit. Running statistics do not
// decay.
#pragma once

#include <cstddef>

#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/rule/adam.hpp>
#include <tessera/rule/schedule.hpp>
#include <tessera/rule/step.hpp>

namespace tessera::rule {

struct AdamW {
    static constexpr auto offers = offer::validate;
    double rate = 1e-3;
    double b1 = 0.9, b2 = 0.999;  // in [0, 1)
    double eps = 1e-8;
    double weight_decay = 0.01;
    Schedule schedule{};

    template <class R>
    struct Memory {
        Adam::Memory<R> moments;
        Vec<R> before;
    };

    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
                Memory<real<M>>& memory) const {
        using R = real<M>;
        if (weight_decay != 0) memory.before = x;
        const double loss = adam().step(at, x, b, terms, memory.moments);
        if (weight_decay == 0) return loss;
        const R decay = static_cast<R>(-rate * schedule.at(at) * weight_decay);
        const auto run = [&](Range r) {
            kernels::axpy(decay, memory.before.data() + r.begin, x.data() + r.begin, r.size());
        };
        each_piece(terms.on, at.model->layout(), x.size(), [&](Range r, bool of_buffers) {
            if (of_buffers) return;
            if (terms.active) tessera::detail::each_run(*terms.active, r, run);
            else run(r);
        });
        return loss;
    }

    void validate() const {
        adam().validate();
        tessera::detail::require_size(weight_decay, "weight_decay");
    }

private:
    Adam adam() const { return {rate, b1, b2, eps, schedule}; }
};

}  // namespace tessera::rule
