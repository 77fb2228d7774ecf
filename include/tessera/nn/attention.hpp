// SPDX-License-Identifier: BSD-3-Clause
// Self-attention of several heads over a sequence (Vaswani et al., NeurIPS 2017), and what stands in front of it.
//
//   q, k, v = x Wq, x Wk, x Wv     p = softmax(q k^T / sqrt(width of a head))     y = (p v) Wo
//
// `causal`: a position reads itself and those before it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

struct Attention {
    std::size_t heads = 1;
    bool causal = true;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const std::size_t t = s.in[0].positions(), d = s.in[0].width();
        if (!s.expect(s.in[0].rank == 2,
                      "nn::Attention: it reads a sequence; say the shape of the input as positions, width") ||
            !s.expect(heads > 0 && d % heads == 0, "nn::Attention: the heads must divide the width"))
            return;
        for (const char* name : {"q", "k", "v", "o"})
            s.parameter({.name = name, .shape = {d, d, 1, 1}, .rank = 2, .fan_in = d});
        s.out = s.in[0];
        for (int i = 0; i < 4; ++i) s.note(t * d);  // q, k, v and the context
        s.note(heads * t * t);                      // the probabilities
        s.backward_reads = Reads::x;
        const auto n = static_cast<double>(t), w = static_cast<double>(d);
        s.flops = 8 * n * w * w + 4 * n * n * w;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const Places at(*this, p);
        const R *q = p.note(0), *k = p.note(1), *v = p.note(2);
        R *context = p.note(3), *chances = p.note(4);
        for (std::size_t part = 0; part < 3; ++part)
            p.on->affine({p.x(), nullptr, {}}, p.weight(part), nullptr, p.note(part), at.rows, at.d, at.d);
        at.each_head([&](std::size_t from, std::size_t head) {
            for (std::size_t t = 0; t < at.t; ++t) {
                R* c = chances + (head * at.t + t) * at.t;
                const std::size_t seen = causal ? t + 1 : at.t;
                R most = -std::numeric_limits<R>::infinity(), sum = 0;
                for (std::size_t s = 0; s < seen; ++s)
                    most = std::max(most, c[s] = at.dot(q + from, t, k + from, s) * at.template scale<R>());
                for (std::size_t s = 0; s < seen; ++s) sum += c[s] = std::exp(c[s] - most);
                for (std::size_t s = 0; s < at.t; ++s) c[s] = s < seen ? c[s] / sum : R(0);
                for (std::size_t j = 0; j < at.each; ++j) {
                    R mixed = 0;
                    for (std::size_t s = 0; s < seen; ++s) mixed += c[s] * v[from + s * at.d + j];
                    context[from + t * at.d + j] = mixed;
                }
            }
        });
        p.on->affine({context, nullptr, {}}, p.weight(3), nullptr, p.y, at.rows, at.d, at.d);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const Places at(*this, p);
        const R *q = p.note(0), *k = p.note(1), *v = p.note(2), *context = p.note(3), *chances = p.note(4);
        if (p.dw) p.on->affine_weight_gradient(p.dy, {context, nullptr, {}}, p.slope(3), nullptr, at.rows, at.d, at.d);
        const Scratch<R> dcontext(at.n), slopes(3 * at.n), dc(at.t);
        p.on->affine_input_gradient(p.dy, p.weight(3), dcontext.data(), at.rows, at.d, at.d);
        std::fill_n(slopes.data(), slopes.size(), R(0));
        R *dq = slopes.data(), *dk = dq + at.n, *dv = dk + at.n;
        at.each_head([&](std::size_t from, std::size_t head) {
            for (std::size_t t = 0; t < at.t; ++t) {
                const R* c = chances + (head * at.t + t) * at.t;
                const std::size_t seen = causal ? t + 1 : at.t;
                R along = 0;
                for (std::size_t s = 0; s < seen; ++s)
                    along += c[s] * (dc[s] = at.dot(static_cast<const R*>(dcontext.data()) + from, t, v + from, s));
                for (std::size_t s = 0; s < seen; ++s) {
                    const R dscore = c[s] * (dc[s] - along) * at.template scale<R>();
                    for (std::size_t j = 0; j < at.each; ++j) {
                        const std::size_t here = from + t * at.d + j, there = from + s * at.d + j;
                        dq[here] += dscore * k[there];
                        dk[there] += dscore * q[here];
                        dv[there] += c[s] * dcontext[here];
                    }
                }
            }
        });
        const Scratch<R> more(p.dx() ? at.n : 0);
        for (std::size_t part = 0; part < 3; ++part) {
            const R* d = slopes.data() + part * at.n;
            if (p.dw)
                p.on->affine_weight_gradient(d, {p.x(), nullptr, {}}, p.slope(part), nullptr, at.rows, at.d, at.d);
            if (!p.dx()) continue;
            p.on->affine_input_gradient(d, p.weight(part), part == 0 ? p.dx() : more.data(), at.rows, at.d, at.d);
            if (part > 0) kernels::axpy(R(1), static_cast<const R*>(more.data()), p.dx(), at.n);
        }
    }

