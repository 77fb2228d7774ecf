// SPDX-License-Identifier: BSD-3-Clause
// Divergence: how far two parameter vectors are apart under a prior, by the convex function g* behind it.
//
//   double value(x) const            g*(x)
//   void gradient(x, out) const      out = grad g*(x)
//   void envelope(mu, theta) const   mu leaves as Hess g*(mu) (mu - theta)
//   void mean(s) const               s leaves as grad g(s), the inverse of grad g*
//   void project(x) const            x leaves as the nearest point that is safely inside the domain of g*
//   void admit(x) const              throws ConfigError if training cannot start at x
//
// One that offers `euclidean` says that g* is half the squared norm: the pull is then a term of the step, which fused
// kernels read, and no objective of its own.
#pragma once

#include <concepts>
#include <cstddef>

#include <tessera/core/arena.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/view.hpp>

namespace tessera {

template <class G, class R>
concept Divergence = std::copyable<G> && requires(const G geometry, In<R> x, Out<R> out) {
    { geometry.value(x) } -> std::convertible_to<double>;
    { geometry.gradient(x, out) } -> std::same_as<void>;
    { geometry.envelope(out, x) } -> std::same_as<void>;
    { geometry.mean(out) } -> std::same_as<void>;
    { geometry.project(out) } -> std::same_as<void>;
    { geometry.admit(x) } -> std::same_as<void>;
};

namespace detail {
struct DivergenceNames {
    int euclidean;
};
template <class G> concept names_euclidean = !requires { &Probed<G, DivergenceNames>::euclidean; };

template <class G>
consteval bool divergence_is_spelt() {
    static_assert(policy_is_spelt<G>());
    if constexpr (StatesOffers<G>)
        static_assert(!names_euclidean<G>, "tessera::Divergence: `euclidean` is no member: list it in `offers`");
    return true;
}
}  // namespace detail

// The same in one sentence, for whoever brings a geometry of their own.
template <class G, class R>
consteval bool check_divergence() {
    static_assert(detail::divergence_is_spelt<G>());
    constexpr bool fits = Divergence<G, R>;
    static_assert(fits,
                  "tessera::Divergence: a divergence needs `value`, `gradient`, `envelope`, `mean`, `project` and "
                  "`admit`; divergence::General makes all six from a convex function of one number");
    return true;
}

template <class G>
inline constexpr bool is_euclidean = detail::offers_of<G>().has(offer::euclidean);

// D(x, y) = g*(x) - g*(y) - <grad g*(y), x - y>, given grad g*(y).
template <class R, class G>
double bregman(const G& geometry, In<R> x, In<R> y, In<R> slope_at_y) {
    double along = 0;
    for (std::size_t j = 0; j < x.size(); ++j)
        along += static_cast<double>(slope_at_y[j]) * (static_cast<double>(x[j]) - static_cast<double>(y[j]));
    return geometry.value(x) - geometry.value(y) - along;
}
template <class R, class G>
double bregman(const G& geometry, const Vec<R>& x, const Vec<R>& y) {
    Vec<R> slope(y.size());
    geometry.gradient(In<R>(y), Out<R>(slope));
    return bregman<R>(geometry, In<R>(x), In<R>(y), In<R>(slope));
}

}  // namespace tessera
