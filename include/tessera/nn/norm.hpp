// SPDX-License-Identifier: BSD-3-Clause
// Normalisation over groups of channels (Wu and He, ECCV 2018), example by example, so there are no buffers.
//
//   y_c = scale_c (x_c - mean) / sqrt(variance + eps) + shift_c      mean and variance (divided by n) over the group
//
// An example is `channels` rows of numbers: planes have theirs, each number of a vector is a channel. One group over a
// vector, or over each position of a sequence, is layer normalisation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <tessera/nn/layer.hpp>

namespace tessera::nn {

struct GroupNorm {
    std::size_t groups = 1;
    double eps = 1e-5;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const std::size_t channels = channels_of(s.in[0]);
        s.expect(groups > 0 && channels % groups == 0, "nn::GroupNorm: the groups must divide the channels");
        s.parameter({.name = "weight", .part = Part::norm, .shape = {channels, 1, 1, 1}, .value = 1});
        s.parameter({.name = "bias", .part = Part::norm, .shape = {channels, 1, 1, 1}});
        s.out = s.in[0];
        s.note(2 * groups * s.in[0].positions());  // mean and 1/sqrt(variance + eps)
        s.backward_reads = Reads::x;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const Group at(*this, p);
        for (std::size_t i = 0; i < at.count; ++i) {
            const R* from = p.x() + i * at.size;
            R mean = 0, variance = 0;
            for (std::size_t j = 0; j < at.size; ++j) mean += from[j];
            mean /= R(at.size);
            for (std::size_t j = 0; j < at.size; ++j) variance += (from[j] - mean) * (from[j] - mean);
            const R inverse = R(1) / std::sqrt(variance / R(at.size) + R(eps));
            p.note(0)[2 * i] = mean;
            p.note(0)[2 * i + 1] = inverse;
            at.each(i, [&](std::size_t c, std::size_t j) {
                p.y[j] = p.w[c] * ((p.x()[j] - mean) * inverse) + p.w[at.channels + c];
            });
        }
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const Group at(*this, p);
        if (p.dw) parameters(at, p);
        if (p.dx()) inputs(at, p);
    }

private:
    static constexpr std::size_t channels_of(const Shape& in) { return in.rank == 2 ? in.sizes[1] : in.sizes[0]; }

    struct Group {
        std::size_t channels, groups, positions, size, count;  // numbers in a group, groups of a batch

        template <class R>
        Group(const GroupNorm& norm, const Pass<R>& p)
            : channels(channels_of(p.in())),
              groups(norm.groups),
              positions(p.in().width() / channels),
              size(channels / groups * positions),
              count(p.batch * p.in().positions() * groups) {}
        // f(channel, number) for each number of group i
        template <class F>
        void each(std::size_t i, const F& f) const {
            std::size_t j = i * size;
            for (std::size_t c = i % groups * (channels / groups), row = 0; row < channels / groups; ++row, ++c)
                for (std::size_t k = 0; k < positions; ++k, ++j) f(c, j);
        }
    };

    template <class R>
    void parameters(const Group& at, const Pass<R>& p) const {
        std::fill_n(p.dw, 2 * at.channels, R(0));
        for (std::size_t i = 0; i < at.count; ++i) {
            const R mean = p.note(0)[2 * i], inverse = p.note(0)[2 * i + 1];
            at.each(i, [&](std::size_t c, std::size_t j) {
                p.dw[c] += p.dy[j] * ((p.x()[j] - mean) * inverse);
                p.dw[at.channels + c] += p.dy[j];
            });
        }
    }
    // With h = (x - mean) * inverse and d = dy * scale:  dx = inverse * (d - mean(d) - h * mean(d h))
    template <class R>
    void inputs(const Group& at, const Pass<R>& p) const {
        for (std::size_t i = 0; i < at.count; ++i) {
            const R mean = p.note(0)[2 * i], inverse = p.note(0)[2 * i + 1];
            R sum = 0, along = 0;
            at.each(i, [&](std::size_t c, std::size_t j) {
                const R d = p.dy[j] * p.w[c];
                sum += d;
                along += d * ((p.x()[j] - mean) * inverse);
            });
            sum /= R(at.size);
            along /= R(at.size);
            at.each(i, [&](std::size_t c, std::size_t j) {
                p.dx()[j] = inverse * (p.dy[j] * p.w[c] - sum - (p.x()[j] - mean) * inverse * along);
            });
        }
    }
};

}  // namespace tessera::nn
