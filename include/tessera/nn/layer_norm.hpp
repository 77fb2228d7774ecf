// SPDX-License-Identifier: BSD-3-Clause
// Normalisation over the last dimension (Ba et al. 2016), example by example: a vector, each position of a sequence,
// each line of planes.
//
//   y_j = scale_j (x_j - mean) / sqrt(variance + eps) + shift_j      mean and variance (divided by n) over the row
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <tessera/nn/layer.hpp>

namespace tessera::nn {

struct LayerNorm {
    double eps = 1e-5;   // added to the variance
    bool affine = true;  // scale and shift are learnt; else 1 and 0

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const std::size_t n = last_of(s.in[0]);
        s.expect(eps > 0, "nn::LayerNorm: eps is positive");
        if (affine) {
            s.parameter({.name = "weight", .part = Part::norm, .shape = {n, 1, 1, 1}, .value = 1});
            s.parameter({.name = "bias", .part = Part::norm, .shape = {n, 1, 1, 1}});
        }
        s.out = s.in[0];
        s.note(2 * (s.in[0].size() / n));  // mean and 1/sqrt(variance + eps) of each row
        s.backward_reads = Reads::x;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const std::size_t n = last_of(p.in());
        for (std::size_t r = 0; r < p.read() / n; ++r) {
            const R* x = p.x() + r * n;
            double sum = 0, squares = 0;
            for (std::size_t j = 0; j < n; ++j) sum += static_cast<double>(x[j]);
            const double middle = sum / static_cast<double>(n);
            for (std::size_t j = 0; j < n; ++j) {
                const double off = static_cast<double>(x[j]) - middle;
                squares += off * off;
            }
            const R mean = p.note(0)[2 * r] = static_cast<R>(middle);
            const R inverse = p.note(0)[2 * r + 1] =
                static_cast<R>(1 / std::sqrt(squares / static_cast<double>(n) + eps));
            R* y = p.y + r * n;
            for (std::size_t j = 0; j < n; ++j) {
                const R h = (x[j] - mean) * inverse;
                y[j] = affine ? p.weight(0)[j] * h + p.weight(1)[j] : h;
            }
        }
    }
    // With h = (x - mean) inverse and d = dy scale:  dx = inverse (d - mean(d) - h mean(d h))
    template <class R>
    void backward(const Pass<R>& p) const {
        const std::size_t n = last_of(p.in());
        if (p.dw) std::fill_n(p.dw, p.spec->parameters, R(0));
        for (std::size_t r = 0; r < p.read() / n; ++r) {
            const R *x = p.x() + r * n, *dy = p.dy + r * n, mean = p.note(0)[2 * r], inverse = p.note(0)[2 * r + 1];
            double sum = 0, along = 0;
            for (std::size_t j = 0; j < n; ++j) {
                const R h = (x[j] - mean) * inverse, d = affine ? dy[j] * p.weight(0)[j] : dy[j];
                sum += static_cast<double>(d);
                along += static_cast<double>(d) * static_cast<double>(h);
                if (!p.dw || !affine) continue;
                p.slope(0)[j] += dy[j] * h;
                p.slope(1)[j] += dy[j];
            }
            const R level = static_cast<R>(sum / static_cast<double>(n)),
                    slant = static_cast<R>(along / static_cast<double>(n));
            for (std::size_t j = 0; p.dx() && j < n; ++j) {
                const R d = affine ? dy[j] * p.weight(0)[j] : dy[j];
                p.dx()[r * n + j] = inverse * (d - level - (x[j] - mean) * inverse * slant);
            }
        }
    }

private:
    static constexpr std::size_t last_of(const Shape& in) { return in.sizes[in.rank - 1]; }
};

}  // namespace tessera::nn
