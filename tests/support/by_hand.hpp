// SPDX-License-Identifier: BSD-3-Clause
// A split method as its paper tells it, to hold the library's against, on the toy data.
#pragma once

#include <cstddef>
#include <utility>

#include <tessera/contracts/method.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>
#include <support/unfused.hpp>

namespace tessera::support {

constexpr float by_hand_rate = 0.125f;

// Epochs of plain SGD on some coordinates, v kept on the client.
struct ByHand {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    fold::Mean fold{};
    std::size_t begin = 0, end = 0;     // where v is
    std::size_t first = 1, second = 1;  // epochs on v, then on u; or, together:
    bool together = false;
    template <class R>
    struct Client {
        Vec<R> v;
    };

    template <class M>
    auto visit(const Context<M>& at, Vec<float> w, Client<float>& me) const {
        const auto received = w;
        for (std::size_t j = begin; j < end; ++j) w[j] = me.v.empty() ? (*at.initial)[j] : me.v[j - begin];
        Vec<float> g(w.size());
        const auto epoch = [&](std::size_t epochs, Pass pass, bool own, bool common) {
            for (const auto b : at.epochs(epochs, pass)) {
                at.gradient(w, b, g);
                for (std::size_t j = 0; j < w.size(); ++j)
                    if ((begin <= j && j < end) ? own : common) w[j] -= by_hand_rate * g[j];
            }
        };
        if (together) {
            epoch(first, Pass::shared, true, true);
        } else {
            epoch(first, Pass::own, true, false);
            epoch(second, Pass::shared, false, true);
        }
        me.v.assign(w.begin() + static_cast<std::ptrdiff_t>(begin), w.begin() + static_cast<std::ptrdiff_t>(end));
        for (std::size_t j = begin; j < end; ++j) w[j] = received[j];
        return up(at, std::move(w));
    }
};

template <class Me>
Me at_that_rate(Me method = {}) {
    method.order.v.rate = method.order.u.rate = static_cast<double>(by_hand_rate);
    return method;
}

// u on the server and v on every client have the same bits after each of five rounds. The model does not fuse, so
// that rules step as a loop written by hand does.
template <class M, class Me>
bool is_by_hand(const Me& method, const ByHand& by_hand) {
    const PortableKernels without_fma;
    const Settings usual{.seed = 3, .batch = 5, .rounds = 8};
    Federation<Me, Unfused<M>> named{{}, toy_data(), method, usual};
    Federation<ByHand, Unfused<M>> plain{{}, toy_data(), by_hand, usual};
    for (int r = 0; r < 5; ++r) {
        named.round(sample::Uniform{4});
        plain.round(sample::Uniform{4});
        const Coordinates u = off(method.own, M{});
        if (!same_bits(named.server().w, gather(plain.server().w, u))) return false;
        for (Id k = 0; k < 6; ++k)
            if (!same_bits(named.client(k).v, plain.client(k).v)) return false;
    }
    return true;
}

}  // namespace tessera::support
