// SPDX-License-Identifier: BSD-3-Clause
// Convolutions on the ones of a mask as plain loops on planes by rows: the specification, and the oracle of the kernel
// test. `exists(j)` says whether weight j of [out][channels][kernel][kernel] does; w and dw are packed. Shape is
// kernels/conv.hpp's.
#pragma once

#include <cstddef>

#include <tessera/kernels/reference/conv.hpp>
#include <tessera/kernels/reference/sparse.hpp>

namespace tessera::kernels::reference {

// y[b][o][p] = start[o] + sum over the taps of o that exist
template <class R, class Exists, class Shape>
void sparse_conv(const Exists& exists, const R* w, const R* start, const R* x, R* y, std::size_t batch, const Shape& s,
                 std::size_t out) {
    const std::size_t planes = out * s.pixels();
    for (std::size_t i = 0; i < batch * planes; ++i) y[i] = start ? start[i % planes / s.pixels()] : R(0);
    each_weight(exists, s.taps(), out, [&](std::size_t o, std::size_t tap, std::size_t k) {
        for (std::size_t b = 0; b < batch; ++b)
            each_place(s, tap, [&](std::size_t p, std::size_t at) {
                y[b * planes + o * s.pixels() + p] += w[k] * x[b * s.image() + at];
            });
    });
}
template <class R, class Exists, class Shape>
void sparse_conv_input_gradient(const Exists& exists, const R* w, const R* dy, R* dx, std::size_t batch,
                                const Shape& s, std::size_t out) {
    const std::size_t planes = out * s.pixels();
    for (std::size_t i = 0; i < batch * s.image(); ++i) dx[i] = 0;
    each_weight(exists, s.taps(), out, [&](std::size_t o, std::size_t tap, std::size_t k) {
        for (std::size_t b = 0; b < batch; ++b)
            each_place(s, tap, [&](std::size_t p, std::size_t at) {
                dx[b * s.image() + at] += w[k] * dy[b * planes + o * s.pixels() + p];
            });
    });
}
template <class R, class Exists, class Shape>
void sparse_conv_weight_gradient(const Exists& exists, const R* dy, const R* x, R* dw, std::size_t batch,
                                 const Shape& s, std::size_t out) {
    const std::size_t planes = out * s.pixels();
    each_weight(exists, s.taps(), out, [&](std::size_t o, std::size_t tap, std::size_t k) {
        dw[k] = 0;
        for (std::size_t b = 0; b < batch; ++b)
            each_place(s, tap, [&](std::size_t p, std::size_t at) {
                dw[k] += dy[b * planes + o * s.pixels() + p] * x[b * s.image() + at];
            });
    });
}
// dbias[o] = the sum of plane o of dy
template <class R, class Shape>
void sparse_conv_bias_gradient(const R* dy, R* dbias, std::size_t batch, const Shape& s, std::size_t out) {
    for (std::size_t o = 0; o < out; ++o) dbias[o] = 0;
    for (std::size_t i = 0; i < batch * out * s.pixels(); ++i) dbias[i / s.pixels() % out] += dy[i];
}

}  // namespace tessera::kernels::reference
