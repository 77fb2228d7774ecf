// SPDX-License-Identifier: BSD-3-Clause
// The kernels of recurrent layers as plain loops.
#pragma once

#include <cmath>
#include <cstddef>

namespace tessera::kernels {

// One step of an LSTM over `rows` examples. A row of gates has input, forget, cell, output, `hidden` of each; rows of
// gates lie `gates_apart` numbers apart, those of cells and of what is shown `apart`.
template <class R>
struct LstmStep {
    std::size_t rows = 0, hidden = 0, gates_apart = 0, apart = 0;
};

namespace reference {

// gates = what they are before the nonlinearities, plus `more` (rows of 4 hidden numbers, one behind the other; null:
// 0).
//   cell = sigmoid(f) before + sigmoid(i) tanh(g)     shown = sigmoid(o) tanh(cell)     before null: 0
// `gates` are replaced by what came out of the nonlinearities.
template <class R>
void lstm_step(R* gates, const R* more, const R* before, R* cells, R* shown, const LstmStep<R>& s) {
    const std::size_t n = s.hidden;
    for (std::size_t b = 0; b < s.rows; ++b) {
        R* g = gates + b * s.gates_apart;
        for (std::size_t j = 0; more && j < 4 * n; ++j) g[j] += more[b * 4 * n + j];
        for (std::size_t j = 0; j < n; ++j) {
            for (const std::size_t k : {j, n + j, 3 * n + j}) g[k] = R(1) / (R(1) + std::exp(-g[k]));
            g[2 * n + j] = std::tanh(g[2 * n + j]);
            const R kept = before ? g[n + j] * before[b * s.apart + j] : R(0);
            const R cell = cells[b * s.apart + j] = g[j] * g[2 * n + j] + kept;
            shown[b * s.apart + j] = g[3 * n + j] * std::tanh(cell);
        }
    }
}
// The way back. dshown are rows `apart` apart, `more` adds to them (rows of `hidden`, null: 0); dcells, rows of
// `hidden`, is the slope in the cells after the step and becomes that in those before; dgates has rows `gates_apart`
// apart.
template <class R>
void lstm_step_back(const R* gates, const R* before, const R* cells, const R* dshown, const R* more, R* dcells,
                    R* dgates, const LstmStep<R>& s) {
    const std::size_t n = s.hidden;
    for (std::size_t b = 0; b < s.rows; ++b) {
        const R* gate = gates + b * s.gates_apart;
        R *d = dgates + b * s.gates_apart, *dcell = dcells + b * n;
        for (std::size_t j = 0; j < n; ++j) {
            const R i = gate[j], f = gate[n + j], g = gate[2 * n + j], o = gate[3 * n + j];
            const R dh = dshown[b * s.apart + j] + (more ? more[b * n + j] : R(0));
            const R bent = std::tanh(cells[b * s.apart + j]);
            const R dc = dcell[j] + dh * o * (1 - bent * bent);
            d[j] = dc * g * i * (1 - i);
            d[n + j] = (before ? dc * before[b * s.apart + j] : R(0)) * f * (1 - f);
            d[2 * n + j] = dc * i * (1 - g * g);
            d[3 * n + j] = dh * bent * o * (1 - o);
            dcell[j] = dc * f;
        }
    }
}

}  // namespace reference
}  // namespace tessera::kernels
