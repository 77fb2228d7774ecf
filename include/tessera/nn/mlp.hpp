// SPDX-License-Identifier: BSD-3-Clause
// A network of linear layers whose widths are known at run time only: for data that is read, not compiled for.
//
//   widths {in, classes}            logistic regression, Mclr<in, classes>
//   widths {in, hidden, classes}    a leaky ReLU between the layers, Dnn<in, hidden, classes>
//
// The same kernels in the same order as Network over Linear and LeakyRelu: names, parts, first parameters and
// every bit are those of the network compiled for these widths. Copies share the layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tessera/contracts/model.hpp>
#include <tessera/contracts/sparse.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/backend.hpp>
#include <tessera/kernels/softmax.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/loss.hpp>
#include <tessera/nn/sparse_mlp.hpp>

namespace tessera::nn {

template <class R = float>
class Mlp {
public:
    static constexpr auto offers = offer::fused | offer::forward_flops | offer::input_width | offer::logits |
                                   offer::features | offer::aligned | offer::sparse;
    using Real = R;

    explicit Mlp(std::span<const std::size_t> widths, double slope = 0.1)
        : plan_(std::make_shared<const Plan>(widths)), slope_(slope) {}
    Mlp(std::initializer_list<std::size_t> widths, double slope = 0.1)
        : Mlp(std::span<const std::size_t>(widths.begin(), widths.size()), slope) {}

    Layout layout() const { return plan_->segments; }
    std::size_t input_width() const { return plan_->layers.front().in; }
    std::size_t outputs() const { return plan_->layers.back().out; }
    double slope() const { return slope_; }
    double forward_flops() const {
        double sum = 0;
        for (const auto& l : plan_->layers) sum += static_cast<double>(2 * l.in * l.out + l.out);
        return sum;
    }

    double gradient(In<R> w, const Batch<R>& batch, Out<R> out) const {
        const Forward run(*this, w, batch);
        const double loss = SoftmaxCrossEntropy::gradient(batch, Out<R>(run.z));
        run.backward(w, run.z.data(), out);
        return loss;
    }
    void predict(In<R> w, const Batch<R>& batch, Out<R> out) const {
        logits(w, batch, out);
        SoftmaxCrossEntropy::predict(out.first(batch.size() * outputs()), outputs());
    }
    void logits(In<R> w, const Batch<R>& batch, Out<R> out) const {
        const Forward run(*this, w, batch);
        std::copy(run.z.begin(), run.z.end(), out.begin());
    }
    void pullback(In<R> w, const Batch<R>& batch, In<R> dz, Out<R> out) const {
        Forward(*this, w, batch).backward(w, dz.data(), out);
    }
    std::size_t feature_width() const { return plan_->layers.back().in; }
    void features(In<R> w, const Batch<R>& batch, Out<R> out) const {
        const Forward run(*this, w, batch);
        if (plan_->layers.size() == 1)
            for (std::size_t i = 0; i < batch.size(); ++i) batch.read(i, out.subspan(i * input_width(), input_width()));
        else std::copy_n(run.active(plan_->layers.size() - 2), batch.size() * feature_width(), out.begin());
    }

    bool aligns() const { return plan_->layers.size() > 1; }
    double aligned_gradient(In<R> w, const Batch<R>& batch, FeatureTerm<R> term, Out<R> out) const {
        const Forward run(*this, w, batch);
        const std::size_t n = batch.size() * feature_width();
        double loss = SoftmaxCrossEntropy::gradient(batch, Out<R>(run.z));
        run.backward(w, run.z.data(), out, [&](const R* features, R* slope) {
            loss += term(In<R>(features, n), Out<R>(slope, n));
        });
        return loss;
    }

