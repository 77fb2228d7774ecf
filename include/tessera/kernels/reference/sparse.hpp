// SPDX-License-Identifier: BSD-3-Clause
// The sparse kernels as plain loops on row-major activations and a zero-filled mask: the specification, and the oracle
// of the kernel test. `exists(j)` says whether weight j of [out][in] does; w and dw are packed.
#pragma once

#include <cstddef>

namespace tessera::kernels::reference {

// f(r, c, place among the packed weights) for each weight that exists
template <class Exists, class F>
void each_weight(const Exists& exists, std::size_t in, std::size_t out, const F& f) {
    for (std::size_t r = 0, k = 0; r < out; ++r)
        for (std::size_t c = 0; c < in; ++c)
            if (exists(r * in + c)) f(r, c, k++);
}

// y[b][r] = start[r] + sum of w[r][c] x[b][c]
template <class R, class Exists>
void sparse_affine(const Exists& exists, const R* w, const R* start, const R* x, R* y, std::size_t batch,
                   std::size_t in, std::size_t out) {
    for (std::size_t i = 0; i < batch * out; ++i) y[i] = start ? start[i % out] : R(0);
    each_weight(exists, in, out, [&](std::size_t r, std::size_t c, std::size_t k) {
        for (std::size_t b = 0; b < batch; ++b) y[b * out + r] += w[k] * x[b * in + c];
    });
}

// dx[b][c] = sum of w[r][c] dy[b][r]
template <class R, class Exists>
void sparse_input_gradient(const Exists& exists, const R* w, const R* dy, R* dx, std::size_t batch, std::size_t in,
                           std::size_t out) {
    for (std::size_t i = 0; i < batch * in; ++i) dx[i] = 0;
    each_weight(exists, in, out, [&](std::size_t r, std::size_t c, std::size_t k) {
        for (std::size_t b = 0; b < batch; ++b) dx[b * in + c] += w[k] * dy[b * out + r];
    });
}

// dw[r][c] = sum_b dy[b][r] x[b][c]
template <class R, class Exists>
void sparse_weight_gradient(const Exists& exists, const R* dy, const R* x, R* dw, std::size_t batch, std::size_t in,
                            std::size_t out) {
    each_weight(exists, in, out, [&](std::size_t r, std::size_t c, std::size_t k) {
        dw[k] = 0;
        for (std::size_t b = 0; b < batch; ++b) dw[k] += dy[b * out + r] * x[b * in + c];
    });
}

// d = gradient + decay*w + prox_weight*(w - prox_center) + linear;  v = momentum*v + d;  w -= rate*v
template <class R, class Exists, class Reads, class Numbers>
void sparse_update(const Exists& exists, const R* dy, const R* x, R* w, std::size_t batch, std::size_t in,
                   std::size_t out, const Reads& reads, const Numbers& numbers) {
    each_weight(exists, in, out, [&](std::size_t r, std::size_t c, std::size_t k) {
        R d = numbers.decay * w[k];
        for (std::size_t b = 0; b < batch; ++b) d += dy[b * out + r] * x[b * in + c];
        if (reads.prox_center) d += numbers.prox_weight * (w[k] - reads.prox_center[k]);
        if (reads.linear) d += reads.linear[k];
        if (reads.velocity) d = reads.velocity[k] = numbers.momentum * reads.velocity[k] + d;
        w[k] -= numbers.rate * d;
    });
}

}  // namespace tessera::kernels::reference
