// SPDX-License-Identifier: BSD-3-Clause
// Plan: who is visited in a round, and whose upload counts.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include <tessera/core/arena.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>

namespace tessera {

struct Seat {
    Id client = 0;
    bool merged = true;  // false: trains, but its upload is neither sent nor counted
};
using Plan = Vec<Seat>;

// A client that may be chosen. Draws read the key, so relabelling clients permutes a run and changes nothing else.
struct Candidate {
    Id client = 0;
    std::uint64_t key = 0;
};

// How a round's clients were drawn, for whoever counts what the round tells about one of them.
struct Participation {
    bool each_by_itself = false;  // false: a client that stays away may leave its seat to another
    double rate = 1;              // the probability of each
};
namespace detail {
struct SamplerNames {
    int each_by_itself;
};
template <class S> concept names_each_by_itself = !requires { &Probed<S, SamplerNames>::each_by_itself; };

template <class S>
consteval bool sampler_is_spelt() {
    static_assert(policy_is_spelt<S>());
    if constexpr (StatesOffers<S>)
        static_assert(
            agrees<S>(names_each_by_itself<S>, offer::each_by_itself),
            "tessera::Sampler: `each_by_itself` must be a member and be listed in `offers`, or neither; is it "
            "misspelt?");
    return true;
}
}  // namespace detail

// A sampler that draws every client by itself offers `double each_by_itself() const`, with which probability.
template <class S>
Participation participation_of(const S& sampler) {
    static_assert(detail::sampler_is_spelt<S>());
    if constexpr (detail::offers_of<S>().has(offer::each_by_itself)) return {true, sampler.each_by_itself()};
    else return {};
}

template <class S>
concept Sampler = std::copyable<S> && requires(const S sampler, Key key, std::size_t round,
                                               std::span<const Candidate> candidates) {
    { sampler.plan(key, round, candidates) } -> std::same_as<Plan>;
};

}  // namespace tessera
