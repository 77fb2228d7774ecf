// SPDX-License-Identifier: BSD-3-Clause
// Poisson: g*(x) = x ln x - x on (0, inf), D(x, y) = x ln(x/y) - x + y.
//
// The paper prints D with y in natural coordinates, e^y + x ln x - x (y + 1); with the mean e^y this is the same.
#pragma once

#include <cmath>
#include <limits>
#include <string_view>

#include <tessera/core/offers.hpp>
#include <tessera/divergence/general.hpp>

namespace tessera::divergence {

struct PoissonEntropy {
    static constexpr Offers offers{};
    static constexpr std::string_view name = "Poisson";
    static constexpr double low = 0, high = std::numeric_limits<double>::infinity();

    template <class R>
    static R value(R x) {
        return x * std::log(x) - x;
    }
    template <class R>
    static R slope(R x) {
        return std::log(x);
    }
    template <class R>
    static R curvature(R x) {
        return 1 / x;
    }
    template <class R>
    static R mean(R s) {
        return std::exp(s);
    }
};
using Poisson = General<PoissonEntropy>;

}  // namespace tessera::divergence
