// SPDX-License-Identifier: BSD-3-Clause
// Long short-term memory over a sequence (Hochreiter and Schmidhuber 1997), every hidden state put out. Weights, the
// two biases and the order of the gates (input, forget, cell, output) are torch's.
//
//   i, f, o = sigmoid(W x_t + b + U h_(t-1) + c)   g = tanh(...)   cell_t = f cell_(t-1) + i g   h_t = o tanh(cell_t)
//
// The half that reads x is one product over all steps, and so are all weight gradients; only U h goes step by step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <tessera/core/arena.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

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
        s.note(steps * 4 * hidden);  // gates
        s.note(steps * hidden);      // cells
        const auto h = static_cast<double>(hidden);
        s.flops = static_cast<double>(steps) * (8 * h * (static_cast<double>(in) + h) + 8 * h);
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const std::size_t steps = p.in().positions(), in = p.in().width(), all = 4 * hidden;
        R *gates = p.note(0), *cells = p.note(1);
        p.on->affine({p.x(), nullptr, {}}, p.weight(0), p.weight(2), gates, p.batch * steps, in, all);
        const Scratch<R> h(p.batch * hidden), recurrent(p.batch * all);
        std::fill_n(h.data(), h.size(), R(0));
        for (std::size_t t = 0; t < steps; ++t) {
            p.on->affine({h.data(), nullptr, {}}, p.weight(1), p.weight(3), recurrent.data(), p.batch, hidden, all);
            for (std::size_t b = 0; b < p.batch; ++b) {
                const std::size_t row = b * steps + t;
                R* gate = gates + row * all;
                for (std::size_t j = 0; j < all; ++j) gate[j] += recurrent[b * all + j];
                for (std::size_t j = 0; j < hidden; ++j) {
                    R &i = gate[j], &f = gate[hidden + j], &g = gate[2 * hidden + j], &o = gate[3 * hidden + j];
                    i = sigmoid(i), f = sigmoid(f), g = std::tanh(g), o = sigmoid(o);
                    R& cell = cells[row * hidden + j];
                    cell = i * g + (t > 0 ? f * cells[(row - 1) * hidden + j] : R(0));
                    p.y[row * hidden + j] = h[b * hidden + j] = o * std::tanh(cell);
                }
            }
        }
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const std::size_t steps = p.in().positions(), in = p.in().width(), all = 4 * hidden, rows = p.batch * steps;
        const Scratch<R> dgates(rows * all), before(rows * hidden), dcell(p.batch * hidden), dh(p.batch * hidden),
            step(p.batch * all);
        std::fill_n(dcell.data(), dcell.size(), R(0));
        std::fill_n(dh.data(), dh.size(), R(0));
        for (std::size_t t = steps; t-- > 0;) {
            for (std::size_t b = 0; b < p.batch; ++b)
                back(p, b * steps + t, t > 0, b, dgates.data(), before.data(), dcell.data(), dh.data());
            for (std::size_t b = 0; b < p.batch; ++b)
                std::copy_n(dgates.data() + (b * steps + t) * all, all, step.data() + b * all);
            p.on->affine_input_gradient(step.data(), p.weight(1), dh.data(), p.batch, hidden, all);
        }
        if (p.dw) {
            p.on->affine_weight_gradient(dgates.data(), {p.x(), nullptr, {}}, p.slope(0), p.slope(2), rows, in, all);
            p.on->affine_weight_gradient(dgates.data(), {before.data(), nullptr, {}}, p.slope(1), p.slope(3), rows,
                                         hidden, all);
        }
        if (p.dx()) p.on->affine_input_gradient(dgates.data(), p.weight(0), p.dx(), rows, in, all);
    }

private:
    template <class R>
    static R sigmoid(R v) {
        return R(1) / (R(1) + std::exp(-v));
    }
    // Slopes of the gates of one row, from that of its hidden state and cell; `earlier`: a step came before it.
    template <class R>
    void back(const Pass<R>& p, std::size_t row, bool earlier, std::size_t b, R* dgates, R* before, R* dcells,
              const R* dhidden) const {
        const std::size_t all = 4 * hidden;
        const R *gate = p.note(0) + row * all, *cells = p.note(1);
        R *dgate = dgates + row * all, *dcell = dcells + b * hidden;
        for (std::size_t j = 0; j < hidden; ++j) {
            const R i = gate[j], f = gate[hidden + j], g = gate[2 * hidden + j], o = gate[3 * hidden + j];
            const R dh = p.dy[row * hidden + j] + dhidden[b * hidden + j], bent = std::tanh(cells[row * hidden + j]);
            const R dc = dcell[j] + dh * o * (1 - bent * bent);
            dgate[j] = dc * g * i * (1 - i);
            dgate[hidden + j] = (earlier ? dc * cells[(row - 1) * hidden + j] : R(0)) * f * (1 - f);
            dgate[2 * hidden + j] = dc * i * (1 - g * g);
            dgate[3 * hidden + j] = dh * bent * o * (1 - o);
            dcell[j] = dc * f;
            before[row * hidden + j] = earlier ? p.y[(row - 1) * hidden + j] : R(0);
        }
    }
};

}  // namespace tessera::nn
