// SPDX-License-Identifier: BSD-3-Clause
// Statistics of a sample against what it should have been drawn from. Streams are fixed, so a test either always
// passes or always fails; thresholds are the distribution's quantile at 1 in 1000 unless they say otherwise.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tessera::support {

// sum (observed - expected)^2 / expected, all cells expected alike.
inline double chi_square(const std::vector<std::size_t>& observed) {
    double total = 0;
    for (const auto n : observed) total += static_cast<double>(n);
    const double expected = total / static_cast<double>(observed.size());
    double sum = 0;
    for (const auto n : observed) sum += std::pow(static_cast<double>(n) - expected, 2) / expected;
    return sum;
}

// The largest distance between the sample's distribution function and `cdf` (Kolmogorov and Smirnov).
template <class Cdf>
double ks_distance(std::vector<double> sample, Cdf&& cdf) {
    std::sort(sample.begin(), sample.end());
    const auto n = static_cast<double>(sample.size());
    double most = 0;
    for (std::size_t i = 0; i < sample.size(); ++i) {
        const double p = cdf(sample[i]);
        most = std::max({most, p - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - p});
    }
    return most;
}
// Its quantile at 1 in 1000, for n above 100.
inline double ks_threshold(std::size_t n) { return 1.95 / std::sqrt(static_cast<double>(n)); }

// mean of (x - center)^power
inline double moment(const std::vector<double>& sample, int power, double center = 0) {
    double sum = 0;
    for (const double x : sample) sum += std::pow(x - center, power);
    return sum / static_cast<double>(sample.size());
}

}  // namespace tessera::support