    // As Network: clipping needs the whole gradient first, a mask the sparse kernels, and no layer is cut in two.
    bool fuses(const Step<R>& s) const {
        bool whole = s.clip == 0 && !s.terms.active;
        for (const auto& l : plan_->layers)
            whole = whole && (s.terms.on.covers(l.parameters()) || !s.terms.on.touches(l.parameters()));
        return whole;
    }
    double step(Out<R> w, const Batch<R>& batch, const Step<R>& s) const {
        const Forward run(*this, w, batch);
        const double loss = SoftmaxCrossEntropy::gradient(batch, Out<R>(run.z));
        const kernels::UpdatePulls<R> pulls{s.terms.pull != 0 ? s.terms.toward.data() : nullptr, s.terms.also.data(),
                                            s.momentum != 0 ? s.velocity->data() : nullptr};
        const kernels::UpdateNumbers<R> numbers{R(s.rate), R(s.decay), R(s.terms.pull), R(s.momentum)};
        const auto update = [&](const Dense& l, auto x, const R* dy) {
            if (s.terms.on.touches(l.parameters()))
                backend::Simd::affine_update(dy, x, w.data() + l.weight, run.batch.size(), l.in, l.out,
                                             pulls.at(l.weight), numbers);
        };
        run.descend(w.data(), run.z.data(), update, as_it_is);
        return loss;
    }

    // On the active coordinates of a mask.
    auto sparse(const Mask& mask, std::size_t batch, Arithmetic how) const {
        return SparseMlp<Mlp>(*this, mask, batch, how);
    }

    void require_width_of(const Batch<R>& b) const {
        if (b.width() != input_width())  // the sentence is of the heap, which a warm step does not ask
            throw ConfigError("examples have " + std::to_string(b.width()) + " numbers, the model reads " +
                              std::to_string(input_width()));
    }

private:
    struct Dense {
        std::size_t in, out, weight;  // weight: offset of [out][in], which the bias follows
        std::size_t before;           // numbers an example that the hidden layers below leave
        std::size_t bias() const { return weight + in * out; }
        Range parameters() const { return {weight, bias() + out}; }
    };

    struct Plan {
        std::vector<Dense> layers;
        std::vector<Segment> segments;
        std::size_t notes = 0;  // of an example: each hidden layer's output, before and after its activation

        explicit Plan(std::span<const std::size_t> widths) {
            using tessera::detail::require;
            require(widths.size() >= 2, "nn::Mlp: widths are the inputs, any hidden layers and the outputs; " +
                                            std::to_string(widths.size()) + " of them are too few");
            constexpr auto most = std::numeric_limits<std::size_t>::max() / 64;
            std::size_t offset = 0;
            for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
                const std::size_t in = widths[i], out = widths[i + 1];
                require(in > 0 && out > 0, "nn::Mlp: a width is 0; each must be at least 1");
                require(in < most / out && offset < most - in * out, "nn::Mlp: " + std::to_string(in) + " x " +
                                                                         std::to_string(out) +
                                                                         " weights are more than memory can hold");
                const bool first = i == 0, last = i + 2 == widths.size();
                const Part part = last ? Part::head : first ? Part::input : Part::body;
                const std::string name = std::to_string(2 * i);  // activations are layers too
                layers.push_back({in, out, offset, notes});
                segments.push_back({.name = Name(name + ".weight"),
                                    .part = part,
                                    .offset = offset,
                                    .shape = {out, in, 1, 1},
                                    .rank = 2,
                                    .fan_in = in});
                segments.push_back({.name = Name(name + ".bias"),
                                    .part = part,
                                    .offset = offset + in * out,
                                    .shape = {out, 1, 1, 1},
                                    .rank = 1,
                                    .fan_in = in});
                offset += in * out + out;
                if (!last) notes += 2 * out;
            }
        }
    };

    static constexpr bool reads_bytes = std::is_same_v<R, float>;
    static constexpr auto as_it_is = [](const R*, R*) {};

    // One pass, and what it leaves for the way back. The minibatch is read as Network reads it: bytes by the kernels
    // where they can, rows in place where each begins a cache line, else a copy.
    struct Forward {
        const Mlp& net;
        const Batch<R>& batch;
        kernels::ByteRows raw{};
        Scratch<R> x, notes, z;
        Scratch<const R*> rows;

