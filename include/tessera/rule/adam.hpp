// SPDX-License-Identifier: BSD-3-Clause
// Adam (Kingma and Ba, ICLR 2015), bias corrected, k counted from 1:
//
//   d = g (+ the method's terms);   m = b1 m + (1 - b1) d;   v = b2 v + (1 - b2) d^2
//   x -= rate s(t) (m / (1 - b1^k)) / (sqrt(v / (1 - b2^k)) + eps)
//
// The optimizer is created anew at each walk, so moments never cross visits. Frozen coordinates do not move and
// gather no moments. Running statistics (Part::buffer) take x -= g.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tessera/contracts/rule.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/moments.hpp>
#include <tessera/rule/schedule.hpp>

namespace tessera::rule {

struct Adam {
    static constexpr auto offers = offer::validate;
    double rate = 1e-3;
    double b1 = 0.9, b2 = 0.999;  // in [0, 1)
    double eps = 1e-8;
    Schedule schedule{};

    template <class R>
    struct Memory {
        Vec<R> m, v;
        std::uint64_t steps = 0;
    };

    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
                Memory<real<M>>& memory) const {
        using R = real<M>;
        auto& g = at.workspace->gradient;
        g.resize(x.size());
        memory.m.resize(x.size());
        memory.v.resize(x.size());
        const double loss = at.gradient(x, b, g);
        const auto k = static_cast<double>(++memory.steps);
        const auto numbers = kernels::unbiased<R>(rate * schedule.at(at), b1, b2, eps, k);
        const auto run = [&](std::size_t j, std::size_t n) {
            kernels::adam(x.data() + j, g.data() + j, terms.prox_weight != 0 ? terms.prox_center.data() + j : nullptr,
                          R(terms.prox_weight), terms.linear.empty() ? nullptr : terms.linear.data() + j,
                          memory.m.data() + j, memory.v.data() + j, n, &numbers);
        };
        each_piece(terms.on, at.model->layout(), x.size(), [&](Range r, bool of_buffers) {
            if (of_buffers) {
                for (std::size_t j = r.begin; j < r.end; ++j) x[j] -= g[j];
                return;
            }
            if (!terms.active) return run(r.begin, r.size());
            for (std::size_t j = r.begin; j < r.end; ++j) {
                const std::size_t first = j;
                while (j < r.end && (*terms.active)[j]) ++j;
                if (j > first) run(first, j - first);
            }
        });
        return loss;
    }

    void validate() const {
        detail::require(std::isfinite(rate) && rate >= 0, "rate must be 0 or more, not " + std::to_string(rate));
        detail::require(b1 >= 0 && b1 < 1, "b1 must lie in [0, 1), not " + std::to_string(b1));
        detail::require(b2 >= 0 && b2 < 1, "b2 must lie in [0, 1), not " + std::to_string(b2));
        detail::require_positive(eps, "eps");
    }
};

}  // namespace tessera::rule
