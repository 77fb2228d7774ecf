// SPDX-License-Identifier: BSD-3-Clause
// Gaussian priors: g*(x) = 1/2 x' S^-1 x, D(x, y) = 1/2 (x - y)' S^-1 (x - y), on all of R^d.
//
// Gaussian has S = I, the maximum-entropy choice of the paper. DiagonalGaussian has one variance per parameter:
// a small one holds its parameter near mu. FullGaussian has all of S, by its Cholesky factor: parameters that go
// together are held together.
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

struct FullGaussian {
    static constexpr auto offers = offer::validate;
    Vec<double> factor{};  // L of S = L L', its lower triangle row by row

    // From S, row by row.
    static FullGaussian of(const Vec<double>& covariance) {
        const auto d = static_cast<std::size_t>(std::llround(std::sqrt(static_cast<double>(covariance.size()))));
        detail::require(d * d == covariance.size(), "a covariance has as many rows as columns; " +
                                                        std::to_string(covariance.size()) + " is no square");
        FullGaussian all;
        all.factor.resize(row(d));
        for (std::size_t i = 0; i < d; ++i)
            for (std::size_t j = 0; j <= i; ++j) {
                const double s = covariance[i * d + j], t = covariance[j * d + i];
                detail::require(std::fabs(s - t) <= 1e-12 * (std::fabs(s) + std::fabs(t)),
                                "a covariance is symmetric; entries " + std::to_string(i) + ", " + std::to_string(j) +
                                    " differ");
                double rest = s;
                for (std::size_t k = 0; k < j; ++k) rest -= all.at(i, k) * all.at(j, k);
                detail::require(i != j || (rest > 0 && std::isfinite(rest)),
                                "a covariance is positive definite; this one is not, in row " + std::to_string(i));
                all.factor[row(i) + j] = i == j ? std::sqrt(rest) : rest / all.at(j, j);
            }
        return all;
    }

    template <class R>
    double value(In<R> x) const {
        const auto y = forward(x);  // |L^-1 x|^2 = x' S^-1 x
        double sum = 0;
        for (const double each : y) sum += each * each;
        return sum / 2;
    }
    template <class R>
    void gradient(In<R> x, Out<R> out) const {
        const auto y = backward(forward(x));
        for (std::size_t j = 0; j < out.size(); ++j) out[j] = static_cast<R>(y[j]);
    }
    template <class R>
    void envelope(Out<R> mu, In<R> theta) const {
        for (std::size_t j = 0; j < mu.size(); ++j) mu[j] -= theta[j];
        gradient<R>(In<R>(mu), mu);
    }
    template <class R>
    void mean(Out<R> s) const {
        const std::size_t d = s.size();
        Vec<double> y(d);
        for (std::size_t i = 0; i < d; ++i)
            for (std::size_t j = 0; j <= i; ++j) y[j] += at(i, j) * static_cast<double>(s[i]);
        for (std::size_t i = 0; i < d; ++i) {
            double sum = 0;
            for (std::size_t j = 0; j <= i; ++j) sum += at(i, j) * y[j];
            s[i] = static_cast<R>(sum);
        }
    }
    template <class R>
    void project(Out<R>) const {}
    template <class R>
    void admit(In<R> x) const {
        detail::require(factor.size() == row(x.size()),
                        "the factor of a covariance of " + std::to_string(x.size()) + " parameters has " +
                            std::to_string(row(x.size())) + " numbers, this one " + std::to_string(factor.size()));
    }
    void validate() const {
        for (std::size_t i = 0; row(i) < factor.size(); ++i)
            for (std::size_t j = 0; j <= i && row(i) + j < factor.size(); ++j)
                detail::require(std::isfinite(at(i, j)) && (j < i || at(i, i) > 0),
                                "a Cholesky factor is finite, and above 0 on its diagonal; row " + std::to_string(i) +
                                    " is not");
    }

private:
    static std::size_t row(std::size_t i) { return i * (i + 1) / 2; }
    double at(std::size_t i, std::size_t j) const { return factor[row(i) + j]; }
    template <class R>
    Vec<double> forward(In<R> x) const {  // L^-1 x
        Vec<double> y(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
            double rest = static_cast<double>(x[i]);
            for (std::size_t k = 0; k < i; ++k) rest -= at(i, k) * y[k];
            y[i] = rest / at(i, i);
        }
        return y;
    }
    Vec<double> backward(Vec<double> y) const {  // L'^-1 y
        for (std::size_t i = y.size(); i-- > 0;) {
            y[i] /= at(i, i);
            for (std::size_t k = 0; k < i; ++k) y[k] -= at(i, k) * y[i];
        }
        return y;
    }
};

}  // namespace tessera::divergence
