// SPDX-License-Identifier: BSD-3-Clause
// What is between the projections of self-attention (Vaswani et al., NeurIPS 2017), head by head:
//
//   p = softmax(q k^T / sqrt(width of a head))     y = p v
//
// A position of the input holds q, k and v side by side, as one Linear{3 * width} puts them out, and each of these all
// heads side by side: the layout of most published vision transformers. `causal`: a position reads itself and those
// before it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <tessera/core/arena.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

struct ScaledDotProduct {
    std::size_t heads = 1;
    bool causal = false;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const std::size_t t = s.in[0].positions(), d = s.in[0].width() / 3;
        if (!s.expect(s.in[0].rank == 2 && s.in[0].width() % 3 == 0,
                      "nn::ScaledDotProduct: it reads a sequence with q, k and v side by side") ||
            !s.expect(heads > 0 && d % heads == 0, "nn::ScaledDotProduct: the heads must divide the width"))
            return;
        s.out = Shape(t, d);
        s.save(heads * t * t);  // the probabilities
        s.backward_reads = Reads::x;
        s.flops = 4.0 * static_cast<double>(t * t * d);
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const Heads<R> at(*this, p);
        const Scratch<R> q(at.size), k(at.size), v(at.size), y(at.size);
        for (std::size_t h = 0; h < p.batch * heads; ++h) {
            at.take(p.x(), h, 0, q.data());
            at.take(p.x(), h, 1, k.data());
            at.take(p.x(), h, 2, v.data());
            R* const chances = p.saved(0) + h * at.t * at.t;
            p.on->affine({q.data(), nullptr, {}}, k.data(), nullptr, chances, at.t, at.each, at.t);
            for (std::size_t i = 0; i < at.t; ++i) at.softmax(chances + i * at.t, causal ? i + 1 : at.t);
            p.on->affine_input_gradient(chances, v.data(), y.data(), at.t, at.each, at.t);
            for (std::size_t i = 0; i < at.t; ++i) std::copy_n(y.data() + i * at.each, at.each, p.y + at.row(h, i));
        }
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        if (!p.dx()) return;
        const Heads<R> at(*this, p);
        const Scratch<R> q(at.size), k(at.size), v(at.size), dy(at.size), slope(at.size), ds(at.t * at.t);
        for (std::size_t h = 0; h < p.batch * heads; ++h) {
            at.take(p.x(), h, 0, q.data());
            at.take(p.x(), h, 1, k.data());
            at.take(p.x(), h, 2, v.data());
            for (std::size_t i = 0; i < at.t; ++i) std::copy_n(p.dy + at.row(h, i), at.each, dy.data() + i * at.each);
            const R* const chances = p.saved(0) + h * at.t * at.t;
            p.on->affine_weight_gradient(chances, {dy.data(), nullptr, {}}, slope.data(), nullptr, at.t, at.each, at.t);
            at.give(slope.data(), h, 2, p.dx());
            p.on->affine({dy.data(), nullptr, {}}, v.data(), nullptr, ds.data(), at.t, at.each, at.t);
            for (std::size_t i = 0; i < at.t; ++i) {
                const R* const c = chances + i * at.t;
                R* const d = ds.data() + i * at.t;
                R along = 0;
                for (std::size_t j = 0; j < at.t; ++j) along += c[j] * d[j];
                for (std::size_t j = 0; j < at.t; ++j) d[j] = c[j] * (d[j] - along) * at.scale;
            }
            p.on->affine_input_gradient(ds.data(), k.data(), slope.data(), at.t, at.each, at.t);
            at.give(slope.data(), h, 0, p.dx());
            p.on->affine_weight_gradient(ds.data(), {q.data(), nullptr, {}}, slope.data(), nullptr, at.t, at.each,
                                         at.t);
            at.give(slope.data(), h, 1, p.dx());
        }
    }

private:
    template <class R>
    struct Heads {
        std::size_t t, d, each, heads, size;
        R scale;

        Heads(const ScaledDotProduct& layer, const Pass<R>& p)
            : t(p.in().positions()),
              d(p.in().width() / 3),
              each(d / layer.heads),
              heads(layer.heads),
              size(t * each),
              scale(R(1) / std::sqrt(static_cast<R>(each))) {}
        // Where position i of a head of an example begins in y.
        std::size_t row(std::size_t h, std::size_t i) const { return (h / heads * t + i) * d + h % heads * each; }
        std::size_t row_of(std::size_t h, std::size_t i, std::size_t part) const {
            return ((h / heads * t + i) * 3 + part) * d + h % heads * each;
        }
        void take(const R* x, std::size_t h, std::size_t part, R* to) const {
            for (std::size_t i = 0; i < t; ++i) std::copy_n(x + row_of(h, i, part), each, to + i * each);
        }
        void give(const R* from, std::size_t h, std::size_t part, R* dx) const {
            for (std::size_t i = 0; i < t; ++i) std::copy_n(from + i * each, each, dx + row_of(h, i, part));
        }
        // Of the first `seen` scores; the others are not read.
        void softmax(R* c, std::size_t seen) const {
            R most = -std::numeric_limits<R>::infinity(), sum = 0;
            for (std::size_t j = 0; j < seen; ++j) most = std::max(most, c[j] *= scale);
            for (std::size_t j = 0; j < seen; ++j) sum += c[j] = std::exp(c[j] - most);
            for (std::size_t j = 0; j < t; ++j) c[j] = j < seen ? c[j] / sum : R(0);
        }
    };
};

}  // namespace tessera::nn
