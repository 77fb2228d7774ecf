// SPDX-License-Identifier: BSD-3-Clause
// Plan: who is visited in a round, and whose upload counts.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include <tessera/core/arena.hpp>
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
struct Cohort {
    bool each_by_itself = false;  // false: a client that stays away may leave its seat to another
    double rate = 1;              // the probability of each
};
// A sampler that draws every client by itself says with which probability: `double each_by_itself() const`.
template <class S>
Cohort cohort_of(const S& sampler) {
    if constexpr (requires { sampler.each_by_itself(); }) return {true, sampler.each_by_itself()};
    else return {};
}

template <class S>
concept Sampler = std::copyable<S> && requires(const S sampler, Key key, std::size_t round,
                                               std::span<const Candidate> candidates) {
    { sampler.plan(key, round, candidates) } -> std::same_as<Plan>;
};

}  // namespace tessera
