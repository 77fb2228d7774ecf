// SPDX-License-Identifier: BSD-3-Clause
// Layers on planes of Height x Width numbers, channels first: convolution and pooling. Weights are
// [Out][In][Kernel][Kernel] as in torch checkpoints.
#pragma once

#include <array>
#include <cstddef>

#include <tessera/core/arena.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/kernels/conv.hpp>
#include <tessera/kernels/pool.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

template <std::size_t In, std::size_t Height, std::size_t Width, std::size_t Out, std::size_t Kernel,
          std::size_t Stride = 1, std::size_t Pad = 0>
class Conv2d {
    static_assert(Kernel > 0 && Stride > 0, "tessera::nn::Conv2d: a kernel and its stride are at least 1");
    static_assert(Kernel <= Height + 2 * Pad && Kernel <= Width + 2 * Pad,
                  "tessera::nn::Conv2d: the kernel is larger than the planes with their margins");
    static constexpr kernels::ConvShape shape{In, Height, Width, Kernel, Stride, Pad};
    static constexpr std::size_t weights = Out * shape.taps(), parameters = weights + Out;

public:
    static constexpr std::size_t rows = shape.rows(), columns = shape.columns();
    static constexpr std::array<Segment, 2> segments{
        Segment{.name = "weight", .offset = 0, .shape = {Out, In, Kernel, Kernel}, .rank = 4, .fan_in = shape.taps()},
        Segment{.name = "bias", .offset = weights, .shape = {Out, 1, 1, 1}, .rank = 1, .fan_in = shape.taps()}};
    static constexpr std::size_t width(std::size_t in) { return in == shape.image() ? Out * shape.pixels() : 0; }
    static constexpr std::size_t notes(std::size_t) { return 0; }
    static constexpr double flops(std::size_t) {
        return (2.0 * static_cast<double>(shape.taps()) + 1) * static_cast<double>(Out * shape.pixels());
    }

    template <class R>
    void forward(const Call& call, const R* w, const R* x, R* y, R*) const {
        kernels::conv(x, w, w + weights, y, call.batch, shape, Out);
    }
    template <class R>
    void backward(const Call& call, const R* w, const R* x, const R*, const R*, const R* dy, R* dx, R* dw) const {
        if (dw) kernels::conv_weight_gradient(dy, x, dw, call.batch, shape, Out);
        if (dx) kernels::conv_input_gradient(dy, w, dx, call.batch, shape, Out);
    }
    template <class R>
    void step(const Call& call, R* w, const R* x, const R*, const R*, const R* dy, R* dx, const Update<R>& u) const {
        if (dx) kernels::conv_input_gradient(dy, w, dx, call.batch, shape, Out);
        if (!u.moves(parameters)) return;
        const Scratch<R> dw(parameters);  // every image adds to all of it
        kernels::conv_weight_gradient(dy, x, dw.data(), call.batch, shape, Out);
        kernels::update(w, dw.data(), u.pulls.toward, u.pulls.also, u.pulls.velocity, parameters, R(1), u.numbers);
    }
};

// The largest of Kernel x Kernel numbers; windows do not overlap, and rows and columns left over are not seen.
template <std::size_t Channels, std::size_t Height, std::size_t Width, std::size_t Kernel = 2>
class MaxPool2d {
    static_assert(Kernel > 0 && Kernel <= Height && Kernel <= Width,
                  "tessera::nn::MaxPool2d: a window is at least 1 and at most a plane");

public:
    static constexpr std::size_t rows = Height / Kernel, columns = Width / Kernel;
    static constexpr std::array<Segment, 0> segments{};
    static constexpr std::size_t width(std::size_t in) {
        return in == Channels * Height * Width ? Channels * rows * columns : 0;
    }
    static constexpr std::size_t notes(std::size_t) { return 0; }
    static constexpr double flops(std::size_t) { return 0; }  // not counted

    template <class R>
    void forward(const Call& call, const R*, const R* x, R* y, R*) const {
        kernels::max_pool(x, y, call.batch * Channels, Height, Width, Kernel);
    }
    template <class R>
    void backward(const Call& call, const R*, const R* x, const R* y, const R*, const R* dy, R* dx, R*) const {
        if (dx) kernels::max_pool_gradient(x, y, dy, dx, call.batch * Channels, Height, Width, Kernel);
    }
};

}  // namespace tessera::nn
