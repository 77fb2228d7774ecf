// SPDX-License-Identifier: BSD-3-Clause
// FedAlt's order (Pillutla et al., ICML 2022, LocalAlt): one block after the other.
//
//   v <- v - gamma_v (grad_v f(u, v; b) + penalty)      tau_v steps, u fixed
//   u <- u - gamma_u  grad_u f(u, v; b)                 tau_u steps, the new v fixed, other batches
//
// Each block has its own rule (rate, schedule, clipping) and its own budget. Cost: tau_v + tau_u gradients; a model
// that fuses steps leaves out the weight gradients of the block that stands still.
#pragma once

#include <cstddef>

#include <tessera/core/offers.hpp>
#include <tessera/order/detail/phase.hpp>
#include <tessera/order/penalty.hpp>

namespace tessera::order {

template <class V, class U = V, std::size_t Cap = 1000>
struct Alternate {
    static constexpr Offers offers{};
    using Trains = Trained<V, U>;  // gradients in u read v
    V v{};  // gamma_v
    U u{};  // gamma_u
    std::size_t epochs_v = 1, epochs_u = 1;
    std::size_t cap_v = Cap, cap_u = 0;  // most steps of a phase; 0: no cap
    Penalty penalty{};

    template <class M>
    void operator()(const Context<M>& at, Vec<real<M>>& w, const Coordinates& own, const Coordinates& common) const {
        Vec<real<M>> zeros;
        detail::phase(at, w, {epochs_v, cap_v, Pass::own}, v, penalty.terms(at, own, zeros));
        detail::phase(at, w, {epochs_u, cap_u, Pass::shared}, u, {.on = common});
    }
};

}  // namespace tessera::order
