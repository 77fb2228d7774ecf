// SPDX-License-Identifier: BSD-3-Clause
// A list of layers as a device runs it: for many clients at once, each with parameters of its own.
//
// Numbers lie [client][example][...], in the places of the list's own plan (nn/plan.hpp), counted in examples of all
// clients. Products of all clients are one batched product. A layer that is not here stays on the host; so does a list
// with it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <tessera/core/layout.hpp>
#include <tessera/device/kernels.hpp>
#include <tessera/device/runtime.hpp>
#include <tessera/device/sparse.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/graph.hpp>
#include <tessera/nn/joint.hpp>
#include <tessera/nn/layer_norm.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/norm.hpp>

namespace tessera::device {

using kernel::Long;

// One call of a layer: clients that are still under way, and where they are. A client's parameters are `stride` apart.
struct Call {
    const Context* on;
    std::size_t clients, examples, stride;
    const float* w;
    std::array<const float*, nn::Spec::most_inputs> xs{};
    float *y = nullptr, *saved = nullptr;
    const float* dy = nullptr;
    std::array<float*, nn::Spec::most_inputs> dxs{};
    const ActiveWeights* active = nullptr;  // of a linear layer whose weights are few
    float* room = nullptr;                  // of the layer's own, for a call
    std::size_t room_examples = 1;          // of each client at once

    std::size_t rows() const { return clients * examples; }
    cudaStream_t stream() const { return on->stream(); }
};

// Where slopes of parameters go: to = beta to + alpha slope, counted like the parameters.
struct Sink {
    float* to;
    float alpha, beta;
};

// What a layer does on a device.
class Layer {
public:
    const nn::Spec* spec = nullptr;
    std::size_t begin = 0;  // of its parameters

    virtual ~Layer() = default;
    virtual void forward(const Call&) const = 0;
    virtual void back_input(const Call&) const = 0;  // writes every dx that is wanted
    virtual void back_weights(const Call&, const Sink&) const {}
    virtual bool is_linear() const { return false; }
    virtual std::size_t room() const { return 0; }  // numbers per example

protected:
    static Long count(std::size_t n) { return static_cast<Long>(n); }
    const nn::Shape& in(std::size_t k = 0) const { return spec->in[k]; }
    std::size_t segment(std::size_t k) const { return begin + spec->segments[k].offset; }
};

namespace detail {

using namespace kernel;

class Linear final : public Layer {
public:
    explicit Linear(const nn::Linear& l) : bias_(l.bias) {}
    bool is_linear() const override { return true; }

    void forward(const Call& c) const override {
        const std::size_t n = rows(c), width = in().width();
        if (c.active) c.active->forward(c.w, c.xs[0], c.y, c.clients, n);
        else
            c.on->product({c.xs[0], width, n * width}, {c.w + begin, width, c.stride, true}, c.y, out(), n * out(), n,
                          out(), width, c.clients);
        if (bias_)
            must(tessera_add_bias(count(c.clients * n * out()), c.y, c.w, count(segment(1)), count(c.stride),
                                  count(n * out()), count(out()), 1, c.stream()));
    }
    void back_input(const Call& c) const override {
        const std::size_t n = rows(c), width = in().width();
        if (c.dxs[0])
            c.on->product({c.dy, out(), n * out()}, {c.w + begin, width, c.stride}, c.dxs[0], width, n * width, n,
                          width, out(), c.clients);
    }
    void back_weights(const Call& c, const Sink& s) const override {
        const std::size_t n = rows(c), width = in().width();
        if (c.active) c.active->gradient(c.dy, c.xs[0], s.to, c.clients, n, s.alpha, s.beta);
        else
            c.on->product({c.dy, out(), n * out(), true}, {c.xs[0], width, n * width}, s.to + begin, width, c.stride,
                          out(), width, n, c.clients, s.alpha, s.beta);
        if (bias_)
            must(tessera_bias_sums(count(c.clients * out()), c.dy, s.to, count(segment(1)), count(c.stride), count(n),
                                   count(out()), 1, s.alpha, s.beta, c.stream()));
    }

private:
    std::size_t rows(const Call& c) const { return c.examples * in().positions(); }
    std::size_t out() const { return spec->out.width(); }

