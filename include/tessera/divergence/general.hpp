// SPDX-License-Identifier: BSD-3-Clause
// A divergence from any convex function of one number: g*(x) = sum_j phi(x_j) on the open interval (low, high).
//
// phi is a struct with `name`, `low`, `high` and, for float and double, `value`, `slope` (phi'), `curvature` (phi'')
// and `mean`, the inverse of `slope`. See poisson.hpp for one.
//
// Gradient steps know nothing of an interval, so after each step every parameter is put back to the nearest point at
// least `margin` away from a finite end. Inside that, iterates are those of the plain method.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include <tessera/contracts/divergence.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::divergence {

template <class Phi>
struct General {
    static constexpr auto offers = offer::validate;
    Phi phi{};
    double margin = 1e-6;

    template <class R>
    double value(In<R> x) const {
        double sum = 0;
        for (const R v : x) sum += phi.value(static_cast<double>(v));
        return sum;
    }
    template <class R>
    void gradient(In<R> x, Out<R> out) const {
        for (std::size_t j = 0; j < x.size(); ++j) out[j] = phi.slope(x[j]);
    }
    template <class R>
    void envelope(Out<R> mu, In<R> theta) const {
        for (std::size_t j = 0; j < mu.size(); ++j) mu[j] = phi.curvature(mu[j]) * (mu[j] - theta[j]);
    }
    template <class R>
    void mean(Out<R> s) const {
        for (R& v : s) v = phi.mean(v);
    }
    template <class R>
    void project(Out<R> x) const {
        if constexpr (unbounded) return;
        const R least = end<R>(phi.low, margin), most = end<R>(phi.high, -margin);
        for (R& v : x) v = v < least ? least : v > most ? most : v;  // a number that is not one stays, and is noticed
    }
    template <class R>
    void admit(In<R> x) const {
        for (std::size_t j = 0; j < x.size(); ++j) {
            const double v = static_cast<double>(x[j]);
            if (v > phi.low && v < phi.high) continue;
            throw ConfigError("parameter " + std::to_string(j) + " starts at " + std::to_string(v) + ", but a " +
                              std::string(phi.name) + " prior lives on (" + std::to_string(phi.low) + ", " +
                              std::to_string(phi.high) +
                              "); give the federation a warm start inside, or take divergence::Gaussian");
        }
    }
    void validate() const {
        detail::require(margin > 0 && 2 * margin < phi.high - phi.low,
                        "margin must be above 0 and below half the interval, not " + std::to_string(margin));
    }

private:
    static constexpr bool unbounded =
        Phi::low == -std::numeric_limits<double>::infinity() && Phi::high == std::numeric_limits<double>::infinity();
    // An end of the interval moved inward, and by at least one number if R cannot tell the two apart.
    template <class R>
    static R end(double at, double inward) {
        if (std::isinf(at)) return static_cast<R>(at);
        const R moved = static_cast<R>(at + inward), edge = static_cast<R>(at);
        return moved != edge ? moved
                             : std::nextafter(
                                   edge, inward > 0 ? std::numeric_limits<R>::max() : std::numeric_limits<R>::lowest());
    }
};

}  // namespace tessera::divergence
