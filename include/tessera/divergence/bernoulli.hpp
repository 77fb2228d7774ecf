// SPDX-License-Identifier: BSD-3-Clause
// Bernoulli: g*(x) = x ln x + (1 - x) ln(1 - x) on (0, 1), D(x, y) = x ln(x/y) + (1 - x) ln((1 - x)/(1 - y)).
//
// The paper prints ln(1 + e^{(1 - 2x) y}) with y in natural coordinates. That is D at x = 0 and x = 1 only.
#pragma once

#include <cmath>
#include <string_view>

#include <tessera/core/offers.hpp>
#include <tessera/divergence/general.hpp>

namespace tessera::divergence {

struct BernoulliEntropy {
    static constexpr Offers offers{};
    static constexpr std::string_view name = "Bernoulli";
    static constexpr double low = 0, high = 1;

    template <class R>
    static R value(R x) {
        return x * std::log(x) + (1 - x) * std::log1p(-x);
    }
    template <class R>
    static R slope(R x) {
        return std::log(x) - std::log1p(-x);
    }
    template <class R>
    static R curvature(R x) {
        return 1 / (x * (1 - x));
    }
    template <class R>
    static R mean(R s) {
        return 1 / (1 + std::exp(-s));
    }
};
using Bernoulli = General<BernoulliEntropy>;

}  // namespace tessera::divergence
