// SPDX-License-Identifier: BSD-3-Clause
// Normalisation of each channel over the batch (Ioffe and Szegedy, ICML 2015), with torch's names and formulae.
//
//   training    y_c = scale_c (x_c - mean) / sqrt(variance + eps) + shift_c     over all numbers of the channel
//               running = (1 - momentum) running + momentum batch               variance divided by n - 1 there
//   evaluation  the same with the running mean and variance
//
// A channel is a plane, a number of a vector, or a number of every position of a sequence. Running statistics are
// coordinates of Part::buffer: what backward writes for them is momentum (running - batch), the step they take. A batch
// with one number a channel has no variance: it is normalised as in evaluation and moves nothing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <tessera/nn/layer.hpp>

namespace tessera::nn {

struct BatchNorm {
    double momentum = 0.1;  // share of the new batch in the running statistics, in [0, 1]
    double eps = 1e-5;      // added to the variance

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const std::size_t channels = s.in[0].rank == 2 ? s.in[0].sizes[1] : s.in[0].sizes[0];
        s.expect(momentum >= 0 && momentum <= 1, "nn::BatchNorm: momentum lies in [0, 1]");
        s.expect(eps > 0, "nn::BatchNorm: eps is positive");
        s.parameter({.name = "weight", .part = Part::norm, .shape = {channels, 1, 1, 1}, .value = 1});
        s.parameter({.name = "bias", .part = Part::norm, .shape = {channels, 1, 1, 1}});
        s.parameter({.name = "running_mean", .part = Part::buffer, .shape = {channels, 1, 1, 1}});
        s.parameter({.name = "running_var", .part = Part::buffer, .shape = {channels, 1, 1, 1}, .value = 1});
        s.out = s.in[0];
        s.batch_saved = 3 * channels;  // mean, 1/sqrt(variance + eps), what the running variance goes to
        s.backward_reads = Reads::x;
        s.apart = false;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const Numbers at(p);
        R *means = p.batch_saved, *inverses = means + at.channels, *variances = inverses + at.channels;
        for (std::size_t c = 0; c < at.channels; ++c) {
            means[c] = p.weight(2)[c];
            variances[c] = p.weight(3)[c];
            double spread = std::max(0.0, static_cast<double>(variances[c]));  // whatever a server made of it
            if (at.by_batch) {
                double sum = 0, squares = 0;
                at.each(c, [&](std::size_t j) { sum += static_cast<double>(p.x()[j]); });
                const double mean = sum / static_cast<double>(at.count);
                at.each(c, [&](std::size_t j) {
                    const double off = static_cast<double>(p.x()[j]) - mean;
                    squares += off * off;
                });
                means[c] = static_cast<R>(mean);
                variances[c] = static_cast<R>(squares / static_cast<double>(at.count - 1));
                spread = squares / static_cast<double>(at.count);
            }
            inverses[c] = static_cast<R>(1 / std::sqrt(spread + eps));
            const R mean = means[c], inverse = inverses[c], scale = p.weight(0)[c], shift = p.weight(1)[c];
            at.each(c, [&](std::size_t j) { p.y[j] = scale * ((p.x()[j] - mean) * inverse) + shift; });
        }
    }
    // With h = (x - mean) inverse:  dx = scale inverse (dy - mean(dy) - h mean(dy h)), by running statistics
    // scale inverse dy.
    template <class R>
    void backward(const Pass<R>& p) const {
        const Numbers at(p);
        const R *means = p.batch_saved, *inverses = means + at.channels, *variances = inverses + at.channels;
        for (std::size_t c = 0; c < at.channels; ++c) {
            const R mean = means[c], inverse = inverses[c];
            double sum = 0, along = 0;
            at.each(c, [&](std::size_t j) {
                sum += static_cast<double>(p.dy[j]);
                along += static_cast<double>(p.dy[j]) * static_cast<double>((p.x()[j] - mean) * inverse);
            });
            if (p.dw) {
                p.slope(0)[c] = static_cast<R>(along);
                p.slope(1)[c] = static_cast<R>(sum);
                p.slope(2)[c] = static_cast<R>(momentum) * (p.weight(2)[c] - mean);
                p.slope(3)[c] = static_cast<R>(momentum) * (p.weight(3)[c] - variances[c]);
            }
            if (!p.dx()) continue;
            const double n = static_cast<double>(at.count);
            const R scale = p.weight(0)[c] * inverse, level = at.by_batch ? static_cast<R>(sum / n) : R(0),
                    slant = at.by_batch ? static_cast<R>(along / n) : R(0);
            at.each(c, [&](std::size_t j) {
                p.dx()[j] = scale * (p.dy[j] - level - (p.x()[j] - mean) * inverse * slant);
            });
        }
    }

private:
    // The numbers of a batch, channel by channel.
    struct Numbers {
        std::size_t channels, rows, plane, count;
        bool by_batch;

        template <class R>
        explicit Numbers(const Pass<R>& p)
            : channels(p.in().rank == 2 ? p.in().sizes[1] : p.in().sizes[0]),
              rows(p.batch * p.in().positions()),
              plane(p.in().width() / channels),
              count(rows * plane),
              by_batch(p.training && count > 1) {}
        // f(number) for each number of channel c
        template <class F>
        void each(std::size_t c, const F& f) const {
            for (std::size_t r = 0; r < rows; ++r)
                for (std::size_t k = 0; k < plane; ++k) f((r * channels + c) * plane + k);
        }
    };
};

}  // namespace tessera::nn
