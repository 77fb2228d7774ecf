// SPDX-License-Identifier: BSD-3-Clause
// How linear layers of run-time widths (nn/mlp.hpp) run on the active coordinates of a mask: the kernels, their order
// and so every bit are those of the network compiled for these widths (nn/sparse_layers.hpp).
#pragma once

#include <cstddef>
#include <optional>

#include <tessera/contracts/sparse.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/kernels/backend.hpp>
#include <tessera/kernels/softmax.hpp>
#include <tessera/nn/loss.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/nn/sparse_linear.hpp>

namespace tessera::nn {

namespace detail {

// What Layered is to a network. The layout has a matrix of weights and a vector of biases for each layer.
template <class M>
struct MlpLayers {
    static constexpr bool exists = true;
    using R = real<M>;

    // Empty if no layer goes sparse.
    static Vec<SparseLayer> plan(const M& model, const Mask& mask, std::size_t batch, Arithmetic how) {
        const Layout layout = model.layout();
        Vec<SparseLayer> all;
        bool any = false;
        std::size_t packed = 0;
        for (std::size_t i = 0; i < layout.size(); i += 2) {
            auto& layer = all.emplace_back();
            layer.whole = {layout[i].offset, layout[i + 1].end()};
            layer.packed = {packed, packed + count_active(mask, layer.whole.begin, layer.whole.end)};
            packed = layer.packed.end;
            layer.inputs = inputs_of(layout[i]);
            layer.outputs = outputs_of(layout[i]);
            plan_linear(layer, mask, i == 0, batch, how);
            any = any || layer.sparse;
        }
        if (!any) all.clear();
        return all;
    }

    // 5.5: two for an active weight and one for an active bias.
    static double flops(const M& model, const Mask& mask) {
        double sum = 0;
        for (const Segment& s : model.layout())
            sum += (s.rank > 1 ? 2 : 1) * static_cast<double>(count_active(mask, s.offset, s.end()));
        return sum;
    }

    // As in Layered: the gradient takes the place of the weights.
    static double gradient_in_place(const M& model, const Batch<R>& batch, R* w) {
        model.require_width_of(batch);
        const Scratch<R> x(batch.size() * batch.width());
        load_rows(batch, batch.width(), x.data());
        return in_place(model, batch, model.layout(), x.data(), w, nullptr);
    }

    static void to_predictions(const M& model, Out<R> outputs) {
        SoftmaxCrossEntropy::predict(outputs, model.outputs());
    }

    // One pass over a batch.
    class Run {
    public:
        Run(const M& model, const Mask& mask, const Vec<SparseLayer>& layers, In<R> packed, const Batch<R>& batch)
            : mask_(&mask), layers_(&layers), batch_(&batch), slope_(static_cast<R>(model.slope())),
              inputs_(layers.size()), outputs_(layers.size()), weights_(layers.size()) {
            model.require_width_of(batch);
            for (std::size_t l = 0; l < layers.size(); ++l) forward(l, packed.data());
        }
        // Raw outputs, and later their gradient.
        Out<R> outputs() { return {outputs_.back().rows_to_write(), outputs_.back().size(false)}; }
        // Leaves the gradient in the outputs in their place, which no linear layer reads again.
        double loss() { return SoftmaxCrossEntropy::gradient(*batch_, outputs()); }

        // The gradient of the outputs stands in their place. Writes the packed gradient.
        void backward(const R* packed, R* gradient) { descend({const_cast<R*>(packed), gradient}); }
        // Moves the packed values.
        void step(R* packed, Update<R> update, const Where& on) {
            update.on = &on;
            descend({packed, nullptr, &update});
        }

    private:
        const R* input(std::size_t l, bool blocked) {
            if (l > 0) return inputs_[l].get(blocked);
            return blocked ? inputs_[0].blocks(*batch_) : inputs_[0].rows(*batch_);
        }

