// SPDX-License-Identifier: BSD-3-Clause
// The dense kernels as plain loops: the specification, and the oracle of every kernel test.
#pragma once

#include <cstddef>

namespace tessera::kernels::reference {

// y[b][o] = bias[o] + sum_i x[b][i] w[o][i]
template <class R>
void affine(const R* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in, std::size_t out) {
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t o = 0; o < out; ++o) {
            R sum = bias ? bias[o] : R(0);
            for (std::size_t i = 0; i < in; ++i) sum += x[b * in + i] * w[o * in + i];
            y[b * out + o] = sum;
        }
}

// dx[b][i] = sum_o dy[b][o] w[o][i]
template <class R>
void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in, std::size_t out) {
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t i = 0; i < in; ++i) {
            R sum = 0;
            for (std::size_t o = 0; o < out; ++o) sum += dy[b * out + o] * w[o * in + i];
            dx[b * in + i] = sum;
        }
}

// dw[o][i] = sum_b dy[b][o] x[b][i],  dbias[o] = sum_b dy[b][o]
template <class R>
void affine_weight_gradient(const R* dy, const R* x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                            std::size_t out) {
    for (std::size_t o = 0; o < out; ++o) {
        for (std::size_t i = 0; i < in; ++i) {
            R sum = 0;
            for (std::size_t b = 0; b < batch; ++b) sum += dy[b * out + o] * x[b * in + i];
            dw[o * in + i] = sum;
        }
        if (dbias) {
            R sum = 0;
            for (std::size_t b = 0; b < batch; ++b) sum += dy[b * out + o];
            dbias[o] = sum;
        }
    }
}

// d = gradient + decay*w + prox_weight*(w - prox_center) + linear;  v = momentum*v + d;  w -= rate*v, on weights and
// then biases
template <class R, class Reads, class Numbers>
void affine_update(const R* dy, const R* x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                   const Reads& reads, const Numbers& numbers) {
    for (std::size_t j = 0; j < out * in + out; ++j) {
        R d = 0;
        for (std::size_t b = 0; b < batch; ++b)
            d += j < out * in ? dy[b * out + j / in] * x[b * in + j % in] : dy[b * out + j - out * in];
        d += numbers.decay * w[j];
        if (reads.prox_center) d += numbers.prox_weight * (w[j] - reads.prox_center[j]);
        if (reads.linear) d += reads.linear[j];
        if (reads.velocity) d = reads.velocity[j] = numbers.momentum * reads.velocity[j] + d;
        w[j] -= numbers.rate * d;
    }
}

}  // namespace tessera::kernels::reference