        Forward(const Mlp& mlp, In<R> w, const Batch<R>& b)
            : net(mlp),
              batch(b),
              raw(bytes_of(mlp, b)),
              x(in_bytes() || lies_ready() ? 0 : b.size() * mlp.input_width()),
              notes(b.size() * mlp.plan_->notes),
              z(b.size() * mlp.outputs()),
              rows(b.size()) {
            mlp.require_width_of(b);
            for (std::size_t i = 0; !in_bytes() && i < b.size(); ++i) load(i);
            const auto& layers = mlp.plan_->layers;
            for (std::size_t l = 0; l < layers.size(); ++l) {
                const Dense& d = layers[l];
                R* y = l + 1 < layers.size() ? notes.data() + b.size() * d.before : z.data();
                with_input(l, [&](auto in) {
                    backend::Simd::affine(in, w.data() + d.weight, w.data() + d.bias(), y, b.size(), d.in, d.out);
                });
                if (l + 1 < layers.size())
                    kernels::leaky_relu(y, y + b.size() * d.out, b.size() * d.out, static_cast<R>(mlp.slope_));
            }
        }
        const R* linear(std::size_t l) const { return notes.data() + batch.size() * net.plan_->layers[l].before; }
        const R* active(std::size_t l) const { return linear(l) + batch.size() * net.plan_->layers[l].out; }

        // f(layer, its input, the gradient with respect to its output) from the last layer to the first; the gradient
        // of its input has been taken before, so f may move its weights. at_last(input, slope) as Sequential's.
        template <class F, class AtLast>
        void descend(const R* w, const R* dz, const F& f, const AtLast& at_last) const {
            const auto& layers = net.plan_->layers;
            std::size_t widest = 0;
            for (const auto& d : layers) widest = std::max(widest, d.in);
            const std::size_t room = layers.size() > 1 ? batch.size() * widest : 0;
            const Scratch<R> activation(room), one(room), other(room);
            const R* dy = dz;
            for (std::size_t l = layers.size(); l-- > 0;) {
                const Dense& d = layers[l];
                R* below = dy == one.data() ? other.data() : one.data();
                if (l > 0) {
                    backend::Simd::affine_input_gradient(dy, w + d.weight, activation.data(), batch.size(), d.in,
                                                         d.out);
                    if (l + 1 == layers.size()) at_last(active(l - 1), activation.data());
                    kernels::leaky_relu_gradient(linear(l - 1), activation.data(), below, batch.size() * d.in,
                                                 static_cast<R>(net.slope_));
                }
                with_input(l, [&](auto in) { f(d, in, dy); });
                dy = below;
            }
        }
        template <class AtLast = decltype(as_it_is)>
        void backward(In<R> w, const R* dz, Out<R> out, const AtLast& at_last = as_it_is) const {
            const auto weight_gradient = [&](const Dense& d, auto in, const R* dy) {
                backend::Simd::affine_weight_gradient(dy, in, out.data() + d.weight, out.data() + d.bias(),
                                                      batch.size(), d.in, d.out);
            };
            descend(w.data(), dz, weight_gradient, at_last);
        }

    private:
        template <class F>
        void with_input(std::size_t l, const F& f) const {
            if (l > 0) return f(active(l - 1));
            if constexpr (reads_bytes)
                if (in_bytes()) return f(raw);
            f(static_cast<const R* const*>(rows.data()));
        }
        bool in_bytes() const { return raw.examples != nullptr; }
        static kernels::ByteRows bytes_of(const Mlp& mlp, const Batch<R>& b) {
            const Examples& e = b.examples();
            const bool pays = kernels::tiles_pay(mlp.plan_->layers.front().out);
            if (reads_bytes && e.storage == Storage::bytes && pays && kernels::tiles_read(e.shift, b.width()))
                return {static_cast<const std::uint8_t*>(e.rows), b.ids().data(), e.shift, e.scale};
            return {};
        }
        bool lies_ready() const {
            if (batch.size() == 0 || !batch.row(0) || batch.width() * sizeof(R) % alignment != 0) return false;
            return reinterpret_cast<std::uintptr_t>(batch.row(0)) % alignment == 0;
        }
        void load(std::size_t i) {
            const std::size_t width = batch.width();
            rows[i] = x.size() == 0 ? batch.row(i) : x.data() + i * width;
            if (x.size() == 0) return;
            R* to = x.data() + i * width;
            batch.fetch(i + 2);
            if (const auto* bytes = batch.bytes(i))
                kernels::widen_bytes(bytes, to, width, R(batch.examples().shift), R(batch.examples().scale));
            else batch.read(i, Out<R>(to, width));
        }
    };

    std::shared_ptr<const Plan> plan_;
    double slope_;
};

}  // namespace tessera::nn
