// SPDX-License-Identifier: BSD-3-Clause
// The law of a layer, of those that conformance.hpp asks:
//
//   conformance::layer(Mine{}, Shape(3, 8, 8))     empty: it keeps the contract of nn/layer.hpp on such inputs
//
// Gradients by differences in double, under a plan that fills rooms with NaN as soon as nobody should read them, so
// that a wrong `backward_reads` or `in_place` is found; a fused step has the bits of two passes; clipped sums are those
// of single gradients; on a mask it is what it is at zero-filled weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tessera/contracts/private.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/by_name.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/random.hpp>
#include <tessera/nn/gradient_check.hpp>
#include <tessera/nn/masked.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/sparse.hpp>

namespace tessera::conformance {

namespace detail {

// y = (1 + a) x + b with numbers of their own, so that what lies above is asked for dx and what lies below for y.
struct Tilt {
    static constexpr Offers offers{};

    constexpr void infer(nn::Spec& s) const {
        const std::size_t n = s.in[0].size();
        s.parameter({.name = "weight", .shape = {n, 1, 1, 1}});
        s.parameter({.name = "bias", .shape = {n, 1, 1, 1}});
        s.out = s.in[0];
        s.backward_reads = nn::Reads::x;
    }
    template <class R>
    void forward(const nn::Pass<R>& p) const {
        const std::size_t n = p.in().size();
        for (std::size_t i = 0; i < p.read(); ++i) p.y[i] = (1 + p.w[i % n]) * p.x()[i] + p.w[n + i % n];
    }
    template <class R>
    void backward(const nn::Pass<R>& p) const {
        const std::size_t n = p.in().size();
        for (std::size_t i = 0; p.dw && i < 2 * n; ++i) p.dw[i] = 0;
        for (std::size_t i = 0; i < p.read(); ++i) {
            if (p.dx()) p.dx()[i] = (1 + p.w[i % n]) * p.dy[i];
            if (!p.dw) continue;
            p.dw[i % n] += p.dy[i] * p.x()[i];
            p.dw[n + i % n] += p.dy[i];
        }
    }
};

template <class R>
class LayerBatch {
public:
    // Of several labels an example some are missing.
    LayerBatch(std::size_t width, std::size_t classes, std::size_t positions)
        : rows_(size * width), labels_(size * positions) {
        Stream draw(Key{11});
        for (R& v : rows_) v = static_cast<R>(draw.normal());
        for (std::size_t i = 0; i < labels_.size(); ++i)
            labels_[i] = positions > 1 && i % 3 == 2 ? -1 : static_cast<std::int32_t>(draw.below(classes));
        for (std::size_t i = 0; i < size; ++i) ids_.push_back(static_cast<Index>(size - 1 - i));
        examples_.size = size;
        examples_.width = width;
        examples_.storage = sizeof(R) == sizeof(float) ? Storage::float32 : Storage::float64;
        examples_.rows = rows_.data();
        examples_.labels = labels_.data();
        examples_.labels_each = positions;
        examples_.classes = classes;
    }
    Batch<R> batch() const { return Batch<R>(examples_, ids_, {}, &draw_); }

private:
    static constexpr std::size_t size = 5;
    std::vector<R> rows_;
    std::vector<std::int32_t> labels_;
    std::vector<Index> ids_;
    Examples examples_{};
    Key draw_{12};
};

template <class R>
Vec<R> layer_parameters(std::size_t n) {
    Stream draw(Key{13});
    Vec<R> x(n);
    for (R& v : x) v = static_cast<R>(0.5 * draw.normal());
    return x;
}

}  // namespace detail

template <class L>
[[nodiscard]] Complaints layer(const L& layer, nn::Shape in, double tolerance = 1e-6) {
    constexpr std::size_t classes = 3;
    const auto recipe = nn::chain(detail::Tilt{}, layer, detail::Tilt{}, nn::Linear{classes});
    Complaints all;
    const auto complain = [&](const std::string& sentence) { all.push_back("layer: " + sentence); };

    {
        const nn::Network<double> net(in, recipe), poisoned = net.poisoned();
        const detail::LayerBatch<double> data(in.size(), classes, net.positions());
        const auto batch = data.batch();
        const auto w = detail::layer_parameters<double>(dimension(net));
        Vec<double> g(w.size()), h(w.size());
        const double one = net.gradient(w, batch, g), other = poisoned.gradient(w, batch, h);
        if (one != other || g != h)
            complain(
                "it reads a value after the time it said it would (backward_reads, in_place), or leaves part of y, "
                "dx or dw unwritten");
        for (const auto& sentence : check_gradients(net, batch, tolerance)) all.push_back(sentence);
        const Clip<double> clip{.norm = 0.1};
        if (net.clips(clip)) {  // draws are the batch's, so examples are compared in one batch: the norms, by their sum
            net.clipped_sum(w, batch.evaluated(), clip, g);
            clipped_sum_one_by_one(net, w, batch.evaluated(), clip, h);
            if (const double d = detail::distance(g, h); !(d <= 1e-10))
                complain("clipped sums differ from those of single gradients by " + tessera::detail::shortest(d));
        }
        Mask mask(w.size(), true);
        each_piece({}, net.layout(), w.size(), [&](Range r, bool of_buffers) {
            for (std::size_t j = r.begin; !of_buffers && j < r.end; ++j) mask.set(j, j % 3 != 0);
        });
        const nn::Sparse<nn::Network<double>> sparse(net, mask, batch.size(), Arithmetic::sparse);
        Vec<double> packed, dense(w.size()), zeros = w;
        for (std::size_t j = 0; j < w.size(); ++j) {
            if (mask[j]) packed.push_back(w[j]);
            else zeros[j] = 0;
        }
        Vec<double> active(packed.size()), expected;
        sparse.gradient(packed, batch, active);
        net.gradient(zeros, batch, dense);
        for (std::size_t j = 0; j < w.size(); ++j)
            if (mask[j]) expected.push_back(dense[j]);
        if (const double d = detail::distance(active, expected); !(d <= 1e-10))
            complain("on a mask it differs from itself at zero-filled weights by " + tessera::detail::shortest(d));
    }
    {
        const nn::Network<float> net(in, recipe);
        const detail::LayerBatch<float> data(in.size(), classes, net.positions());
        const auto batch = data.batch();
        auto fused = detail::layer_parameters<float>(dimension(net)), plain = fused;
        const auto prox_center = fused;
        Vec<float> velocity(fused.size()), speed(fused.size()), g(fused.size());
        Step<float> step{
            .terms = {.prox_center = prox_center, .prox_weight = 0.1}, .rate = 0.05, .decay = 1e-3, .momentum = 0.9};
        step.velocity = &velocity;
        for (int i = 0; i < 2; ++i) {
            net.fused_step(fused, batch, step);
            net.gradient(plain, batch, g);
            each_piece({}, net.layout(), plain.size(), [&](Range r, bool of_buffers) {
                const std::size_t j = r.begin;
                if (of_buffers) kernels::axpy(-1.0f, g.data() + j, plain.data() + j, r.size());
                else
                    kernels::update(plain.data() + j, g.data() + j, prox_center.data() + j,
                                    static_cast<const float*>(nullptr), speed.data() + j, r.size(), 1.0f,
                                    {0.05f, 1e-3f, 0.1f, 0.9f});
            });
        }
        if (fused != plain || velocity != speed) complain("a fused step is not the step of two passes, bit for bit");
    }
    return all;
}

}  // namespace tessera::conformance
