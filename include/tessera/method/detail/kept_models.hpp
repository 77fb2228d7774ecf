// SPDX-License-Identifier: BSD-3-Clause
// Methods whose server keeps every client's model: all of them, their mean, and a mean as one client sees it.
#pragma once

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

    // sum_j xi_ij w_j, xi_ij = alpha/sigma exp(-|w_i - w_j|^2 / sigma) for j != i, and xi_ii = 1 - these.
    Vec<R> attended(std::size_t i, double alpha, double sigma) const {
        Vec<double> sum(w.size());
        double others = 0;
        for (std::size_t k = 0; k < all.size(); ++k) {
            if (k == i) continue;
            double apart = 0;
            kernels::squared_distance(all[i].data(), 1.0, all[k].data(), w.size(), &apart);
            const double xi = alpha / sigma * std::exp(-apart / sigma);
            others += xi;
            for (std::size_t j = 0; j < w.size(); ++j) sum[j] += xi * static_cast<double>(all[k][j]);
        }
        Vec<R> u(w.size());
        for (std::size_t j = 0; j < w.size(); ++j)
            u[j] = static_cast<R>((1 - others) * static_cast<double>(all[i][j]) + sum[j]);
        return u;
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
