// SPDX-License-Identifier: BSD-3-Clause
// SAM (Foret et al., ICLR 2021): any rule, along the slope where the loss is worst nearby.
//
//   e = radius g(x) / |g(x)|;   the rule's step at x with g(x + e) in place of g(x)
//
// e moves what the step may move and no running statistic, which take what the first gradient says of them. What reads
// no data (weight decay, the method's pull) stays at x, as in the authors' program. radius = 0 is the rule, bit for
// bit. A loss that the step returns is the one at x. Cost: two gradients, and a vector.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>

#include <tessera/contracts/private.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/rule/sgd.hpp>
#include <tessera/rule/step.hpp>

namespace tessera::rule {

namespace detail {

// The objective whose gradient at x is f's at x + e.
template <class M>
struct Sharp {
    using Real = real<M>;
    const M* model;
    const Terms<Real>* terms;
    double radius;

    Layout layout() const { return model->layout(); }
    std::size_t outputs() const { return model->outputs(); }
    void predict(In<Real> x, const Batch<Real>& b, Out<Real> out) const { model->predict(x, b, out); }
    double gradient(In<Real> x, const Batch<Real>& b, Out<Real> out) const {
        const double loss = model->gradient(x, b, out);
        const double norm = std::sqrt(tessera::detail::squared_norm<Real>(out, *terms, layout()));
        if (!(norm > 0) || !std::isfinite(norm)) return loss;
        Vec<Real> worst(x.begin(), x.end()), statistics;
        const auto climb = [&](Range r) {
            kernels::axpy(static_cast<Real>(radius / norm), out.data() + r.begin, worst.data() + r.begin, r.size());
        };
        each_piece(terms->on, layout(), x.size(), [&](Range r, bool of_buffers) {
            if (of_buffers) statistics.insert(statistics.end(), out.data() + r.begin, out.data() + r.end);
            else if (terms->active) tessera::detail::each_run(*terms->active, r, climb);
            else climb(r);
        });
        model->gradient(worst, b, out);
        std::size_t next = 0;
        each_piece(terms->on, layout(), x.size(), [&](Range r, bool of_buffers) {
            for (std::size_t j = r.begin; of_buffers && j < r.end; ++j) out[j] = statistics[next++];
        });
        return loss;
    }
};

}  // namespace detail

template <class Base = Sgd>
struct Sam {
    static_assert(!tessera::detail::offers_of<Base>().has(offer::adds_noise),
                  "tessera::rule::Sam: a step up the slope reads the data without noise, so this rule would be private "
                  "no longer");
    static constexpr auto offers = offer::validate;
    Base base{};
    double radius = 0.05;

    template <class R>
    using Memory = memory_t<Base, R>;

    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
                Memory<real<M>>& memory) const {
        if (radius == 0) return base.step(at, x, b, terms, memory);
        const detail::Sharp<M> sharp{at.model, &terms, radius};
        return base.step(at.with(sharp), x, b, terms, memory);
    }

    void validate() const { tessera::detail::require_size(radius, "radius"); }
};

}  // namespace tessera::rule