    bool bias_;
};

// Patches of some examples of every client at a time, so that their room stays small, and one product of these.
class Conv final : public Layer {
public:
    Conv(const nn::Conv2d& l, const nn::Spec& s)
        : bias_(l.bias),
          window_{count(s.in[0].sizes[0]), count(s.in[0].sizes[1]), count(s.in[0].sizes[2]),
                  count(l.kernel),         count(l.stride),         count(l.pad),
                  count(s.out.sizes[1]),   count(s.out.sizes[2])},
          taps_(s.in[0].sizes[0] * l.kernel * l.kernel),
          pixels_(s.out.sizes[1] * s.out.sizes[2]),
          out_(s.out.sizes[0]) {}

    std::size_t room() const override { return pixels_ * (taps_ + out_); }
    void forward(const Call& c) const override {
        pieces(c, [&](std::size_t first, std::size_t some, float* patches, float* rows) {
            take(c, first, some, patches);
            const std::size_t n = some * pixels_;
            c.on->product({patches, taps_, n * taps_}, {c.w + begin, taps_, c.stride, true}, rows, out_, n * out_, n,
                          out_, taps_, c.clients);
            must(tessera_rows_to_planes(count(c.clients * n * out_), rows, c.y, count(out_), count(pixels_),
                                        count(c.examples), count(first), count(some), c.stream()));
        });
        if (bias_)
            must(tessera_add_bias(count(c.rows() * out_ * pixels_), c.y, c.w, count(segment(1)), count(c.stride),
                                  count(c.examples * out_ * pixels_), count(out_), count(pixels_), c.stream()));
    }
    void back_input(const Call& c) const override {
        if (!c.dxs[0]) return;
        pieces(c, [&](std::size_t first, std::size_t some, float* patches, float* rows) {
            turn(c, first, some, rows);
            const std::size_t n = some * pixels_;
            c.on->product({rows, out_, n * out_}, {c.w + begin, taps_, c.stride}, patches, taps_, n * taps_, n, taps_,
                          out_, c.clients);
            must(tessera_patches_slope(count(c.clients * some * in().size()), patches, c.dxs[0], window_,
                                       count(c.examples), count(first), count(some), c.stream()));
        });
    }
    void back_weights(const Call& c, const Sink& s) const override {
        pieces(c, [&](std::size_t first, std::size_t some, float* patches, float* rows) {
            take(c, first, some, patches);
            turn(c, first, some, rows);
            const std::size_t n = some * pixels_;
            c.on->product({rows, out_, n * out_, true}, {patches, taps_, n * taps_}, s.to + begin, taps_, c.stride,
                          out_, taps_, n, c.clients, s.alpha, first == 0 ? s.beta : 1);
        });
        if (bias_)
            must(tessera_bias_sums(count(c.clients * out_), c.dy, s.to, count(segment(1)), count(c.stride),
                                   count(c.examples), count(out_), count(pixels_), s.alpha, s.beta, c.stream()));
    }

private:
    // f(first example, how many, room for patches, room for rows)
    template <class F>
    void pieces(const Call& c, const F& f) const {
        float* const rows = c.room + c.clients * c.room_examples * pixels_ * taps_;
        for (std::size_t first = 0; first < c.examples; first += c.room_examples)
            f(first, std::min(c.room_examples, c.examples - first), c.room, rows);
    }
    void take(const Call& c, std::size_t first, std::size_t some, float* patches) const {
        must(tessera_patches(count(c.clients * some * pixels_ * taps_), c.xs[0], patches, window_, count(c.examples),
                             count(first), count(some), c.stream()));
    }
    void turn(const Call& c, std::size_t first, std::size_t some, float* rows) const {
        must(tessera_planes_to_rows(count(c.clients * some * pixels_ * out_), c.dy, rows, count(out_), count(pixels_),
                                    count(c.examples), count(first), count(some), c.stream()));
    }

