// SPDX-License-Identifier: BSD-3-Clause
// Layers without parameters that act number by number: ReLU, leaky ReLU, GELU, dropout.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/kernels/dropout.hpp>
#include <tessera/kernels/gelu.hpp>
#include <tessera/kernels/softmax.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

// y = x for x > 0, slope * x otherwise.
struct LeakyRelu {
    double slope = 0.1;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.out = s.in[0];
        s.in_place = s.pointwise = true;
        s.expect(slope >= 0, "nn::LeakyRelu: a slope is 0 or more");  // so that y > 0 exactly where x > 0
        s.backward_reads = Reads::y;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        kernels::leaky_relu(p.x(), p.y, p.read(), static_cast<R>(slope));
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (p.dx()) kernels::leaky_relu_gradient(static_cast<const R*>(p.y), p.dy, p.dx(), p.read(), R(slope));
    }
};

struct Relu {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const { LeakyRelu{.slope = 0}.infer(s); }
    template <class R>
    void forward(const Pass<R>& p) const {
        LeakyRelu{.slope = 0}.forward(p);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        LeakyRelu{.slope = 0}.backward(p);
    }
};

// y = x Phi(x), Phi the distribution function of N(0, 1) (Hendrycks and Gimpel 2016), or its approximation
// y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, which many published transformers were trained with.
struct Gelu {
    bool tanh = false;  // the approximation

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.out = s.in[0];
        s.in_place = s.pointwise = true;
        s.backward_reads = Reads::x;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        kernels::gelu(p.x(), p.y, p.read(), tanh);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (p.dx()) kernels::gelu_gradient(p.x(), p.dy, p.dx(), p.read(), tanh);
    }
};

// Zeroes a number with probability `rate` and scales the others by 1/(1-rate); the identity in evaluation.
struct Dropout {
    double rate = 0.5;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.expect(rate >= 0 && rate < 1, "nn::Dropout: a rate lies in [0, 1)");
        s.out = s.in[0];
        s.save(s.out.size());  // the factors
        s.in_place = true;
        s.backward_reads = Reads::nothing;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        if (p.training) kernels::fill_dropout(p.draw(), rate, tessera::Out<R>(p.saved(0), p.read()));
        else std::fill_n(p.saved(0), p.read(), R(1));
        const R* factors = p.saved(0);
        for (std::size_t i = 0; i < p.read(); ++i) p.y[i] = p.x()[i] * factors[i];
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const R* factors = p.saved(0);
        for (std::size_t i = 0; p.dx() && i < p.read(); ++i) p.dx()[i] = p.dy[i] * factors[i];
    }
};

}  // namespace tessera::nn
