// SPDX-License-Identifier: BSD-3-Clause
// Flow's router: linear layers with ReLU between them over the raw example, and an exit for every block.
//
//   Chain<350, 150, 50>                                   784 -> 350 -> 150 -> 50 -> 2, four blocks (EMNIST)
//   Chain<1000, 750, 350, 150, 50>{.dropout = 0, .relu = false}   3072 -> ... -> 2, six blocks (CIFAR)
//
// The exit of block j reads layer j before its ReLU: dropout, ReLU, Linear(. -> 2), softmax; the last block is served
// by the chain's own end. Output 0 is the global branch. Dropout acts in training batches only.
#pragma once

#include <array>
#include <cstddef>

#include <tessera/contracts/gate.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/gate/detail/exits.hpp>

namespace tessera::gate {

template <std::size_t... Widths>
struct Chain {
    static constexpr auto offers = offer::validate | offer::saved | offer::forward_flops;
    double dropout = 0.3;  // of an exit
    bool relu = true;      // of an exit

    Vec<Segment> segments(const Routes& routes) const { return exits().segments(routes); }
    std::size_t saved(const Routes&) const { return exits().saved(); }
    template <class R>
    void operator()(const Routes& routes, In<R> psi, const Batch<R>& batch, Out<R> q0, Out<R> saved) const {
        exits().forward(routes, psi, batch, q0, saved);
    }
    template <class R>
    void pull_back(const Routes& routes, In<R> psi, const Batch<R>& batch, In<R> q0, In<R> saved, In<R> dq0,
                   Out<R> dpsi) const {
        exits().backward(routes, psi, batch, q0, saved, dq0, dpsi);
    }
    double forward_flops(const Routes& routes) const { return exits().flops(routes); }
    void validate() const { exits().validate(); }

private:
    static constexpr std::array<std::size_t, sizeof...(Widths)> widths{Widths...};
    detail::Exits exits() const { return {widths, dropout, relu}; }
};

}  // namespace tessera::gate
