// SPDX-License-Identifier: BSD-3-Clause
// Methods whose server keeps every client's model: all of them, their mean, and a mean as one client sees it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>

#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::detail {

template <class R>
struct OwnModel {
    Vec<R> w;
    Id from = 0;
};

template <class R>
struct KeptModels {
    Vec<R> w;         // the mean over all clients, also those that never came
    Vec<Vec<R>> all;

    void take(std::span<const OwnModel<R>> uploads) {
        for (const auto& up : uploads) all[up.from] = up.w;
        for (std::size_t j = 0; j < w.size(); ++j) {
            double sum = 0;
            for (const auto& own : all) sum += static_cast<double>(own[j]);
            w[j] = static_cast<R>(sum / static_cast<double>(all.size()));
        }
    }
    bool admits(const OwnModel<R>& up) const { return up.from < all.size() && up.w.size() == w.size(); }

    // sum_j xi_j w_j as client i sees it: xi_i is what the others leave of 1.
    Vec<R> mixed(std::size_t i, const Vec<double>& xi) const {
        Vec<double> sum(w.size());
        double others = 0;
        for (std::size_t k = 0; k < all.size(); ++k) {
            if (k == i) continue;
            others += xi[k];
            for (std::size_t j = 0; j < w.size(); ++j) sum[j] += xi[k] * static_cast<double>(all[k][j]);
        }
        Vec<R> u(w.size());
        for (std::size_t j = 0; j < w.size(); ++j)
            u[j] = static_cast<R>((1 - others) * static_cast<double>(all[i][j]) + sum[j]);
        return u;
    }
    // alpha/sigma exp(-|w_i - w_k|^2 / sigma), by k.
    Vec<double> by_distance(std::size_t i, double alpha, double sigma) const {
        Vec<double> xi(all.size());
        for (std::size_t k = 0; k < all.size(); ++k) {
            double apart = 0;
            kernels::squared_distance(all[i].data(), 1.0, all[k].data(), w.size(), &apart);
            xi[k] = alpha / sigma * std::exp(-apart / sigma);
        }
        return xi;
    }
    // In proportion to exp(sigma cos(w_i, w_k)), by k; they add up to `others`. A model of zeros is at right angles
    // to all.
    Vec<double> by_angle(std::size_t i, double others, double sigma) const {
        Vec<double> xi(all.size());
        if (all.size() < 2) return xi;
        double closest = -1, sum = 0;
        for (std::size_t k = 0; k < all.size(); ++k)
            if (k != i) closest = std::max(closest, xi[k] = cosine(all[i], all[k]));
        for (std::size_t k = 0; k < all.size(); ++k)
            if (k != i) sum += xi[k] = std::exp(sigma * (xi[k] - closest));  // the closest has 1, however large sigma is
        for (double& x : xi) x *= others / sum;
        return xi;
    }

private:
    double cosine(const Vec<R>& a, const Vec<R>& b) const {
        double inner = 0, left = 0, right = 0;
        kernels::dot(a.data(), b.data(), w.size(), &inner);
        kernels::squared_norm(a.data(), w.size(), &left);
        kernels::squared_norm(b.data(), w.size(), &right);
        const double lengths = std::sqrt(left) * std::sqrt(right);
        return lengths > 0 ? inner / lengths : 0;
    }
};

// Equal models are the closest: they leave a client 1 - (N - 1) alpha / sigma of its own.
inline void require_own_share(double alpha, double sigma, std::size_t clients) {
    if (!(static_cast<double>(clients) * alpha <= sigma + alpha * (1 + 1e-12)))
        throw ConfigError("alpha_k must be at most sigma / (clients - 1), " +
                          std::to_string(sigma / static_cast<double>(clients - 1)) + " here, not " +
                          std::to_string(alpha) + ": the own weight of a client among alike ones would be negative");
}

}  // namespace tessera::detail
