// SPDX-License-Identifier: BSD-3-Clause
// Means, deviations and quantiles of clients' values.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>

namespace tessera::report {

inline constexpr double absent = std::numeric_limits<double>::quiet_NaN();

// Levels that a report of per-client results shows.
inline constexpr std::array<double, 9> quantile_levels{0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99};

struct Weighted {
    double value, weight;
};

// The smallest value such that it and all smaller ones carry at least the share q of the weight; no interpolation,
// so the answer is always some client's value. q = 0 gives the smallest. Values must not be NaN.
inline double quantile(std::vector<Weighted> all, double q) {
    tessera::detail::require(q >= 0 && q <= 1, "quantile: q must be in [0, 1]");
    std::sort(all.begin(), all.end(), [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
    double total = 0;
    for (const auto& each : all) total += each.weight;
    if (!(total > 0)) return absent;
    // 0.55 * 100 is a little more than 55 in binary; counting must not miss the 55th for that.
    const double goal = q * total * (1 - 1e-12);
    double reached = 0;
    for (const auto& each : all)
        if (each.weight > 0 && (reached += each.weight) >= goal) return each.value;
    return all.back().value;
}

struct Spread {
    double mean = absent, stddev = absent;  // stddev divides by N
};

// Relative to the first value, so that equal values have exactly that mean and exactly no spread.
inline Spread spread(In<double> values) {
    if (values.empty()) return {};
    const auto count = static_cast<double>(values.size());
    double sum = 0, squares = 0;
    for (const double value : values) sum += value - values[0];
    const double shift = sum / count;
    for (const double value : values) squares += (value - values[0] - shift) * (value - values[0] - shift);
    return {.mean = values[0] + shift, .stddev = std::sqrt(squares / count)};
}

// The same with weights: mean sum p x / sum p, deviation of that mean. Values must not be NaN.
inline Spread spread(const std::vector<Weighted>& all) {
    double weight = 0, sum = 0, squares = 0;
    for (const auto& each : all) weight += each.weight;
    if (!(weight > 0)) return {};
    for (const auto& each : all) sum += each.weight * (each.value - all[0].value);
    const double shift = sum / weight;
    for (const auto& each : all) squares += each.weight * std::pow(each.value - all[0].value - shift, 2);
    return {.mean = all[0].value + shift, .stddev = std::sqrt(squares / weight)};
}

}  // namespace tessera::report
