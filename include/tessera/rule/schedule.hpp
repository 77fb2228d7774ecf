// SPDX-License-Identifier: BSD-3-Clause
// How a learning rate moves over rounds: rate_t = rate * s(t), constant inside a round.
//
//   linear       s(t) = t/(aT) for t < aT, (T-t)/(T-aT) after it     (a = warm_up; round 0 changes nothing)
//   step         s(t) = factor ^ floor(t / every)
//   exponential  s(t) = factor ^ t
//   cosine       s(t) = (1 + cos(pi t / T)) / 2
//
// Tuning when a model is served is no round: s = 1.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::rule {

enum class Decay : std::uint8_t { constant, linear, step, exponential, cosine };
constexpr std::array<std::string_view, 5> words_of(Decay) {
    return {"constant", "linear", "step", "exponential", "cosine"};
}

struct Schedule {
    static constexpr auto offers = offer::validate | offer::reads_rounds;
    Decay decay = Decay::constant;
    double warm_up = 0.1;      // a, in (0, 1)
    double factor = 0.5;       // in (0, 1]
    std::size_t every = 500;   // rounds

    double operator()(std::size_t round, std::size_t rounds) const {
        const auto t = static_cast<double>(round), T = static_cast<double>(rounds);
        switch (decay) {
            case Decay::constant: return 1;
            case Decay::linear: {
                const double peak = warm_up * T;
                if (t < peak) return t / peak;
                return t < T ? (T - t) / (T - peak) : 0;
            }
            case Decay::step: return std::pow(factor, std::floor(t / static_cast<double>(every)));
            case Decay::exponential: return std::pow(factor, t);
            case Decay::cosine: return t < T ? (1 + std::cos(3.14159265358979323846 * t / T)) / 2 : 0;
        }
        return 1;
    }
    // Where a walk stands; a model that is served is tuned at the full rate.
    template <class S>
    double at(const S& context) const {
        return context.serving ? 1 : (*this)(context.round, context.rounds);
    }
    bool reads_rounds() const { return decay == Decay::linear || decay == Decay::cosine; }  // T must be known
    void validate() const {
        detail::require(warm_up > 0 && warm_up < 1, "warm_up must lie in (0, 1), not " + std::to_string(warm_up));
        detail::require(factor > 0 && factor <= 1, "factor must lie in (0, 1], not " + std::to_string(factor));
        detail::require(every > 0, "every must be at least 1 round");
    }
};

}  // namespace tessera::rule
