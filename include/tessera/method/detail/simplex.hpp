// SPDX-License-Identifier: BSD-3-Clause
// The least a'Qa over the simplex: a >= 0, weights that add up to 1. Q is symmetric and positive semi-definite.
//
// On a support S, without a >= 0, the least is x = Q_SS^-1 1 over its sum. Where x has a weight below 0, a goes toward
// x until a weight is 0, which leaves the support. Where it has none, a = x, and the weight whose slope (Qa)_j is most
// below a'Qa enters; if none is, a is optimal: (Qa)_j = a'Qa on S, and more elsewhere. Every weight that enters lowers
// a'Qa, else it ends there. So no support comes twice, and it ends after finitely many steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include <tessera/core/arena.hpp>

namespace tessera::detail {

class SimplexQuadratic {
public:
    SimplexQuadratic(Vec<double> q, std::size_t n) : q_(std::move(q)), n_(n) {
        double largest = 0;
        for (std::size_t j = 0; j < n; ++j) largest = std::max(largest, at(j, j));
        // What rounding can take from an eigenvalue. With it on the diagonal a singular Q has one least a, which leaves
        // nobody out without a reason, and pivots stay positive.
        doubt_ = static_cast<double>(n) * std::numeric_limits<double>::epsilon() * largest;
        for (std::size_t j = 0; j < n; ++j) q_[j * n + j] += doubt_;
    }

    Vec<double> minimise() const {
        Vec<double> a(n_, 1 / static_cast<double>(n_)), best = a;
        if (!(doubt_ > 0)) return a;  // Q = 0: all weights are as good
        Vec<std::size_t> support(n_);
        std::iota(support.begin(), support.end(), std::size_t{0});
        for (double least = std::numeric_limits<double>::infinity();;) {
            settle(a, support);
            const auto slope = slopes(a);
            const double value = std::inner_product(a.begin(), a.end(), slope.begin(), 0.0);
            if (!(value < least)) return best;
            least = value;
            best = a;
            std::size_t enters = n_;
            double lowest = value - doubt_;
            for (std::size_t j = 0; j < n_; ++j)
                if (slope[j] < lowest && !std::binary_search(support.begin(), support.end(), j))
                    lowest = slope[j], enters = j;
            if (enters == n_) return best;
            support.insert(std::upper_bound(support.begin(), support.end(), enters), enters);
        }
    }

private:
    double at(std::size_t j, std::size_t l) const { return q_[j * n_ + l]; }
    Vec<double> slopes(const Vec<double>& a) const {
        Vec<double> slope(n_);
        for (std::size_t j = 0; j < n_; ++j)
            for (std::size_t l = 0; l < n_; ++l) slope[j] += at(j, l) * a[l];
        return slope;
    }
    // The least on the support, which loses what would be negative.
    void settle(Vec<double>& a, Vec<std::size_t>& support) const {
        for (;;) {
            const auto x = unsigned_least(support);
            double step = 1;
            std::size_t first = support.size();  // to reach 0
            for (std::size_t s = 0; s < support.size(); ++s) {
                const double from = a[support[s]];
                if (x[s] >= 0 || from / (from - x[s]) >= step) continue;
                step = from / (from - x[s]);
                first = s;
            }
            for (std::size_t s = 0; s < support.size(); ++s) {
                double& each = a[support[s]];
                each = first == support.size() ? x[s] : std::max(0.0, each + step * (x[s] - each));
            }
            if (first == support.size()) return;
            a[support[first]] = 0;
            support.erase(support.begin() + static_cast<std::ptrdiff_t>(first));
        }
    }
    // Q_SS^-1 1 over its sum, by Cholesky's factors.
    Vec<double> unsigned_least(const Vec<std::size_t>& support) const {
        const std::size_t m = support.size();
        Vec<double> lower(m * m), x(m, 1.0);
        for (std::size_t j = 0; j < m; ++j) {
            for (std::size_t l = 0; l <= j; ++l) {
                double sum = at(support[j], support[l]);
                for (std::size_t k = 0; k < l; ++k) sum -= lower[j * m + k] * lower[l * m + k];
                lower[j * m + l] = l < j ? sum / lower[l * m + l] : std::sqrt(std::max(sum, doubt_));
            }
            for (std::size_t k = 0; k < j; ++k) x[j] -= lower[j * m + k] * x[k];
            x[j] /= lower[j * m + j];
        }
        for (std::size_t j = m; j-- > 0;) {
            for (std::size_t k = j + 1; k < m; ++k) x[j] -= lower[k * m + j] * x[k];
            x[j] /= lower[j * m + j];
        }
        const double sum = std::accumulate(x.begin(), x.end(), 0.0);
        for (double& each : x) each /= sum;
        return x;
    }

    Vec<double> q_;
    std::size_t n_;
    double doubt_ = 0;
};

// Without the weights below `least`, and the others again a whole; as they are where all are below.
inline Vec<double> without_small(Vec<double> a, double least) {
    if (*std::max_element(a.begin(), a.end()) < least) return a;
    double sum = 0;
    for (double& each : a) sum += each = each < least ? 0 : each;
    for (double& each : a) each /= sum;
    return a;
}

}  // namespace tessera::detail
