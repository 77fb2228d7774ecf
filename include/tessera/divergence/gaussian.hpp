// SPDX-License-Identifier: BSD-3-Clause
// Gaussian priors: g*(x) = 1/2 x' S^-1 x, D(x, y) = 1/2 (x - y)' S^-1 (x - y), on all of R^d.
//
// Gaussian has S = I, the maximum-entropy choice of the paper. DiagonalGaussian has one variance per parameter:
// a small one holds its parameter near mu.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>

#include <tessera/contracts/divergence.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::divergence {

struct Gaussian {
    static constexpr auto offers = offer::euclidean;
    template <class R>
    double value(In<R> x) const {
        double sum = 0;
        kernels::dot(x.data(), x.data(), x.size(), &sum);
        return sum / 2;
    }
    template <class R>
    void gradient(In<R> x, Out<R> out) const {
        for (std::size_t j = 0; j < x.size(); ++j) out[j] = x[j];
    }
    template <class R>
    void envelope(Out<R> mu, In<R> theta) const {
        kernels::axpy(R(-1), theta.data(), mu.data(), mu.size());
    }
    template <class R>
    void mean(Out<R>) const {}
    template <class R>
    void project(Out<R>) const {}
    template <class R>
    void admit(In<R>) const {}
};

struct DiagonalGaussian {
    static constexpr auto offers = offer::validate;
    Vec<double> variance{};  // the diagonal of S

    template <class R>
    double value(In<R> x) const {
        double sum = 0;
        for (std::size_t j = 0; j < x.size(); ++j)
            sum += static_cast<double>(x[j]) * static_cast<double>(x[j]) / variance[j];
        return sum / 2;
    }
    template <class R>
    void gradient(In<R> x, Out<R> out) const {
        for (std::size_t j = 0; j < x.size(); ++j) out[j] = x[j] / static_cast<R>(variance[j]);
    }
    template <class R>
    void envelope(Out<R> mu, In<R> theta) const {
        for (std::size_t j = 0; j < mu.size(); ++j) mu[j] = (mu[j] - theta[j]) / static_cast<R>(variance[j]);
    }
    template <class R>
    void mean(Out<R> s) const {
        for (std::size_t j = 0; j < s.size(); ++j) s[j] *= static_cast<R>(variance[j]);
    }
    template <class R>
    void project(Out<R>) const {}
    template <class R>
    void admit(In<R> x) const {
        detail::require(variance.size() == x.size(), "variance has " + std::to_string(variance.size()) +
                                                         " entries, the model has " + std::to_string(x.size()) +
                                                         " parameters; give one variance per parameter");
    }
    void validate() const {
        for (const double v : variance)
            detail::require(std::isfinite(v) && v > 0, "every variance must be above 0, not " + std::to_string(v));
    }
};

}  // namespace tessera::divergence
