// SPDX-License-Identifier: BSD-3-Clause
// Layers without parameters that act number by number: ReLU, leaky ReLU, dropout.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include <tessera/kernels/dropout.hpp>
#include <tessera/kernels/softmax.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

// y = x for x > 0, slope * x otherwise.
struct LeakyRelu {
    static constexpr std::array<Segment, 0> segments{};
    static constexpr std::size_t width(std::size_t in) { return in; }
    static constexpr double flops(std::size_t) { return 0; }  // not counted
    double slope = 0.1;

    static constexpr std::size_t notes(std::size_t) { return 0; }
    template <class R>
    void forward(const Call& call, const R*, const R* x, R* y, R*) const {
        kernels::leaky_relu(x, y, call.batch * call.in, static_cast<R>(slope));
    }
    template <class R>
    void backward(const Call& call, const R*, const R* x, const R*, const R*, const R* dy, R* dx, R*) const {
        if (dx) kernels::leaky_relu_gradient(x, dy, dx, call.batch * call.in, static_cast<R>(slope));
    }
};

struct Relu {
    static constexpr std::array<Segment, 0> segments{};
    static constexpr std::size_t width(std::size_t in) { return in; }
    static constexpr double flops(std::size_t) { return 0; }  // not counted
    static constexpr std::size_t notes(std::size_t) { return 0; }
    template <class R>
    void forward(const Call& call, const R*, const R* x, R* y, R*) const {
        kernels::leaky_relu(x, y, call.batch * call.in, R(0));
    }
    template <class R>
    void backward(const Call& call, const R*, const R* x, const R*, const R*, const R* dy, R* dx, R*) const {
        if (dx) kernels::leaky_relu_gradient(x, dy, dx, call.batch * call.in, R(0));
    }
};

// Zeroes a number with probability `rate` and scales the others by 1/(1-rate); the identity in evaluation.
struct Dropout {
    static constexpr std::array<Segment, 0> segments{};
    static constexpr std::size_t width(std::size_t in) { return in; }
    static constexpr double flops(std::size_t) { return 0; }  // not counted
    double rate = 0.5;

    static constexpr std::size_t notes(std::size_t in) { return in; }  // the factors
    template <class R>
    void forward(const Call& call, const R*, const R* x, R* y, R* notes) const {
        const std::size_t n = call.batch * call.in;
        if (call.training) kernels::fill_dropout(call.draw, rate, Out<R>(notes, n));
        else std::fill_n(notes, n, R(1));
        for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * notes[i];
    }
    template <class R>
    void backward(const Call& call, const R*, const R*, const R*, const R* notes, const R* dy, R* dx, R*) const {
        if (!dx) return;
        for (std::size_t i = 0; i < call.batch * call.in; ++i) dx[i] = dy[i] * notes[i];
    }
};

}  // namespace tessera::nn
