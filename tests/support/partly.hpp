// SPDX-License-Identifier: BSD-3-Clause
// Partial personalization on the toy data: both orders, with the scope and the two rules that a test is about.
#pragma once

#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedsim.hpp>
#include <tessera/runtime/setup.hpp>

namespace tessera::support::partly {

using Alt = FedAlt<scope::Chosen>;
using Sim = FedSim<scope::Chosen>;

constexpr Settings usual{.seed = 3, .batch = 5, .rounds = 8};
inline const rule::Sgd lively{.rate = 0.1, .momentum = 0.5, .weight_decay = 0.01, .clip = 2};

// The own part by rule v, the shared one by u.
template <class Me>
Me with(const char* own, const rule::Sgd& v = lively, const rule::Sgd& u = lively) {
    Me method{.own = own, .weights = Weigh::samples};
    method.order.v = v;
    method.order.u = u;
    return method;
}

}  // namespace tessera::support::partly
