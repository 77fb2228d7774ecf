// SPDX-License-Identifier: BSD-3-Clause
// A local rule as it is by default; plain steps begin at the rate of the method's paper.
#pragma once

#include <type_traits>

#include <tessera/rule/sgd.hpp>

namespace tessera::detail {

template <class Local>
constexpr Local with_rate(double rate) {
    Local local{};
    if constexpr (std::is_same_v<Local, rule::Sgd>) local.rate = rate;
    return local;
}

}  // namespace tessera::detail
