// SPDX-License-Identifier: BSD-3-Clause
// RSM, FedSpa's random static mask: drawn once, never changed.
#pragma once

#include <tessera/core/offers.hpp>
#include <tessera/mask/density.hpp>

namespace tessera::mask {

struct RandomStatic {
    static constexpr auto offers = offer::validate;
    double density = 0.5;  // in (0, 1]
    Distribution distribution = Distribution::erk;
    MaskScope mask_scope = MaskScope::all;

    Mask first(Layout layout, Key key) const { return drawn(layout, density, distribution, key, mask_scope); }
    void next(const auto&, Mask&) const {}
    void validate() const { require_density(density); }
};

}  // namespace tessera::mask
