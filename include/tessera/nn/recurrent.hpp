// SPDX-License-Identifier: BSD-3-Clause
// Long short-term memory over a sequence (Hochreiter and Schmidhuber 1997), every hidden state put out. Weights, the
// two biases and the order of the gates (input, forget, cell, output) are torch's.
//
//   i, f, o = sigmoid(W x_t + b + U h_(t-1) + c)   g = tanh(...)   cell_t = f cell_(t-1) + i g   h_t = o tanh(cell_t)
//
// The half that reads x is one product over all steps, and so are all weight gradients; only U h goes step by step, by
// a U that is packed once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/panels.hpp>
#include <tessera/kernels/recurrent.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

// One matrix that few rows at a time are multiplied by, again and again: y = x w^T, or the gradient dx = dy w. w is
// [out][in]; rows of what it reads lie `apart` numbers apart, those of what it writes one behind the other.
template <class R>
class Repeated {
    static constexpr bool narrow = std::is_same_v<R, float>;

public:
    Repeated(const Backend<R>& on, const R* w, std::size_t in, std::size_t out, bool gradient)
        : on_(&on), w_(w), in_(in), out_(out), gradient_(gradient), room_(on.packs() ? depth() * padded() : 0) {
        if constexpr (narrow)
            if (room_.size() > 0)
                kernels::pack_panels({.b = w, .bk = gradient ? in : 1, .bj = gradient ? 1 : in}, depth(), columns(),
                                     room_.data());
    }
    void operator()(const R* x, std::size_t apart, R* y, std::size_t rows) const {
        if constexpr (narrow)
            if (room_.size() > 0)
                return kernels::panel_products(x, apart, {}, room_.data(), nullptr, y, columns(), rows, depth(),
                                               columns());
        const Scratch<R> together(rows * depth());
        for (std::size_t i = 0; i < rows; ++i) std::copy_n(x + i * apart, depth(), together.data() + i * depth());
        if (gradient_) on_->affine_input_gradient(together.data(), w_, y, rows, in_, out_);
        else on_->affine({together.data(), nullptr, {}}, w_, nullptr, y, rows, in_, out_);
    }

private:
    std::size_t depth() const { return gradient_ ? out_ : in_; }
    std::size_t columns() const { return gradient_ ? in_ : out_; }
    std::size_t padded() const {
        return (columns() + kernels::widest_panel - 1) / kernels::widest_panel * kernels::widest_panel;
    }

    const Backend<R>* on_;
    const R* w_;
    std::size_t in_, out_;
    bool gradient_;
    Scratch<R> room_;
};

struct Lstm {
    std::size_t hidden = 1;

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const std::size_t steps = s.in[0].positions(), in = s.in[0].width();
        if (!s.expect(s.in[0].rank == 2,
                      "nn::Lstm: it reads a sequence; say the shape of the input as positions, width") ||
            !s.expect(hidden > 0, "nn::Lstm: the hidden state has at least one number"))
            return;
        s.parameter({.name = "weight_ih", .shape = {4 * hidden, in, 1, 1}, .rank = 2, .fan_in = hidden});
        s.parameter({.name = "weight_hh", .shape = {4 * hidden, hidden, 1, 1}, .rank = 2, .fan_in = hidden});
        s.parameter({.name = "bias_ih", .shape = {4 * hidden, 1, 1, 1}, .fan_in = hidden});
        s.parameter({.name = "bias_hh", .shape = {4 * hidden, 1, 1, 1}, .fan_in = hidden});
        s.out = Shape(steps, hidden);
        s.save(steps * 4 * hidden);  // gates
        s.save(steps * hidden);      // cells
        const auto h = static_cast<double>(hidden);
        s.flops = static_cast<double>(steps) * (8 * h * (static_cast<double>(in) + h) + 8 * h);
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const std::size_t steps = p.in().positions(), in = p.in().width(), all = 4 * hidden, rows = p.batch * steps;
        R *gates = p.saved(0), *cells = p.saved(1);
        const Scratch<R> bias(all), more(p.batch * all);
        for (std::size_t j = 0; j < all; ++j) bias[j] = p.weight(2)[j] + p.weight(3)[j];
        p.on->affine({.matrix = p.x(), .sequence = true}, p.weight(0), bias.data(), gates, rows, in, all);
        const Repeated<R> recurrent(*p.on, p.weight(1), hidden, all, false);
        for (std::size_t t = 0; t < steps; ++t) {
            const bool first = t == 0;
            if (!first) recurrent(p.y + (t - 1) * hidden, steps * hidden, more.data(), p.batch);
            kernels::lstm_step(gates + t * all, first ? nullptr : static_cast<const R*>(more.data()),
                               first ? nullptr : static_cast<const R*>(cells + (t - 1) * hidden), cells + t * hidden,
                               p.y + t * hidden, one_step(p));
        }
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const std::size_t steps = p.in().positions(), in = p.in().width(), all = 4 * hidden, rows = p.batch * steps;
        const R *gates = p.saved(0), *cells = p.saved(1);
        const Scratch<R> dgates(rows * all), dcells(p.batch * hidden), more(p.batch * hidden);
        std::fill_n(dcells.data(), dcells.size(), R(0));
        const Repeated<R> back(*p.on, p.weight(1), hidden, all, true);
        for (std::size_t t = steps; t-- > 0;) {
            const bool first = t == 0, last = t + 1 == steps;
            if (!last) back(dgates.data() + (t + 1) * all, steps * all, more.data(), p.batch);
            kernels::lstm_step_back(gates + t * all, first ? nullptr : cells + (t - 1) * hidden, cells + t * hidden,
                                    p.dy + t * hidden, last ? nullptr : static_cast<const R*>(more.data()),
                                    dcells.data(), dgates.data() + t * all, one_step(p));
        }
        if (p.dw) {
            const Scratch<R> before(rows * hidden);
            for (std::size_t b = 0; b < p.batch; ++b) {
                R* to = before.data() + b * steps * hidden;
                std::fill_n(to, hidden, R(0));
                std::copy_n(p.y + b * steps * hidden, (steps - 1) * hidden, to + hidden);
            }
            p.on->affine_weight_gradient(dgates.data(), {.matrix = p.x(), .sequence = true}, p.slope(0), p.slope(2),
                                         rows, in, all);
            p.on->affine_weight_gradient(dgates.data(), {.matrix = before.data(), .sequence = true}, p.slope(1),
                                         nullptr, rows, hidden, all);
            std::copy_n(p.slope(2), all, p.slope(3));
        }
        if (p.dx()) p.on->affine_input_gradient(dgates.data(), p.weight(0), p.dx(), rows, in, all);
    }

private:
    template <class R>
    kernels::LstmStep<R> one_step(const Pass<R>& p) const {
        const std::size_t steps = p.in().positions();
        return {.rows = p.batch, .hidden = hidden, .gates_apart = steps * 4 * hidden, .apart = steps * hidden};
    }
};

}  // namespace tessera::nn
