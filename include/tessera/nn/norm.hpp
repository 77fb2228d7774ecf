// SPDX-License-Identifier: BSD-3-Clause
// Normalisation over groups of channels (Wu and He, ECCV 2018), example by example, so there are no buffers.
//
//   y_c = scale_c (x_c - mean) / sqrt(variance + eps) + shift_c      mean and variance (divided by n) over the group
//
// An example is `channels` rows of numbers: planes have theirs, each number of a vector is a channel. One group over a
// vector, or over each position of a sequence, is layer normalisation. Groups may share one scale and shift
// (`Affine::group`; the ResNet of Flow has groups of two channels with one pair each).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tessera/nn/layer.hpp>

namespace tessera::nn {

// Who has a scale and a shift: every channel, every group, or nobody (1 and 0).
enum class Affine : std::uint8_t { channel, group, none };

struct GroupNorm {
    std::size_t groups = 1;
    double eps = 1e-5;                 // added to the variance
    Affine affine = Affine::channel;
    std::size_t each = 0;              // channels in a group, where that is known and not their number; 0: `groups`

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const std::size_t channels = channels_of(s.in[0]);
        if (!s.expect(each > 0 ? channels % each == 0 : groups > 0 && channels % groups == 0,
                      "nn::GroupNorm: the groups must divide the channels"))
            return;
        if (const std::size_t n = pairs(channels); n > 0) {
            s.parameter({.name = "weight", .part = Part::norm, .shape = {n, 1, 1, 1}, .value = 1});
            s.parameter({.name = "bias", .part = Part::norm, .shape = {n, 1, 1, 1}});
        }
        s.out = s.in[0];
        s.note(2 * groups_of(channels) * s.in[0].positions());  // mean and 1/sqrt(variance + eps)
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
                const R h = (p.x()[j] - mean) * inverse;
                p.y[j] = at.pairs > 0 ? p.w[c] * h + p.w[at.pairs + c] : h;
            });
        }
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const Group at(*this, p);
        if (p.dw && at.pairs > 0) parameters(at, p);
        if (p.dx()) inputs(at, p);
    }

private:
    static constexpr std::size_t channels_of(const Shape& in) { return in.rank == 2 ? in.sizes[1] : in.sizes[0]; }
    constexpr std::size_t groups_of(std::size_t channels) const { return each > 0 ? channels / each : groups; }
    constexpr std::size_t pairs(std::size_t channels) const {
        return affine == Affine::channel ? channels : affine == Affine::group ? groups_of(channels) : 0;
    }

    struct Group {
        std::size_t channels, groups, positions, size, count;  // numbers in a group, groups of a batch
        std::size_t pairs;                                     // of a scale and a shift

        template <class R>
        Group(const GroupNorm& norm, const Pass<R>& p)
            : channels(channels_of(p.in())),
              groups(norm.groups_of(channels)),
              positions(p.in().width() / channels),
              size(channels / groups * positions),
              count(p.batch * p.in().positions() * groups),
              pairs(norm.pairs(channels)) {}
        // f(pair, number) for each number of group i
        template <class F>
        void each(std::size_t i, const F& f) const {
            std::size_t j = i * size;
            for (std::size_t c = i % groups * (channels / groups), row = 0; row < channels / groups; ++row, ++c)
                for (std::size_t k = 0; k < positions; ++k, ++j) f(pairs == channels ? c : i % groups, j);
        }
    };

    template <class R>
    void parameters(const Group& at, const Pass<R>& p) const {
        std::fill_n(p.dw, 2 * at.pairs, R(0));
        for (std::size_t i = 0; i < at.count; ++i) {
            const R mean = p.note(0)[2 * i], inverse = p.note(0)[2 * i + 1];
            at.each(i, [&](std::size_t c, std::size_t j) {
                p.dw[c] += p.dy[j] * ((p.x()[j] - mean) * inverse);
                p.dw[at.pairs + c] += p.dy[j];
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
                const R d = at.pairs > 0 ? p.dy[j] * p.w[c] : p.dy[j];
                sum += d;
                along += d * ((p.x()[j] - mean) * inverse);
            });
            sum /= R(at.size);
            along /= R(at.size);
            at.each(i, [&](std::size_t c, std::size_t j) {
                const R d = at.pairs > 0 ? p.dy[j] * p.w[c] : p.dy[j];
                p.dx()[j] = inverse * (d - sum - (p.x()[j] - mean) * inverse * along);
            });
        }
    }
};

}  // namespace tessera::nn
