// SPDX-License-Identifier: BSD-3-Clause
// Layers on planes, channels first: convolution and pooling. Weights are [outputs][channels][kernel][kernel] as in
// torch checkpoints.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/conv.hpp>
#include <tessera/kernels/conv_blocked.hpp>
#include <tessera/kernels/conv_thin.hpp>
#include <tessera/kernels/conv_winograd.hpp>
#include <tessera/kernels/pool.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/backend.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

namespace detail {

// Patches of one image after the other, [pixel][tap] without gaps, for backends that know matrices only.
template <class R>
class Patches {
public:
    explicit Patches(const kernels::ConvShape& s) : shape_(s), numbers_(s.pixels() * s.taps()) {}
    R* data() const { return numbers_.data(); }
    void take(const R* image) const {
        each([&](std::size_t at, std::size_t in, bool inside) { numbers_[at] = inside ? image[in] : R(0); });
    }
    void add_up(R* image) const {
        std::fill_n(image, shape_.image(), R(0));
        each([&](std::size_t at, std::size_t in, bool inside) {
            if (inside) image[in] += numbers_[at];
        });
    }

private:
    // f(number of a patch, number of the image, whether there is one or the margin)
    template <class F>
    void each(const F& f) const {
        const auto& s = shape_;
        std::size_t at = 0;
        for (std::size_t r = 0; r < s.rows(); ++r)
            for (std::size_t q = 0; q < s.columns(); ++q)
                for (std::size_t c = 0; c < s.channels; ++c)
                    for (std::size_t i = 0; i < s.kernel; ++i)
                        for (std::size_t j = 0; j < s.kernel; ++j, ++at) {
                            const std::size_t y = r * s.stride + i - s.pad, x = q * s.stride + j - s.pad;
                            f(at, (c * s.height + y) * s.width + x, y < s.height && x < s.width);  // wraps below 0
                        }
    }

    kernels::ConvShape shape_;
    Scratch<R> numbers_;
};

// Convolutions by whoever multiplies: our own kernels know them, any other backend is given patches.
template <class R>
class ConvOn {
public:
    ConvOn(const Backend<R>& on, const kernels::ConvShape& s, std::size_t out, bool direct = false)
        : on_(on),
          own_(on.own()),
          tiled_(own_ && !direct && kernels::winograd_pays<R>(s, out)),
          blocked_(own_ && kernels::blocks_pay<R>(s, out)),
          thin_(own_ && kernels::thin_pays<R>(s, out)),
          shape_(s),
          out_(out) {}

    void forward(const R* x, const R* w, const R* bias, R* y, std::size_t batch) const {
        if constexpr (std::is_same_v<R, float>) {
            if (tiled_) return kernels::winograd_conv(x, w, bias, y, batch, shape_, out_);
            if (blocked_) return kernels::blocked_conv(x, w, bias, y, batch, shape_, out_);
            if (thin_) return kernels::thin_conv(x, w, bias, y, batch, shape_, out_);
        }
        if (own_) return kernels::conv(x, w, bias, y, batch, shape_, out_);
        const Patches<R> patches(shape_);
        const Scratch<R> turned(pixels() * out_);
        for (std::size_t b = 0; b < batch; ++b, x += shape_.image(), y += out_ * pixels()) {
            patches.take(x);
            on_.affine({patches.data(), nullptr, {}}, w, bias, turned.data(), pixels(), shape_.taps(), out_);
            kernels::turn_matrix(turned.data(), y, pixels(), out_);
        }
    }
    void input_gradient(const R* dy, const R* w, R* dx, std::size_t batch) const {
        if constexpr (std::is_same_v<R, float>) {
            if (tiled_) return kernels::winograd_input_gradient(dy, w, dx, batch, shape_, out_);
            if (blocked_) return kernels::blocked_input_gradient(dy, w, dx, batch, shape_, out_);
        }
        if (own_) return kernels::conv_input_gradient(dy, w, dx, batch, shape_, out_);
        const Patches<R> patches(shape_);
        const Scratch<R> turned(pixels() * out_);
        for (std::size_t b = 0; b < batch; ++b, dx += shape_.image(), dy += out_ * pixels()) {
            kernels::turn_matrix(dy, turned.data(), out_, pixels());
            on_.affine_input_gradient(turned.data(), w, patches.data(), pixels(), shape_.taps(), out_);
            patches.add_up(dx);
        }
    }
    // dw is followed by the gradient of the biases.
    void weight_gradient(const R* dy, const R* x, R* dw, std::size_t batch) const {
        if constexpr (std::is_same_v<R, float>) {
            R* const dbias = dw + out_ * shape_.taps();
            if (tiled_) return kernels::winograd_weight_gradient(dy, x, dw, dbias, batch, shape_, out_);
            if (blocked_) return kernels::blocked_weight_gradient(dy, x, dw, dbias, batch, shape_, out_);
            if (thin_) return kernels::thin_weight_gradient(dy, x, dw, dbias, batch, shape_, out_);
        }
        if (own_) return kernels::conv_weight_gradient(dy, x, dw, batch, shape_, out_);
        const Patches<R> patches(shape_);
        const std::size_t weights = out_ * shape_.taps();
        const Scratch<R> turned(pixels() * out_), one(weights + out_);
        std::fill_n(dw, weights + out_, R(0));
        for (std::size_t b = 0; b < batch; ++b, x += shape_.image(), dy += out_ * pixels()) {
            patches.take(x);
            kernels::turn_matrix(dy, turned.data(), out_, pixels());
            on_.affine_weight_gradient(turned.data(), {patches.data(), nullptr, {}}, one.data(), one.data() + weights,
                                       pixels(), shape_.taps(), out_);
            kernels::axpy(R(1), static_cast<const R*>(one.data()), dw, weights + out_);
        }
    }

private:
    std::size_t pixels() const { return shape_.pixels(); }

