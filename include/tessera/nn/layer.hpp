// SPDX-License-Identifier: BSD-3-Clause
// Layer: a stateless piece of a network, from rows of `in` numbers to rows of `width(in)` numbers.
//
//   static constexpr std::array<Segment, P> segments     its parameters, offsets counted from its own start
//   static constexpr std::size_t width(std::size_t in)   numbers out per example
//   static constexpr std::size_t notes(std::size_t in)   numbers per example that forward leaves for backward
//   forward(call, w, x, y, notes)
//   backward(call, w, x, y, notes, dy, dx, dw)           writes (never adds to) all of dx and dw; null: not wanted
//
// Matrices are row-major, one row an example. A layer made of layers (Sequential, a residual block, a
// routed block, an adapter) keeps what its children need in its notes and is a layer again.
#pragma once

#include <concepts>
#include <cstddef>

#include <tessera/core/layout.hpp>
#include <tessera/core/random.hpp>
#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/dense.hpp>

namespace tessera::nn {

// The circumstances of one forward or backward pass.
struct Call {
    std::size_t batch = 0, in = 0;
    bool training = false;
    Key draw{};  // keyed by batch and by the layer's place, so forward and backward see the same draw

    Call child(std::size_t index, std::size_t width) const { return {batch, width, training, draw(index)}; }
};

template <class L, class R>
concept Layer = std::copyable<L> && requires(const L layer, const Call& call, const R* in, R* out) {
    { Layout(L::segments) };
    { L::width(std::size_t{}) } -> std::same_as<std::size_t>;
    { L::notes(std::size_t{}) } -> std::same_as<std::size_t>;
    { L::flops(std::size_t{}) } -> std::same_as<double>;  // of a forward pass over one example
    { layer.forward(call, in, in, out, out) } -> std::same_as<void>;
    { layer.backward(call, in, in, in, in, in, out, out) } -> std::same_as<void>;
};

// Whether backward reads y. A last layer that says it does not lets the gradient in y take its place.
template <class L>
inline constexpr bool reads_outputs = [] {
    if constexpr (requires { L::reads_outputs; }) return L::reads_outputs;
    else return true;
}();

// A minibatch where it lies, one pointer a row.
template <class R>
struct Gathered {
    const R* const* rows = nullptr;
};

// Refinement: reads a gathered minibatch as well, so the first layer of a network needs no copy of it.
template <class L, class R>
concept GatheringLayer =
    Layer<L, R> && requires(const L layer, const Call& call, const R* in, R* out, Gathered<R> x) {
        { layer.forward(call, in, x, out, out) } -> std::same_as<void>;
        { layer.backward(call, in, x, in, in, in, out, out) } -> std::same_as<void>;
    };

// The same in bytes, which a layer may read as they are.
struct GatheredBytes {
    kernels::ByteRows rows{};
};
template <class L, class R>
concept ByteLayer = Layer<L, R> && requires(const L layer, const Call& call, const R* in, R* out, GatheredBytes x) {
    { layer.forward(call, in, x, out, out) } -> std::same_as<void>;
    { layer.backward(call, in, x, in, in, in, out, out) } -> std::same_as<void>;
};

// What a fused step does to the parameters, seen from a layer: pointers and scope counted from its own start.
template <class R>
struct Update {
    kernels::UpdatePulls<R> pulls{};
    kernels::UpdateNumbers<R> numbers{};
    const Where* on = nullptr;
    std::size_t offset = 0;  // of the layer in the whole vector

    Update at(std::size_t begin) const { return {pulls.at(begin), numbers, on, offset + begin}; }
    bool moves(std::size_t parameters) const { return on->touches({offset, offset + parameters}); }
};

// Refinement: gradient and update of its parameters in one pass, without storing the gradient.
//   step(call, w, x, y, notes, dy, dx, update)     dx is taken before w moves
template <class L, class R>
concept FusedLayer = Layer<L, R> && requires(const L layer, const Call& call, const R* in, R* out, const Update<R>& u) {
    { layer.step(call, out, in, in, in, in, out, u) } -> std::same_as<void>;
};
template <class L, class R>
concept Steppable = FusedLayer<L, R> || (Layer<L, R> && L::segments.empty());

}  // namespace tessera::nn
