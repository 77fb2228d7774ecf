// SPDX-License-Identifier: BSD-3-Clause
// What holds the personal block back, in its own updates only:
//
//   strength * |v|^2   or   strength * |v - v_init|^2        without a factor 1/2
//
// v_init is the block's slice of the run's initial vector.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <tessera/contracts/context.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::order {

enum class Anchor : std::uint8_t { zero, initial };
constexpr std::array<std::string_view, 2> words_of(Anchor) { return {"zero", "initial"}; }

struct Penalty {
    static constexpr auto offers = offer::validate;
    double strength = 0;  // 0 is off
    Anchor anchor = Anchor::initial;

    // The gradient 2 strength (v - anchor) as terms of a step. `zeros` is filled if it is pointed at, and must stay.
    template <class M>
    Terms<real<M>> terms(const Context<M>& at, const Coordinates& on, Vec<real<M>>& zeros) const {
        Terms<real<M>> t{.on = on};
        if (strength == 0) return t;
        t.prox_weight = 2 * strength;
        if (anchor == Anchor::zero) zeros.assign(at.initial->size(), 0);
        t.prox_center = anchor == Anchor::zero ? zeros : *at.initial;
        return t;
    }
    void validate() const {
        tessera::detail::require(std::isfinite(strength) && strength >= 0,
                                 "the strength of a penalty must be 0 (off) or more, not " + std::to_string(strength));
    }
};

}  // namespace tessera::order
