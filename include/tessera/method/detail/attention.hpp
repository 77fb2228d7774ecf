// SPDX-License-Identifier: BSD-3-Clause
// How much a client listens to the others (FedAMP): weights that fade with the distance of models, or with their angle.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera {

enum class Likeness : std::uint8_t { distance, angle };
constexpr std::array<std::string_view, 2> words_of(Likeness) { return {"distance", "angle"}; }

namespace detail {

// alpha/sigma exp(-|w_i - w_k|^2 / sigma), by k.
template <class R>
Vec<double> by_distance(const Vec<Vec<R>>& models, std::size_t i, double alpha, double sigma) {
    Vec<double> xi(models.size());
    for (std::size_t k = 0; k < models.size(); ++k) {
        double apart = 0;
        kernels::squared_distance(models[i].data(), 1.0, models[k].data(), models[i].size(), &apart);
        xi[k] = alpha / sigma * std::exp(-apart / sigma);
    }
    return xi;
}

// A model of zeros is at right angles to all.
template <class R>
double cosine(const Vec<R>& a, const Vec<R>& b) {
    double inner = 0, left = 0, right = 0;
    kernels::dot(a.data(), b.data(), a.size(), &inner);
    kernels::squared_norm(a.data(), a.size(), &left);
    kernels::squared_norm(b.data(), b.size(), &right);
    const double lengths = std::sqrt(left) * std::sqrt(right);
    return lengths > 0 ? inner / lengths : 0;
}
// In proportion to exp(sigma cos(w_i, w_k)), by k; they add up to `others`.
template <class R>
Vec<double> by_angle(const Vec<Vec<R>>& models, std::size_t i, double others, double sigma) {
    Vec<double> xi(models.size());
    if (models.size() < 2) return xi;
    double closest = -1, sum = 0;
    for (std::size_t k = 0; k < models.size(); ++k)
        if (k != i) closest = std::max(closest, xi[k] = cosine(models[i], models[k]));
    for (std::size_t k = 0; k < models.size(); ++k)
        if (k != i) sum += xi[k] = std::exp(sigma * (xi[k] - closest));  // the closest has 1, however large sigma is
    for (double& x : xi) x *= others / sum;
    return xi;
}

// Equal models are the closest: they leave a client 1 - (N - 1) alpha / sigma of its own.
inline void require_own_share(double alpha, double sigma, std::size_t clients) {
    if (!(static_cast<double>(clients) * alpha <= sigma + alpha * (1 + 1e-12)))
        throw ConfigError("alpha_k must be at most sigma / (clients - 1), " +
                          std::to_string(sigma / static_cast<double>(clients - 1)) + " here, not " +
                          std::to_string(alpha) + ": the own weight of a client among alike ones would be negative");
}

inline void require_share(double own_share) {
    require(own_share >= 0 && own_share <= 1,
            "own_share must be in (0, 1], or 0 for 1 / clients, not " + std::to_string(own_share));
}
// A setting, or where it is 0 the nth part of what all have.
inline double given_or_nth(double given, double of_all, std::size_t n) {
    return given > 0 ? given : of_all / static_cast<double>(n);
}

}  // namespace detail
}  // namespace tessera
