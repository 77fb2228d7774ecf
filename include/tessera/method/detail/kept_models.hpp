// SPDX-License-Identifier: BSD-3-Clause
// Methods whose server keeps every client's model: all of them, their mean, and a mean as one client sees it.
#pragma once

#include <cstddef>
#include <span>

#include <tessera/core/arena.hpp>
#include <tessera/core/view.hpp>

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
    bool admits(Id from, const OwnModel<R>& up) const { return up.from == from && up.w.size() == w.size(); }

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
};

}  // namespace tessera::detail