    bool bias_;
    Window window_;
    std::size_t taps_, pixels_, out_;
};

class LeakyRelu final : public Layer {
public:
    explicit LeakyRelu(double slope) : slope_(static_cast<float>(slope)) {}

    void forward(const Call& c) const override {
        must(tessera_leaky_relu(numbers(c), c.xs[0], c.y, slope_, c.stream()));
    }
    void back_input(const Call& c) const override {
        if (c.dxs[0]) must(tessera_leaky_relu_slope(numbers(c), c.y, c.dy, c.dxs[0], slope_, c.stream()));
    }

private:
    Long numbers(const Call& c) const { return count(c.rows() * in().size()); }

    float slope_;
};

// Group and layer norms: groups lie side by side.
class NormOf final : public Layer {
public:
    NormOf(const nn::Spec& s, std::size_t rows, std::size_t width, std::size_t groups, std::size_t pairs, double eps)
        : each_(rows), eps_(static_cast<float>(eps)), pairs_(s.parameters > 0) {
        shape_.numbers = count(width / groups);
        shape_.groups = count(groups);
        shape_.pairs = count(pairs);
        shape_.run = count(width / groups / pairs);
        shape_.none = !pairs_;
    }

    void forward(const Call& c) const override {
        must(tessera_norm(groups(c), c.xs[0], c.w, c.y, c.saved, shape(c), eps_, c.stream()));
    }
    void back_input(const Call& c) const override {
        if (c.dxs[0]) must(tessera_norm_slope(groups(c), c.xs[0], c.dy, c.w, c.saved, c.dxs[0], shape(c), c.stream()));
    }
    void back_weights(const Call& c, const Sink& s) const override {
        if (pairs_)
            must(tessera_norm_pairs(count(c.clients) * shape_.groups * shape_.pairs, c.xs[0], c.dy, c.saved, s.to,
                                    shape(c), count(segment(0)), count(c.stride), s.alpha, s.beta, c.stream()));
    }

private:
    Long groups(const Call& c) const { return count(c.rows() * each_) * shape_.groups; }
    Norm shape(const Call& c) const {
        Norm s = shape_;
        s.examples = count(c.examples * each_);
        s.scale = count(pairs_ ? segment(0) : 0);
        s.shift = count(pairs_ ? segment(1) : 0);
        s.stride = count(c.stride);
        return s;
    }

    std::size_t each_;  // rows of groups an example
    float eps_;
    bool pairs_;
    Norm shape_{};
};

class MaxPool final : public Layer {
public:
    explicit MaxPool(std::size_t kernel) : kernel_(count(kernel)) {}

    void forward(const Call& c) const override {
        must(
            tessera_max_pool(count(c.rows() * spec->out.size()), c.xs[0], c.y, height(), width(), kernel_, c.stream()));
    }
    void back_input(const Call& c) const override {
        if (c.dxs[0])
            must(tessera_max_pool_slope(count(c.rows() * in().size()), c.xs[0], c.y, c.dy, c.dxs[0], height(), width(),
                                        kernel_, c.stream()));
    }

private:
    Long height() const { return count(in().sizes[1]); }
    Long width() const { return count(in().sizes[2]); }

