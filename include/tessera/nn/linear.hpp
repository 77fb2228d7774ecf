// SPDX-License-Identifier: BSD-3-Clause
// Fully connected layer: y = W x + b, weights [Out][In] as in torch checkpoints.
#pragma once

#include <array>
#include <cstddef>

#include <tessera/core/layout.hpp>
#include <tessera/kernels/backend.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

template <std::size_t In, std::size_t Out, class Backend = backend::Simd>
class Linear {
    template <class R>
    static const R* rows(const R* x) {
        return x;
    }
    template <class R>
    static const R* const* rows(Gathered<R> x) {
        return x.rows;
    }
    static const kernels::ByteRows& rows(const GatheredBytes& x) { return x.rows; }
    template <class X, class R>
    static constexpr bool Reads = requires(X x, const R* w, R* y, std::size_t n) {
        Backend::affine(rows(x), w, w, y, n, n, n);
    };

public:
    static constexpr std::array<Segment, 2> segments{
        Segment{.name = "weight", .offset = 0, .shape = {Out, In, 1, 1}, .rank = 2, .fan_in = In},
        Segment{.name = "bias", .offset = Out * In, .shape = {Out, 1, 1, 1}, .rank = 1, .fan_in = In}};
    static constexpr std::size_t width(std::size_t in) { return in == In ? Out : 0; }
    static constexpr std::size_t notes(std::size_t) { return 0; }
    static constexpr bool reads_outputs = false;
    static constexpr double flops(std::size_t) { return 2.0 * In * Out + Out; }

    // x is a matrix, or the rows of a minibatch where the backend reads those.
    template <class R, class X>
        requires Reads<X, R>
    void forward(const Call& call, const R* w, X x, R* y, R*) const {
        Backend::affine(rows(x), w, w + Out * In, y, call.batch, In, Out);
    }
    template <class R, class X>
        requires Reads<X, R>
    void backward(const Call& call, const R* w, X x, const R*, const R*, const R* dy, R* dx, R* dw) const {
        if (dw) Backend::affine_weight_gradient(dy, rows(x), dw, dw + Out * In, call.batch, In, Out);
        if (dx) Backend::affine_input_gradient(dy, w, dx, call.batch, In, Out);
    }
    template <class R, class X>
        requires Reads<X, R>
    void step(const Call& call, R* w, X x, const R*, const R*, const R* dy, R* dx, const Update<R>& u) const {
        if (dx) Backend::affine_input_gradient(dy, w, dx, call.batch, In, Out);
        if (u.moves(In * Out + Out)) Backend::affine_update(dy, rows(x), w, call.batch, In, Out, u.pulls, u.numbers);
    }
};

}  // namespace tessera::nn
