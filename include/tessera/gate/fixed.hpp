// SPDX-License-Identifier: BSD-3-Clause
// The same q0 for every example and block: the fixed policies of Flow's ablation. No parameters.
#pragma once

#include <algorithm>
#include <string>

#include <tessera/contracts/gate.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::gate {

struct Fixed {
    static constexpr auto offers = offer::validate;
    double q0 = 1;  // of the global branch

    Vec<Segment> segments(const Routes&) const { return {}; }
    template <class R>
    void operator()(const Routes&, In<R>, const Batch<R>&, Out<R> out, Out<R>) const {
        std::fill(out.begin(), out.end(), static_cast<R>(q0));
    }
    template <class R>
    void pull_back(const Routes&, In<R>, const Batch<R>&, In<R>, In<R>, In<R>, Out<R>) const {}
    void validate() const {
        tessera::detail::require(q0 >= 0 && q0 <= 1, "q0 must lie in [0, 1], not " + std::to_string(q0));
    }
};

}  // namespace tessera::gate
