// SPDX-License-Identifier: BSD-3-Clause
// Gradients by differences, in double, to hold others against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace tessera::support {

// Five-point central differences of f at x. With h = 1e-4 the formula's own error is of order h^4 = 1e-16 and that of
// f's rounding about 2 u |f| / h, a few 1e-12: far below the 1e-6 that is asked of a gradient. f must be smooth
// within 2h of x, so no input of a ReLU may lie that near to zero.
template <class F>
std::vector<double> finite_differences(F&& f, std::vector<double> x, double h = 1e-4) {
    std::vector<double> slope(x.size());
    for (std::size_t j = 0; j < x.size(); ++j) {
        const double at = x[j];
        const auto value = [&](double step) {
            x[j] = at + step;
            return f(x);
        };
        slope[j] = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
        x[j] = at;
    }
    return slope;
}

// The largest |got - expected| / |expected|, where entries below a hundredth of the largest are measured against
// that hundredth; infinite for NaN or when sizes differ.
inline double relative_error(const std::vector<double>& got, const std::vector<double>& expected) {
    if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
    double largest = 0, worst = 0;
    for (const double v : expected) largest = std::max(largest, std::abs(v));
    for (std::size_t j = 0; j < got.size(); ++j) {
        if (got[j] == expected[j]) continue;
        const double error = std::abs(got[j] - expected[j]) / std::max(std::abs(expected[j]), largest / 100);
        if (!(error <= worst)) worst = error;
        if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    }
    return worst;
}

}  // namespace tessera::support