private:
    struct Places {
        std::size_t t, d, each, heads, rows, n;

        template <class R>
        Places(const Attention& a, const Pass<R>& p)
            : t(p.in().positions()),
              d(p.in().width()),
              each(d / a.heads),
              heads(a.heads),
              rows(p.batch * t),
              n(rows * d) {}
        template <class R>
        R scale() const {
            return R(1) / std::sqrt(static_cast<R>(each));
        }
        template <class R>
        R dot(const R* a, std::size_t i, const R* b, std::size_t j) const {
            R sum = 0;
            for (std::size_t k = 0; k < each; ++k) sum += a[i * d + k] * b[j * d + k];
            return sum;
        }
        // f(where a head of an example begins, its number)
        template <class F>
        void each_head(const F& f) const {
            for (std::size_t h = 0; h < rows / t * heads; ++h) f(h / heads * t * d + h % heads * each, h);
        }
    };
};

// Whole numbers below `words` become rows of `width` numbers. The first layer of a network reads them as bytes or whole
// numbers of 32 bits where examples are kept so; else they come as numbers, which float holds up to 2^24.
struct Embedding {
    std::size_t words = 1, width = 1;
    bool positions = false;  // learnt ones are added

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        if (!s.expect(s.in[0].rank == 1, "nn::Embedding: it reads a vector of whole numbers") ||
            !s.expect(words > 0 && width > 0, "nn::Embedding: words and width are at least 1"))
            return;
        s.parameter({.name = "weight", .shape = {words, width, 1, 1}, .rank = 2, .deviation = 1});
        if (positions)
            s.parameter({.name = "positions", .shape = {s.in[0].size(), width, 1, 1}, .rank = 2, .deviation = 1});
        s.out = Shape(s.in[0].size(), width);
        s.backward_reads = Reads::x;
        s.words = words;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const std::size_t t = p.in().size();
        for (std::size_t row = 0; row < p.batch * t; ++row) {
            R* to = p.y + row * width;
            std::copy_n(p.weight(0) + word(p, row) * width, width, to);
            for (std::size_t j = 0; positions && j < width; ++j) to[j] += p.weight(1)[row % t * width + j];
        }
    }
    // No number below has a slope in what a word means.
    template <class R>
    void backward(const Pass<R>& p) const {
        if (p.dx()) std::fill_n(p.dx(), p.read(), R(0));
        if (!p.dw) return;
        const std::size_t t = p.in().size();
        std::fill_n(p.dw, p.spec->parameters, R(0));
        for (std::size_t row = 0; row < p.batch * t; ++row)
            for (std::size_t j = 0; j < width; ++j) {
                p.slope(0)[word(p, row) * width + j] += p.dy[row * width + j];
                if (positions) p.slope(1)[row % t * width + j] += p.dy[row * width + j];
            }
    }

private:
    template <class R>
    std::size_t word(const Pass<R>& p, std::size_t row) const {
        const auto known = [&](auto at) {
            if (!(at >= 0 && at < static_cast<decltype(at)>(words)))
                throw ConfigError("nn::Embedding: an example holds a word that is not there");
            return static_cast<std::size_t>(at);
        };
        const kernels::ByteRows& raw = p.rows.bytes;
        if (!raw.examples) return known(p.x()[row]);
        const std::size_t t = p.in().size(), at = raw.ids[row / t] * t + row % t;
        if (raw.each == 1) return known(static_cast<std::int64_t>(raw.examples[at]));
        std::int32_t word = 0;
        std::memcpy(&word, raw.examples + at * sizeof word, sizeof word);
        return known(static_cast<std::int64_t>(word));
    }
};

}  // namespace tessera::nn
