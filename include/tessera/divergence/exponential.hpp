// SPDX-License-Identifier: BSD-3-Clause
// Exponential: g*(x) = -ln x - 1 on (0, inf), D(x, y) = x/y - ln(x/y) - 1.
//
// Its slope grows like 1/x toward 0: near the end of the domain gradient steps are long, so keep means away from it
// or the rate small. Natural parameters are negative; a map that gives another sign ends in a diverged visit.
#pragma once

#include <cmath>
#include <limits>
#include <string_view>

#include <tessera/core/offers.hpp>
#include <tessera/divergence/general.hpp>

namespace tessera::divergence {

struct ExponentialEntropy {
    static constexpr Offers offers{};
    static constexpr std::string_view name = "Exponential";
    static constexpr double low = 0, high = std::numeric_limits<double>::infinity();

    template <class R>
    static R value(R x) {
        return -std::log(x) - 1;
    }
    template <class R>
    static R slope(R x) {
        return -1 / x;
    }
    template <class R>
    static R curvature(R x) {
        return 1 / (x * x);
    }
    template <class R>
    static R mean(R s) {
        return s < 0 ? -1 / s : std::numeric_limits<R>::infinity();
    }
};
using Exponential = General<ExponentialEntropy>;

}  // namespace tessera::divergence