        void forward(std::size_t l, const R* packed) {
            const auto& layer = (*layers_)[l];
            inputs_[l].shape(batch_->size(), layer.inputs);
            outputs_[l].shape(batch_->size(), layer.outputs);
            if (l > 0) activate(outputs_[l - 1], inputs_[l]);
            const R* x = input(l, layer.sparse);
            R* y = outputs_[l].make(layer.sparse);
            if (layer.sparse) return sparse_forward(layer, *mask_, packed, x, y, batch_->size());
            const R* w = filled_weights(layer, *mask_, packed, weights_[l]);
            backend::Simd::affine(x, w, w + layer.inputs * layer.outputs, y, batch_->size(), layer.inputs,
                                  layer.outputs);
        }
        // Number by number, so in the order in which they lie.
        void activate(Carried<R>& from, Carried<R>& to) const {
            const bool blocked = from.in_blocks();
            kernels::leaky_relu(from.get(blocked), to.make(blocked), from.size(blocked), slope_);
        }

        // From the last layer to the first; the gradient of a layer's outputs takes their place.
        void descend(const Descent<R>& to) {
            for (std::size_t l = layers_->size(); l-- > 0;) {
                Carried<R> dx;
                dx.shape(batch_->size(), (*layers_)[l].inputs);
                back_through(l, to, l > 0 ? &dx : nullptr);
                if (l > 0) activation_gradient(outputs_[l - 1], dx);
            }
        }
        void back_through(std::size_t l, const Descent<R>& to, Carried<R>* dx) {
            const auto& layer = (*layers_)[l];
            const R *dy = outputs_[l].get(layer.sparse), *x = input(l, layer.sparse);
            R* below = dx ? dx->make(layer.sparse) : nullptr;
            if (layer.sparse) return sparse_backward(layer, *mask_, to, dy, x, {below}, batch_->size());
            filled_backward(layer, *mask_, to, [&](R* dw) {
                const R* w = layer.full() ? to.values(layer) : weights_[l]->data();
                linear_backward(layer.inputs, layer.outputs, batch_->size(), w, x, dy, below, dw);
            });
        }
        void activation_gradient(Carried<R>& outputs, Carried<R>& slopes) const {
            const bool blocked = outputs.in_blocks();
            R* y = outputs.get(blocked);
            kernels::leaky_relu_gradient(y, slopes.get(blocked), y, outputs.size(blocked), slope_);
        }

        const Mask* mask_;
        const Vec<SparseLayer>* layers_;
        const Batch<R>* batch_;
        R slope_;
        Vec<Carried<R>> inputs_, outputs_;  // of each layer, before the activation behind it
        Vec<std::optional<Scratch<R>>> weights_;
    };

private:
    static std::size_t inputs_of(const Segment& weights) { return weights.shape[1]; }
    static std::size_t outputs_of(const Segment& weights) { return weights.shape[0]; }

    // dx before dw, which may take the place of w; null: not wanted.
    static void linear_backward(std::size_t in, std::size_t out, std::size_t batch, const R* w, const R* x, const R* dy,
                                R* dx, R* dw) {
        if (dx) backend::Simd::affine_input_gradient(dy, w, dx, batch, in, out);
        if (dw) backend::Simd::affine_weight_gradient(dy, x, dw, dw + in * out, batch, in, out);
    }

    // layout: of the layers that are left; x: what the first of them reads; dx: where the gradient in x goes.
    static double in_place(const M& model, const Batch<R>& batch, Layout layout, const R* x, R* w, R* dx) {
        const std::size_t in = inputs_of(layout[0]), out = outputs_of(layout[0]), numbers = batch.size() * out;
        const bool last = layout.size() == 2;
        const R slope = static_cast<R>(model.slope());
        const Scratch<R> y(numbers), active(last ? 0 : numbers), inner(active.size());
        backend::Simd::affine(x, static_cast<const R*>(w), w + in * out, y.data(), batch.size(), in, out);
        double value = 0;
        if (last) {
            value = SoftmaxCrossEntropy::gradient(batch, Out<R>(y.data(), y.size()));
        } else {
            kernels::leaky_relu(y.data(), active.data(), numbers, slope);
            value = in_place(model, batch, layout.subspan(2), active.data(), w + in * out + out, inner.data());
            kernels::leaky_relu_gradient(y.data(), inner.data(), y.data(), numbers, slope);
        }
        linear_backward(in, out, batch.size(), w, x, y.data(), dx, w);
        return value;
    }
};

}  // namespace detail

template <class M>
using SparseMlp = Sparse<M, detail::MlpLayers<M>>;

}  // namespace tessera::nn