    const Backend<R>& on_;
    bool own_, tiled_, blocked_, thin_;
    kernels::ConvShape shape_;
    std::size_t out_;
};

}  // namespace detail

struct Conv2d {
    std::size_t outputs = 1, kernel = 3, stride = 1, pad = 0;
    bool bias = true;
    bool direct = false;  // never Winograd's tiles, which 3 x 3 in float takes where they pay: less rounding, more time

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
        s.kernel = kernel, s.stride = stride, s.pad = pad;
        s.backward_reads = Reads::x;
        s.flops = (2.0 * static_cast<double>(c.taps()) + (bias ? 1 : 0)) * static_cast<double>(outputs * c.pixels());
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const Scratch<R> none(bias ? 0 : outputs);
        std::fill_n(none.data(), none.size(), R(0));
        const detail::ConvOn<R> on(*p.on, shape(p.in()), outputs, direct);
        on.forward(p.x(), p.w, bias ? p.weight(1) : none.data(), p.y, p.batch);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const detail::ConvOn<R> on(*p.on, shape(p.in()), outputs, direct);
        if (p.dw) {
            const Scratch<R> both(bias ? 0 : p.spec->parameters + outputs);
            on.weight_gradient(p.dy, p.x(), bias ? p.dw : both.data(), p.batch);
            if (!bias) std::copy_n(both.data(), p.spec->parameters, p.dw);
        }
        if (p.dx()) on.input_gradient(p.dy, p.w, p.dx(), p.batch);
    }

private:
    constexpr kernels::ConvShape shape(const Shape& in) const {
        return {in.sizes[0], in.sizes[1], in.sizes[2], kernel, stride, pad};
    }
};

// The largest of kernel x kernel numbers; windows do not overlap, and rows and columns left over are not seen.
struct MaxPool2d {
    std::size_t kernel = 2;

    static constexpr Offers offers = offer::blocks;

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
    template <class R>
    void blocks_forward(const Pass<R>& p) const {
        const auto [channels, height, width] = p.in().sizes;
        kernels::blocked_max_pool(p.x(), p.y, channels, height, width, kernel, p.batch);
    }
    template <class R>
    void blocks_backward(const Pass<R>& p) const {
        const auto [channels, height, width] = p.in().sizes;
        if (p.dx())
            kernels::blocked_max_pool_gradient(p.x(), static_cast<const R*>(p.y), p.dy, p.dx(), channels, height, width,
                                               kernel, p.batch);
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
        kernels::plane_sums(p.x(), p.y, p.written(), plane, R(1) / static_cast<R>(plane));
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const std::size_t plane = p.in().sizes[1] * p.in().sizes[2];
        if (p.dx()) kernels::fill_planes(p.dy, p.dx(), p.written(), plane, R(1) / static_cast<R>(plane));
    }
};

}  // namespace tessera::nn
