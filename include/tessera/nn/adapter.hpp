// SPDX-License-Identifier: BSD-3-Clause
// Adapters: a few parameters beside a skip, y = x + inner(x), all of them of Part::adapter.
//
//   Bottleneck<Width, Rank>   x + W2 relu(W1 x + b1) + b2 (Houlsby et al. 2019)
//
// Any layer that keeps its width can be the inner one: a 1x1 convolution after a norm is the residual adapter of
// convolutional nets. How it starts decides what a fresh adapter does to the backbone:
//
//   LastAtZero              the last layer is 0: nothing, bit for bit
//   Near<std::ratio<..>>    weights N(0, deviation), biases 0: nearly nothing (0.01 in transformers, 1e-4 in PerAda)
#pragma once

#include <cstddef>
#include <ratio>
#include <string_view>

#include <tessera/nn/activation.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/sequential.hpp>

namespace tessera::nn {

struct LastAtZero {
    static constexpr void first_values(Segment& s, bool of_last) {
        if (!of_last) return;
        s.fan_in = 0;
        s.value = s.deviation = 0;
    }
};
template <class Deviation>
struct Near {
    static constexpr void first_values(Segment& s, bool) {
        if (s.fan_in == 0) return;  // a norm starts as norms do
        s.fan_in = 0;
        s.value = 0;
        s.deviation = s.rank > 1 ? static_cast<double>(Deviation::num) / static_cast<double>(Deviation::den) : 0;
    }
};

template <class Inner, class Start = LastAtZero>
class Adapter {
public:
    static constexpr auto segments = [] {
        auto all = Inner::segments;
        const auto owner = [](const Segment& s) {
            const auto name = s.name.view();
            return name.substr(0, name.rfind('.') == name.npos ? 0 : name.rfind('.'));
        };
        const Segment last = all.back();
        for (auto& s : all) {
            s.part = Part::adapter;
            Start::first_values(s, owner(s) == owner(last));
        }
        return all;
    }();
    static constexpr std::size_t width(std::size_t in) { return Inner::width(in) == in ? in : 0; }
    static constexpr std::size_t notes(std::size_t in) { return in + Inner::notes(in); }
    static constexpr double flops(std::size_t in) { return Inner::flops(in) + static_cast<double>(in); }

    constexpr Adapter() = default;
    constexpr explicit Adapter(Inner inner) : inner_(std::move(inner)) {}
    const Inner& inner() const { return inner_; }

    template <class R>
    void forward(const Call& call, const R* w, const R* x, R* y, R* notes) const {
        const std::size_t n = call.batch * call.in;
        inner_.forward(call.child(0, call.in), w, x, notes, notes + n);
        for (std::size_t i = 0; i < n; ++i) y[i] = x[i] + notes[i];
    }
    template <class R>
    void backward(const Call& call, const R* w, const R* x, const R*, const R* notes, const R* dy, R* dx, R* dw) const {
        inner_.backward(call.child(0, call.in), w, x, notes, notes + call.batch * call.in, dy, dx, dw);
        skip_back(call, dy, dx);
    }
    template <class R>
        requires FusedLayer<Inner, R>
    void step(const Call& call, R* w, const R* x, const R*, const R* notes, const R* dy, R* dx,
              const Update<R>& update) const {
        inner_.step(call.child(0, call.in), w, x, notes, notes + call.batch * call.in, dy, dx, update);
        skip_back(call, dy, dx);
    }

private:
    template <class R>
    static void skip_back(const Call& call, const R* dy, R* dx) {
        if (!dx) return;
        for (std::size_t i = 0; i < call.batch * call.in; ++i) dx[i] += dy[i];
    }

    Inner inner_{};
};

template <std::size_t Width, std::size_t Rank, class Start = LastAtZero>
using Bottleneck = Adapter<Sequential<Linear<Width, Rank>, Relu, Linear<Rank, Width>>, Start>;

}  // namespace tessera::nn
