// SPDX-License-Identifier: BSD-3-Clause
// Self-attention of several heads over a sequence (Vaswani et al., NeurIPS 2017), and what stands in front of it.
//
//   q, k, v = x Wq, x Wk, x Wv     p = softmax(q k^T / sqrt(width of a head))     y = (p v) Wo
//
// `causal`: a position reads itself and those before it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <tessera/core/arena.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/kernels/attention.hpp>
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
        s.save(3 * t * d);      // q, k, v, side by side in each row
        s.save(t * d);          // the context
        s.save(heads * t * t);  // the probabilities
        s.backward_reads = Reads::x;
        const auto n = static_cast<double>(t), w = static_cast<double>(d);
        s.flops = 8 * n * w * w + 4 * n * n * w;
    }
    // Wq, Wk and Wv lie one behind the other, so they are one matrix.
    template <class R>
    void forward(const Pass<R>& p) const {
        const std::size_t d = p.in().width(), rows = p.batch * p.in().positions();
        R *context = p.saved(1), *chances = p.saved(2);
        const R* qkv = p.saved(0);
        p.on->affine({.matrix = p.x(), .sequence = true}, p.weight(0), nullptr, p.saved(0), rows, d, 3 * d);
        each_head(p, [&](std::size_t from, std::size_t to, std::size_t seen, const kernels::Head& h) {
            kernels::attention_chances(qkv + from, qkv + from + d, chances + seen, h);
            kernels::attention_context(static_cast<const R*>(chances) + seen, qkv + from + 2 * d, context + to, d, h);
        });
        p.on->affine({.matrix = context, .sequence = true}, p.weight(3), nullptr, p.y, rows, d, d);
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const std::size_t d = p.in().width(), rows = p.batch * p.in().positions();
        const R *qkv = p.saved(0), *context = p.saved(1), *chances = p.saved(2);
        if (p.dw)
            p.on->affine_weight_gradient(p.dy, {.matrix = context, .sequence = true}, p.slope(3), nullptr, rows, d, d);
        const Scratch<R> dcontext(rows * d), slopes(3 * rows * d);
        p.on->affine_input_gradient(p.dy, p.weight(3), dcontext.data(), rows, d, d);
        each_head(p, [&](std::size_t from, std::size_t to, std::size_t seen, const kernels::Head& h) {
            R* own = slopes.data() + from;
            kernels::attention_back(qkv + from, qkv + from + d, qkv + from + 2 * d, chances + seen,
                                    static_cast<const R*>(dcontext.data()) + to, d, own, own + d, own + 2 * d, h);
        });
        if (p.dw)
            p.on->affine_weight_gradient(slopes.data(), {.matrix = p.x(), .sequence = true}, p.slope(0), nullptr, rows,
                                         d, 3 * d);
        if (p.dx()) p.on->affine_input_gradient(slopes.data(), p.weight(0), p.dx(), rows, d, 3 * d);
    }

private:
    // f(where a head begins among q, where in the context, where its probabilities begin, the head) for each of each
    // example; examples are handed to a crew.
    template <class R, class F>
    void each_head(const Pass<R>& p, const F& f) const {
        const std::size_t t = p.in().positions(), d = p.in().width();
        const kernels::Head h{t, d / heads, 3 * d, causal};
        const auto example = [&](std::size_t e) {
            for (std::size_t i = 0; i < heads; ++i)
                f(e * t * 3 * d + i * h.width, e * t * d + i * h.width, (e * heads + i) * t * t, h);
        };
        constexpr std::size_t large = std::size_t{1} << 21;  // multiply-adds worth a crew (kernels/backend.hpp)
        if (p.batch * t * t * d >= large) return Crew::for_each(p.batch, example);
        for (std::size_t e = 0; e < p.batch; ++e) example(e);
    }
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
            if (positions) kernels::axpy(R(1), p.weight(1) + row % t * width, to, width);
        }
    }
    // No number below has a slope in what a word means.
    template <class R>
    void backward(const Pass<R>& p) const {
        if (p.dx()) std::fill_n(p.dx(), p.read(), R(0));
        if (!p.dw) return;
        const std::size_t t = p.in().size();
        std::fill_n(p.dw, p.spec->parameters, R(0));
        for (std::size_t row = 0; row < p.batch * t; ++row) {
            kernels::axpy(R(1), p.dy + row * width, p.slope(0) + word(p, row) * width, width);
            if (positions) kernels::axpy(R(1), p.dy + row * width, p.slope(1) + row % t * width, width);
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
