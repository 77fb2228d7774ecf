// SPDX-License-Identifier: BSD-3-Clause
// FedSim's order (Pillutla et al., ICML 2022, LocalSim): both blocks at every batch.
//
//   g = grad f(u, v; b);   v <- v - gamma_v (g_v + penalty);   u <- u - gamma_u g_u
//
// Both partial gradients are taken at the same point. Cost: tau gradients. Equal rules without a penalty make one
// step of the whole vector, fused where the model fuses, and clip it as one group; else each rule moves and clips its
// block. A rule that looks at the gradient elsewhere too (rule::Sam) has it taken there, with the other block standing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <tessera/core/offers.hpp>
#include <tessera/core/reflect.hpp>
#include <tessera/order/detail/phase.hpp>
#include <tessera/order/penalty.hpp>

namespace tessera::order {

namespace detail {

// Whether two policies have the same settings; two that cannot be looked into do not.
template <class A, class B>
constexpr bool alike(const A& a, const B& b) {
    if constexpr (!std::is_same_v<A, B>) return false;
    else if constexpr (requires { bool(a == b); }) return a == b;
    else if constexpr (Reflectable<A>)
        return with_fields(a, [&](const auto&... x) {
            return with_fields(b, [&](const auto&... y) { return (alike(x, y) && ...); });
        });
    else return false;
}

// The objective whose gradient at `there` has been taken already.
template <class M>
struct Taken {
    using Real = real<M>;
    const M* model;
    In<Real> there, g;
    double loss;

    Layout layout() const { return model->layout(); }
    std::size_t outputs() const { return model->outputs(); }
    double gradient(In<Real> x, const Batch<Real>& b, Out<Real> out) const {
        if (!std::equal(x.begin(), x.end(), there.begin(), there.end())) return model->gradient(x, b, out);
        std::copy(g.begin(), g.end(), out.begin());
        return loss;
    }
    void predict(In<Real> x, const Batch<Real>& b, Out<Real> out) const { model->predict(x, b, out); }
};

}  // namespace detail

template <class V, class U = V>
struct Together {
    static constexpr Offers offers{};
    V v{};  // gamma_v
    U u{};  // gamma_u
    std::size_t epochs = 1;
    std::size_t cap = 0;  // most steps of a visit; 0: no cap
    Penalty penalty{};

    template <class M>
    void operator()(const Context<M>& at, Vec<real<M>>& w, const Coordinates& own, const Coordinates& common) const {
        Vec<real<M>> zeros;
        const detail::Budget budget{epochs, cap, common.empty() ? Pass::own : Pass::shared};
        const auto held_back = penalty.terms(at, own, zeros);
        if (common.empty()) return detail::phase(at, w, budget, v, held_back);
        if (own.empty()) return detail::phase(at, w, budget, u, {.on = common});
        const bool whole = own.size(w.size()) + common.size(w.size()) == w.size();
        if (whole && penalty.strength == 0 && detail::alike(v, u)) return detail::phase(at, w, budget, u, {});
        in_blocks(at, w, budget, held_back, {.on = common});
    }

private:
    template <class M>
    void in_blocks(const Context<M>& at, Vec<real<M>>& w, const detail::Budget& budget, const Terms<real<M>>& of_v,
                   const Terms<real<M>>& of_u) const {
        Vec<real<M>> there, moved, g(w.size());
        detail::Taken<M> taken{at.model, {}, g, 0};
        const auto here = at.with(taken);
        memory_t<V, real<M>> memory_v{};
        memory_t<U, real<M>> memory_u{};
        auto& tally = at.workspace->tally;
        detail::for_each_batch(at, budget, [&](const auto& b) {
            taken.loss = at.gradient(w, b, g);
            taken.there = there = moved = w;
            v.step(here, w, b, of_v, memory_v);
            u.step(here, moved, b, of_u, memory_u);
            of_u.on.each(w.size(), [&](Range r) {
                std::copy(moved.begin() + static_cast<std::ptrdiff_t>(r.begin),
                          moved.begin() + static_cast<std::ptrdiff_t>(r.end),
                          w.begin() + static_cast<std::ptrdiff_t>(r.begin));
            });
            tally.loss += taken.loss;
            tally.steps += 1;
            tally.examples += b.size();
        });
    }
};

}  // namespace tessera::order
