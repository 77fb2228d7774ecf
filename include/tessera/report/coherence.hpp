// SPDX-License-Identifier: BSD-3-Clause
// Generalised coherence of directions (Gish and Cochran, ICASSP 1988): 1 - det of the Gram matrix of the vectors at
// unit length. 0 when they are orthogonal, 1 when they depend on each other; a zero vector depends on any.
//
// pFedBreD's directions are mu_i - theta_i of the clients. The determinant of a hundred of them is 0 for any practical
// purpose, so that many are compared by its n-th root. Cost: O(n^2 d + n^3).
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>

namespace tessera::report {

namespace detail {
// Logarithm of the determinant, from a Cholesky factor: near 0 and for many directions nothing is lost in products of
// numbers below 1.
template <class R>
double log_gram_determinant(std::span<const Vec<R>> directions) {
    constexpr double dependent = -std::numeric_limits<double>::infinity();
    const std::size_t n = directions.size();
    const auto inner = [](const Vec<R>& x, const Vec<R>& y) {
        tessera::detail::require(x.size() == y.size(), "coherence is of directions of one length");
        double sum = 0;
        for (std::size_t j = 0; j < x.size(); ++j) sum += static_cast<double>(x[j]) * static_cast<double>(y[j]);
        return sum;
    };
    std::vector<double> factor(n * n), length(n);
    for (std::size_t i = 0; i < n; ++i) {
        length[i] = std::sqrt(inner(directions[i], directions[i]));
        if (length[i] == 0) return dependent;
    }
    double log_determinant = 0;
    for (std::size_t i = 0; i < n; ++i) {
        double left = 1;  // of the squared length once what lies along the directions before is taken off
        for (std::size_t k = 0; k < i; ++k) {
            double along = inner(directions[i], directions[k]) / (length[i] * length[k]);
            for (std::size_t m = 0; m < k; ++m) along -= factor[i * n + m] * factor[k * n + m];
            factor[i * n + k] = along /= factor[k * n + k];
            left -= along * along;
        }
        const double rounding = 4 * static_cast<double>(n) * std::numeric_limits<double>::epsilon();
        if (!(left > rounding)) return dependent;
        factor[i * n + i] = std::sqrt(left);
        log_determinant += std::log(left);
    }
    return log_determinant;
}
}  // namespace detail

template <class R>
double coherence(std::span<const Vec<R>> directions) {
    return -std::expm1(detail::log_gram_determinant(directions));
}
// 1 - det^(1/n).
template <class R>
double coherence_per_direction(std::span<const Vec<R>> directions) {
    if (directions.empty()) return 0;
    return -std::expm1(detail::log_gram_determinant(directions) / static_cast<double>(directions.size()));
}

}  // namespace tessera::report
