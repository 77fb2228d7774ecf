// SPDX-License-Identifier: BSD-3-Clause
// Normalisation over groups of channels (Wu and He, ECCV 2018), example by example, so there are no buffers.
//
//   y_c = scale_c (x_c - mean) / sqrt(variance + eps) + shift_c      mean and variance (divided by n) over the group
//
// An example is `Channels` rows of `Positions` numbers. One group over a plain vector is layer normalisation.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

template <std::size_t Channels, std::size_t Groups, std::size_t Positions = 1>
struct GroupNorm {
    static_assert(Groups > 0 && Channels % Groups == 0, "tessera::nn::GroupNorm: the groups must divide the channels");
    static constexpr std::array<Segment, 2> segments{
        Segment{.name = "weight", .part = Part::norm, .offset = 0, .shape = {Channels, 1, 1, 1}, .value = 1},
        Segment{.name = "bias", .part = Part::norm, .offset = Channels, .shape = {Channels, 1, 1, 1}}};
    double eps = 1e-5;

    static constexpr std::size_t width(std::size_t in) { return in == Channels * Positions ? in : 0; }
    static constexpr std::size_t notes(std::size_t) { return 2 * Groups; }  // mean and 1/sqrt(variance + eps)
    static constexpr double flops(std::size_t) { return 0; }                // not counted

    template <class R>
    void forward(const Call& call, const R* w, const R* x, R* y, R* notes) const {
        for (std::size_t i = 0; i < call.batch * Groups; ++i) {
            const R* from = x + i * size;
            R mean = 0, variance = 0;
            for (std::size_t j = 0; j < size; ++j) mean += from[j];
            mean /= R(size);
            for (std::size_t j = 0; j < size; ++j) variance += (from[j] - mean) * (from[j] - mean);
            const R inverse = R(1) / std::sqrt(variance / R(size) + R(eps));
            notes[2 * i] = mean;
            notes[2 * i + 1] = inverse;
            for (std::size_t j = 0; j < size; ++j) {
                const std::size_t c = channel(i, j);
                y[i * size + j] = w[c] * ((from[j] - mean) * inverse) + w[Channels + c];
            }
        }
    }
    template <class R>
    void backward(const Call& call, const R* w, const R* x, const R*, const R* notes, const R* dy, R* dx, R* dw) const {
        if (dw) parameters(call, x, notes, dy, dw);
        if (dx) inputs(call, w, x, notes, dy, dx);
    }
    template <class R>
    void step(const Call& call, R* w, const R* x, const R*, const R* notes, const R* dy, R* dx,
              const Update<R>& u) const {
        if (dx) inputs(call, w, x, notes, dy, dx);
        if (!u.moves(2 * Channels)) return;
        Vec<R> dw(2 * Channels);
        parameters(call, x, notes, dy, dw.data());
        kernels::update(w, dw.data(), u.pulls.toward, u.pulls.also, u.pulls.velocity, 2 * Channels, R(1), u.numbers);
    }

private:
    static constexpr std::size_t size = Channels / Groups * Positions;  // numbers in a group

    static constexpr std::size_t channel(std::size_t group, std::size_t j) {
        return group % Groups * (Channels / Groups) + j / Positions;
    }
    template <class R>
    static void parameters(const Call& call, const R* x, const R* notes, const R* dy, R* dw) {
        std::fill_n(dw, 2 * Channels, R(0));
        for (std::size_t i = 0; i < call.batch * Groups; ++i)
            for (std::size_t j = 0; j < size; ++j) {
                const std::size_t at = i * size + j, c = channel(i, j);
                dw[c] += dy[at] * ((x[at] - notes[2 * i]) * notes[2 * i + 1]);
                dw[Channels + c] += dy[at];
            }
    }
    // With h = (x - mean) * inverse and d = dy * scale:  dx = inverse * (d - mean(d) - h * mean(d h))
    template <class R>
    static void inputs(const Call& call, const R* w, const R* x, const R* notes, const R* dy, R* dx) {
        for (std::size_t i = 0; i < call.batch * Groups; ++i) {
            const R mean = notes[2 * i], inverse = notes[2 * i + 1];
            R sum = 0, along = 0;
            for (std::size_t j = 0; j < size; ++j) {
                const std::size_t at = i * size + j;
                const R d = dy[at] * w[channel(i, j)];
                sum += d;
                along += d * ((x[at] - mean) * inverse);
            }
            sum /= R(size);
            along /= R(size);
            for (std::size_t j = 0; j < size; ++j) {
                const std::size_t at = i * size + j;
                dx[at] = inverse * (dy[at] * w[channel(i, j)] - sum - (x[at] - mean) * inverse * along);
            }
        }
    }
};

template <std::size_t Width>
using LayerNorm = GroupNorm<Width, 1>;

}  // namespace tessera::nn
