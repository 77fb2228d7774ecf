// SPDX-License-Identifier: BSD-3-Clause
// A model made of layers and a loss. The first layer with parameters is the input part, the last one the
// head, everything between keeps the part its layer names (body unless it is a norm or an adapter).
#pragma once

#include <cstddef>
#include <utility>

#include <tessera/contracts/model.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/loss.hpp>
#include <tessera/nn/sequential.hpp>

namespace tessera::nn {

template <class R, std::size_t Inputs, class Layers, class Loss = SoftmaxCrossEntropy>
class Network {
    static_assert(Layer<Layers, R>, "tessera::nn::Network: the second argument must be a layer, such as Sequential<...>");
    static_assert(Layers::width(Inputs) > 0, "tessera::nn::Network: the widths of neighbouring layers do not fit");

public:
    using Real = R;
    static constexpr std::size_t inputs = Inputs;
    static constexpr auto segments = [] {
        auto all = Layers::segments;
        // A layer's segments share the prefix of their name up to the last dot.
        const auto owner = [](const Segment& s) {
            const auto name = s.name.view();
            const auto dot = name.rfind('.');
            return name.substr(0, dot == name.npos ? 0 : dot);
        };
        Segment first{}, last{};  // of the plain layers: a norm, an adapter or a router keeps its part
        for (const auto& s : all)
            if (s.part == Part::body) {
                if (first.name.view().empty()) first = s;
                last = s;
            }
        for (auto& s : all)
            if (s.part == Part::body && owner(s) == owner(first)) s.part = Part::input;
        for (auto& s : all)
            if ((s.part == Part::body || s.part == Part::input) && owner(s) == owner(last)) s.part = Part::head;
        return all;
    }();
    static constexpr std::size_t parameters = dimension(Layout(segments));

    constexpr Network() = default;
    constexpr explicit Network(Layers layers) : layers_(std::move(layers)) {}

    Layout layout() const { return segments; }
    std::size_t outputs() const { return Layers::width(Inputs); }
    double forward_flops() const { return Layers::flops(Inputs); }

    double gradient(In<R> w, const Batch<R>& batch, Out<R> out) const {
        Forward run(*this, w, batch);
        const double loss = Loss::gradient(batch, Out<R>(run.z));
        run.backward(*this, w, run.z, out);
        return loss;
    }

    // One pass per layer, no stored gradient. Clipping needs the whole gradient first, a mask the sparse kernels,
    // and a scope must not cut a layer in two.
    bool fuses(const Step<R>& s) const
        requires FusedLayer<Layers, R>
    {
        bool whole = s.clip == 0 && !s.terms.active;
        const auto look = [&](Range r) { whole = whole && (s.terms.on.covers(r) || !s.terms.on.touches(r)); };
        if constexpr (requires { Layers::for_each_layer(look); })
            Layers::for_each_layer(look);
        else
            look({0, parameters});  // a single layer that is no Sequential
        return whole;
    }
    double step(Out<R> w, const Batch<R>& batch, const Step<R>& s) const
        requires FusedLayer<Layers, R>
    {
        Forward run(*this, w, batch);
        const double loss = Loss::gradient(batch, Out<R>(run.z));
        const Update<R> update{.pulls = {s.terms.pull != 0 ? s.terms.toward.data() : nullptr, s.terms.also.data(),
                                         s.momentum != 0 ? s.velocity->data() : nullptr},
                               .numbers = {R(s.rate), R(s.decay), R(s.terms.pull), R(s.momentum)},
                               .on = &s.terms.on};
        layers_.step(run.call, w.data(), run.x.data(), run.z.data(), run.notes.data(), run.z.data(),
                     static_cast<R*>(nullptr), update);
        return loss;
    }
    void predict(In<R> w, const Batch<R>& batch, Out<R> out) const {
        logits(w, batch, out);
        for (std::size_t i = 0; i < batch.size(); ++i) Loss::predict(out.subspan(i * outputs(), outputs()));
    }

    void logits(In<R> w, const Batch<R>& batch, Out<R> out) const {
        const Forward run(*this, w, batch);
        std::copy(run.z.begin(), run.z.end(), out.begin());
    }
    // Gradient of sum_i <dz_i, logits_i>.
    void pullback(In<R> w, const Batch<R>& batch, In<R> dz, Out<R> out) const {
        Forward(*this, w, batch).backward(*this, w, dz, out);
    }

    // A single layer that is no Sequential has no last layer to look behind.
    std::size_t feature_width() const
        requires requires { Layers::last_width(Inputs); }
    {
        return Layers::last_width(Inputs);
    }
    void features(In<R> w, const Batch<R>& batch, Out<R> out) const
        requires requires { Layers::last_width(Inputs); }
    {
        const Forward run(*this, w, batch);
        const R* from = Layers::last_input(run.call, run.x.data(), run.notes.data());
        std::copy_n(from, batch.size() * feature_width(), out.begin());
    }

private:
    struct Forward {
        Call call;
        Vec<R> x, notes, z;

        Forward(const Network& net, In<R> w, const Batch<R>& batch)
            : call{batch.size(), Inputs, batch.training(), batch.draw()},
              x(batch.size() * Inputs),
              notes(batch.size() * Layers::notes(Inputs)),
              z(batch.size() * Layers::width(Inputs)) {
            load(batch);
            net.layers_.forward(call, w.data(), x.data(), z.data(), notes.data());
        }
        void backward(const Network& net, In<R> w, In<R> dz, Out<R> out) const {
            net.layers_.backward(call, w.data(), x.data(), z.data(), notes.data(), dz.data(), static_cast<R*>(nullptr),
                                 out.data());
        }
        void load(const Batch<R>& batch) {
            for (std::size_t i = 0; i < batch.size(); ++i) {
                R* to = x.data() + i * Inputs;
                if (const auto* bytes = batch.bytes(i))
                    kernels::widen_bytes(bytes, to, Inputs, R(batch.examples().shift), R(batch.examples().scale));
                else
                    batch.read(i, Out<R>(to, Inputs));
            }
        }
    };

    Layers layers_{};
};

}  // namespace tessera::nn
