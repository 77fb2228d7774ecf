// SPDX-License-Identifier: BSD-3-Clause
// FedAvg by epochs and with one weight for all, so that clients keep nothing: what masks are put on in FedSpa.
#pragma once

#include <cstddef>
#include <utility>

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>

namespace tessera::detail {

template <class Local, class Fold>
struct LocalEpochs {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    Local local{};
    Fold fold{};
    std::size_t epochs = 1;

    auto visit(const auto& at, auto w, auto&) const {
        descend(at, w, at.epochs(epochs), local);
        return up(at, std::move(w), Weigh::uniform);
    }
};

}  // namespace tessera::detail