    Long kernel_;
};

class MeanPool final : public Layer {
public:
    void forward(const Call& c) const override {
        must(tessera_mean_pool(count(c.rows() * spec->out.size()), c.xs[0], c.y, plane(), c.stream()));
    }
    void back_input(const Call& c) const override {
        if (c.dxs[0]) must(tessera_mean_pool_slope(count(c.rows() * in().size()), c.dy, c.dxs[0], plane(), c.stream()));
    }

private:
    Long plane() const { return count(in().sizes[1] * in().sizes[2]); }
};

class Add final : public Layer {
public:
    void forward(const Call& c) const override {
        must(tessera_add(count(c.rows() * in().size()), c.xs[0], c.xs[1], c.y, c.stream()));
    }
    void back_input(const Call& c) const override {
        for (const std::size_t k : {0u, 1u})
            if (c.dxs[k] && c.dxs[k] != c.dy) c.on->across(c.dy, c.dxs[k], c.rows() * in().size());
    }
};

template <class L>
const L* layer_of(const nn::Op<float>& op) {
    const auto* of = dynamic_cast<const nn::OpOf<float, L>*>(&op);
    return of ? &of->layer() : nullptr;
}

// Null: there are no kernels for it.
inline std::unique_ptr<Layer> translated(const nn::Op<float>& op) {
    const nn::Spec& s = op.spec;
    const nn::Shape& in = s.in[0];
    if (const auto* l = layer_of<nn::Linear>(op)) return std::make_unique<Linear>(*l);
    if (const auto* l = layer_of<nn::Conv2d>(op)) return std::make_unique<Conv>(*l, s);
    if (layer_of<nn::Relu>(op)) return std::make_unique<LeakyRelu>(0);
    if (const auto* l = layer_of<nn::LeakyRelu>(op)) return std::make_unique<LeakyRelu>(l->slope);
    if (const auto* l = layer_of<nn::GroupNorm>(op)) {
        const std::size_t channels = in.rank == 2 ? in.sizes[1] : in.sizes[0];
        const std::size_t groups = l->each > 0 ? channels / l->each : l->groups;
        const std::size_t pairs = l->affine == nn::Affine::channel ? channels / groups : 1;
        return std::make_unique<NormOf>(s, in.positions(), in.width(), groups, pairs, l->eps);
    }
    if (const auto* l = layer_of<nn::LayerNorm>(op)) {
        const std::size_t n = in.sizes[in.rank - 1];
        return std::make_unique<NormOf>(s, in.size() / n, n, 1, n, l->eps);
    }
    if (const auto* l = layer_of<nn::MaxPool2d>(op)) return std::make_unique<MaxPool>(l->kernel);
    if (layer_of<nn::MeanPool>(op)) return std::make_unique<MeanPool>();
    if (layer_of<nn::Add>(op)) return std::make_unique<Add>();
    return nullptr;
}

}  // namespace detail

// The list, or why it stays on the host.
class Program {
public:
    explicit Program(const nn::Blueprint<float>& model) : graph_(model.graph) {
        const auto& g = *graph_;
        if (!model.softmax || g.positions() != 1) {
            refused_ = "a loss other than the softmax cross-entropy of one label an example";
            return;
        }
        for (std::size_t i = 0; i < g.size(); ++i) {
            const auto& n = g.nodes[i];
            auto layer =
                n.shared || n.spec().buffers > 0 || n.spec().batch_saved > 0 ? nullptr : detail::translated(*n.op);
            if (!layer) {
                refused_ = "a network whose layer " + std::to_string(i + 1) + " has no kernels on the device";
                return;
            }
            layer->spec = &n.spec();
            layer->begin = n.w;
            room_ = std::max(room_, layer->room());
            layers_.push_back(std::move(layer));
        }
    }
    const std::string& refused() const { return refused_; }  // empty: the device takes it
    const nn::Graph<float>& graph() const { return *graph_; }
    const Layer& layer(std::size_t i) const { return *layers_[i]; }
    std::size_t room() const { return room_; }  // numbers per example that the largest layer wants for itself

private:
    const nn::Graph<float>* graph_;
    std::vector<std::unique_ptr<Layer>> layers_;
    std::size_t room_ = 0;
    std::string refused_;
};

}  // namespace tessera::device
