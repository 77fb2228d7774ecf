// SPDX-License-Identifier: BSD-3-Clause
// A model whose parameters are drawn: theta = m + s e, s = log(1 + exp(rho)), e ~ N(0, I), and what its two vectors
// x = (m, rho) descend (pFedBayes, Zhang et al., ICML 2022, Eq. 18; gradients by reparametrisation):
//
//   Variational   mean over draws of f(theta; b) + strength KL(N(m, s^2) || N(m_0, s_0^2))
//   Nearest       KL(N(m_0, s_0^2) || N(m, s^2)), which reads no example
//
//   KL(q || w) = sum_j log(s_w / s_q) + (s_q^2 + (m_q - m_w)^2) / (2 s_w^2) - 1/2
//
// Draws follow the batch's key, so a visit is the same wherever it runs. Model and fixed vectors must outlive them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <tessera/contracts/model.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>

namespace tessera::nn {

// s of rho, its slope, and back.
template <class R>
R softplus(R rho) {
    return rho > 0 ? rho + std::log1p(std::exp(-rho)) : std::log1p(std::exp(rho));
}
template <class R>
R softplus_slope(R rho) {
    return 1 / (1 + std::exp(-rho));
}
inline double softplus_inverse(double s) { return s + std::log(-std::expm1(-s)); }

inline void require_drawable(Layout model) {
    tessera::detail::require(!has_buffers(model),
                             "parameters are drawn, and running statistics are none that could be: "
                             "use GroupNorm or LayerNorm in place of BatchNorm");
}

// The segments of (m, rho).
inline Vec<Segment> drawn_segments(Layout model) {
    Vec<Segment> all;
    const std::size_t d = dimension(model);
    for (const bool spread : {false, true})
        for (const Segment& s : model) all.push_back(placed(s, spread ? "rho." : "mean.", spread ? d : 0));
    return all;
}

// Adds strength times a divergence's gradient to (dm, drho); the second pair is that of the one that is fixed.
template <class R>
double add_divergence(In<R> q, In<R> w, R strength, bool of_q, Out<R> out) {
    const std::size_t d = q.size() / 2;
    double sum = 0;
    for (std::size_t j = 0; j < d; ++j) {
        const R sq = softplus(q[d + j]), sw = softplus(w[d + j]), gap = q[j] - w[j], precision = 1 / (sw * sw);
        sum += static_cast<double>(std::log(sw / sq) + (sq * sq + gap * gap) * precision / 2 - R(0.5));
        if (of_q) {
            out[j] += strength * gap * precision;
            out[d + j] += strength * (sq * precision - 1 / sq) * softplus_slope(q[d + j]);
        } else {
            out[j] -= strength * gap * precision;
            out[d + j] += strength * (1 / sw - (sq * sq + gap * gap) * precision / sw) * softplus_slope(w[d + j]);
        }
    }
    return static_cast<double>(strength) * sum;
}

template <Model M>
struct Variational {
    using Real = real<M>;
    const M* model;
    In<Real> prior;  // (m_0, rho_0)
    double strength;
    std::size_t draws;
    Vec<Segment> segments = drawn_segments(model->layout());

    Layout layout() const { return segments; }
    std::size_t outputs() const { return model->outputs(); }
    void predict(In<Real> x, const Batch<Real>& b, Out<Real> out) const {
        model->predict(x.first(x.size() / 2), b, out);
    }
    double gradient(In<Real> x, const Batch<Real>& b, Out<Real> out) const {
        const std::size_t d = x.size() / 2;
        std::fill(out.begin(), out.end(), Real(0));
        Vec<Real> theta(d), e(d), g(d);
        const Real share = Real(1) / static_cast<Real>(draws);
        double loss = 0;
        for (std::size_t k = 0; k < draws; ++k) {
            sample(x, b.draw()(purpose::noise)(k), e, theta);
            loss += model->gradient(theta, b, g) / static_cast<double>(draws);
            for (std::size_t j = 0; j < d; ++j) {
                out[j] += share * g[j];
                out[d + j] += share * g[j] * e[j] * softplus_slope(x[d + j]);
            }
        }
        return loss + add_divergence<Real>(x, prior, static_cast<Real>(strength), true, out);
    }
    static void sample(In<Real> x, Key key, Vec<Real>& e, Vec<Real>& theta) {
        Stream stream(key);
        for (std::size_t j = 0; j < theta.size(); ++j) {
            e[j] = static_cast<Real>(stream.normal());
            theta[j] = x[j] + softplus(x[theta.size() + j]) * e[j];
        }
    }
};

template <Model M>
struct Nearest {
    using Real = real<M>;
    const M* model;
    In<Real> to;  // (m_0, rho_0)
    Vec<Segment> segments = drawn_segments(model->layout());

    Layout layout() const { return segments; }
    std::size_t outputs() const { return model->outputs(); }
    void predict(In<Real> x, const Batch<Real>& b, Out<Real> out) const {
        model->predict(x.first(x.size() / 2), b, out);
    }
    double gradient(In<Real> x, const Batch<Real>&, Out<Real> out) const {
        std::fill(out.begin(), out.end(), Real(0));
        return add_divergence<Real>(to, x, Real(1), false, out);
    }
};

// The answers of drawn models, averaged as probabilities: log (1/S) sum_k p(theta_k), or those of the mean for S = 0.
template <Model M>
class DrawnPredictor {
public:
    static constexpr auto offers = offer::segments;
    DrawnPredictor(const M& model, Vec<real<M>> x, std::size_t draws, Key key)
        : model_(&model), x_(std::move(x)), draws_(draws), key_(key) {}

    void operator()(const Batch<real<M>>& b, Out<real<M>> out) const {
        using R = real<M>;
        const std::size_t d = x_.size() / 2;
        if (draws_ == 0) return model_->predict(In<R>(x_).first(d), b, out);
        Vec<R> theta(d), e(d), one(out.size());
        Vec<double> sum(out.size());
        for (std::size_t k = 0; k < draws_; ++k) {
            Variational<M>::sample(x_, key_(k), e, theta);
            model_->predict(theta, b, Out<R>(one));
            for (std::size_t j = 0; j < out.size(); ++j) sum[j] += std::exp(static_cast<double>(one[j]));
        }
        for (std::size_t j = 0; j < out.size(); ++j)
            out[j] = static_cast<R>(std::log(sum[j] / static_cast<double>(draws_)));
    }
    const Vec<real<M>>& parameters() const { return x_; }
    Vec<Segment> segments() const { return drawn_segments(model_->layout()); }

private:
    const M* model_;
    Vec<real<M>> x_;
    std::size_t draws_;
    Key key_;
};

}  // namespace tessera::nn
