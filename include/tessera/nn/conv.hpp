// SPDX-License-Identifier: BSD-3-Clause
// Layers on planes, channels first: convolution and pooling. Weights are [outputs][channels][kernel][kernel] as in
// torch checkpoints.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/conv.hpp>
#include <tessera/kernels/pool.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

struct Conv2d {
    std::size_t outputs = 1, kernel = 3, stride = 1, pad = 0;
    bool bias = true;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const auto [channels, height, width] = s.in[0].sizes;
        if (!s.expect(s.in[0].rank == 3,
                      "nn::Conv2d: it reads planes; say the shape of the input as channels, height, width") ||
            !s.expect(outputs > 0 && kernel > 0 && stride > 0,
                      "nn::Conv2d: outputs, kernel and stride are at least 1") ||
            !s.expect(kernel <= height + 2 * pad && kernel <= width + 2 * pad,
                      "nn::Conv2d: the kernel is larger than the planes with their margins"))
            return;
        const kernels::ConvShape c = shape(s.in[0]);
        s.parameter({.name = "weight", .shape = {outputs, channels, kernel, kernel}, .rank = 4, .fan_in = c.taps()});
        if (bias) s.parameter({.name = "bias", .shape = {outputs, 1, 1, 1}, .rank = 1, .fan_in = c.taps()});
        s.out = Shape(outputs, c.rows(), c.columns());
        s.backward_reads = Reads::x;
        s.flops = (2.0 * static_cast<double>(c.taps()) + (bias ? 1 : 0)) * static_cast<double>(outputs * c.pixels());
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const Scratch<R> none(bias ? 0 : outputs);
        std::fill_n(none.data(), none.size(), R(0));
        p.on->conv(p.x(), p.w, bias ? p.weight(1) : none.data(), p.y, p.batch, shape(p.in()), outputs);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const kernels::ConvShape c = shape(p.in());
        if (p.dw) {
            const Scratch<R> both(bias ? 0 : p.spec->parameters + outputs);
            p.on->conv_weight_gradient(p.dy, p.x(), bias ? p.dw : both.data(), p.batch, c, outputs);
            if (!bias) std::copy_n(both.data(), p.spec->parameters, p.dw);
        }
        if (p.dx()) p.on->conv_input_gradient(p.dy, p.w, p.dx(), p.batch, c, outputs);
    }

private:
    constexpr kernels::ConvShape shape(const Shape& in) const {
        return {in.sizes[0], in.sizes[1], in.sizes[2], kernel, stride, pad};
    }
};

// The largest of kernel x kernel numbers; windows do not overlap, and rows and columns left over are not seen.
struct MaxPool2d {
    std::size_t kernel = 2;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const auto [channels, height, width] = s.in[0].sizes;
        if (!s.expect(s.in[0].rank == 3,
                      "nn::MaxPool2d: it reads planes; say the shape of the input as channels, height, width") ||
            !s.expect(kernel > 0 && kernel <= height && kernel <= width,
                      "nn::MaxPool2d: a window is at least 1 and at most a plane"))
            return;
        s.out = Shape(channels, height / kernel, width / kernel);
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const auto [channels, height, width] = p.in().sizes;
        kernels::max_pool(p.x(), p.y, p.batch * channels, height, width, kernel);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const auto [channels, height, width] = p.in().sizes;
        if (p.dx())
            kernels::max_pool_gradient(p.x(), static_cast<const R*>(p.y), p.dy, p.dx(), p.batch * channels, height,
                                       width, kernel);
    }
};

// The mean of each plane: a vector of as many numbers as there are channels.
struct MeanPool {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.expect(s.in[0].rank == 3,
                 "nn::MeanPool: it reads planes; say the shape of the input as channels, height, width");
        s.out = Shape(s.in[0].sizes[0]);
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const std::size_t plane = p.in().sizes[1] * p.in().sizes[2];
        for (std::size_t c = 0; c < p.written(); ++c) {
            R sum = 0;
            for (std::size_t j = 0; j < plane; ++j) sum += p.x()[c * plane + j];
            p.y[c] = sum / static_cast<R>(plane);
        }
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const std::size_t plane = p.in().sizes[1] * p.in().sizes[2];
        for (std::size_t c = 0; p.dx() && c < p.written(); ++c)
            std::fill_n(p.dx() + c * plane, plane, p.dy[c] / static_cast<R>(plane));
    }
};

}  // namespace tessera::nn
