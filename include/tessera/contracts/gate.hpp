// SPDX-License-Identifier: BSD-3-Clause
// Gate: says for every example and block how much the global branch counts, q0 in [0, 1]. Its parameters psi are a
// vector of their own. A gate that reads the raw example has
//
//   Vec<Segment> segments(routes) const                         its parameters; they start as a model's would
//   void operator()(routes, psi, batch, q0, saved) const        writes q0[i * blocks + j]
//   void pull_back(routes, psi, batch, q0, saved, dq0, dpsi)    dpsi = gradient of sum dq0 q0; const
//   std::size_t saved(routes) const                             offered: numbers an example from the call to pull_back
//   double forward_flops(routes) const                             offered: what asking it about one example costs
//
// One that reads what the branches hold (a recurrent net's states, features) has, in place of the last three,
//
//   auto route(routes, psi, batch, dpsi) const                  a Routing<R>, asked on the way; dpsi empty: not wanted
//
// routes.shown says of each block how wide what it shows is (contracts/routable.hpp).
#pragma once

#include <concepts>
#include <cstddef>

#include <tessera/contracts/routable.hpp>
#include <tessera/core/offers.hpp>

namespace tessera {
namespace detail {

template <class G>
concept ShapedGate = std::copyable<G> && requires(const G gate, const Routes& routes) {
    { gate.segments(routes) } -> std::same_as<Vec<Segment>>;
};
template <class G, class R>
concept CalledGate = requires(const G gate, const Routes& routes, In<R> in, const Batch<R>& batch, Out<R> out) {
    { gate(routes, in, batch, out, out) } -> std::same_as<void>;
};
template <class G, class R>
concept PulledGate = requires(const G gate, const Routes& routes, In<R> in, const Batch<R>& batch, Out<R> out) {
    { gate.pull_back(routes, in, batch, in, in, in, out) } -> std::same_as<void>;
};

template <class G>
std::size_t saved_of(const G& gate, const Routes& routes) {
    if constexpr (offers_of<G>().has(offer::saved)) return gate.saved(routes);
    else return 0;
}

struct GateNames {
    int saved, forward_flops;
};
template <class G>
concept names_saved = !requires { &Probed<G, GateNames>::saved; };
template <class G> concept names_forward_flops = !requires { &Probed<G, GateNames>::forward_flops; };

template <class G>
consteval bool gate_is_spelt() {
    static_assert(policy_is_spelt<G>());
    if constexpr (StatesOffers<G>) {
        static_assert(agrees<G>(names_saved<G>, offer::saved),
                      "tessera::Gate: `saved` must be a member and be listed in `offers`, or neither; is it misspelt?");
        static_assert(agrees<G>(names_forward_flops<G>, offer::forward_flops),
                      "tessera::Gate: `forward_flops` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
    }
    return true;
}

}  // namespace detail

// Asked on the way.
template <class G, class R>
concept RouteGate = detail::ShapedGate<G> && requires(const G gate, const Routes& routes, In<R> psi,
                                                      const Batch<R>& batch, Out<R> dpsi) {
    { gate.route(routes, psi, batch, dpsi) } -> std::derived_from<Routing<R>>;
};
template <class G, class R>
concept Gate = RouteGate<G, R> || (detail::ShapedGate<G> && detail::CalledGate<G, R> && detail::PulledGate<G, R>);

// The same in sentences, for whoever writes one.
template <class G, class R>
consteval bool check_gate() {
    static_assert(detail::gate_is_spelt<G>());
    constexpr bool on_the_way = RouteGate<G, R>, shaped = detail::ShapedGate<G>;
    constexpr bool called = on_the_way || detail::CalledGate<G, R>, pulled = on_the_way || detail::PulledGate<G, R>;
    static_assert(shaped,
                  "tessera::Gate: a gate needs `Vec<Segment> segments(routes) const`, which names its parameters");
    constexpr bool calls = !shaped || called, pulls = !shaped || !called || pulled;
    static_assert(calls,
                  "tessera::Gate: a gate needs `void operator()(routes, psi, batch, q0, saved) const`, which writes "
                  "q0 of every example and block");
    static_assert(pulls,
                  "tessera::Gate: a gate needs `void pull_back(routes, psi, batch, q0, saved, dq0, dpsi) const`, which "
                  "writes the gradient of sum dq0 q0 with respect to psi");
    return Gate<G, R>;
}

// For a method, which is declared before its precision is known: a gate for either will do here.
template <class G>
consteval bool check_gate() {
    if constexpr (Gate<G, double>) return true;
    else return check_gate<G, float>();
}

}  // namespace tessera
