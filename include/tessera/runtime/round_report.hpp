// SPDX-License-Identifier: BSD-3-Clause
// What a round tells whoever watches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tessera/contracts/executor.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/runtime/server.hpp>

namespace tessera {

// What happened in a round, for observers.
struct RoundReport {
    std::size_t round = 0;  // its number, from 0
    double seconds = 0;
    Outcome outcome{};
    std::size_t trained = 0, diverged = 0;
    std::size_t over_budget = 0;  // of the plan: left out, for a visit would have passed their budget of privacy
    std::uint64_t bytes_up = 0, bytes_down = 0;          // measured on the wire form, frames included
    double formula_bytes_up = 0, formula_bytes_down = 0;  // 4 a parameter, 8 a scalar, a bit a mask entry
    // Three forward passes per example of every gradient taken: of what is active in a sparse model, and dense for its
    // mask search; of both branches and the router in a routed one.
    double flops = 0;
    std::uint64_t examples = 0;                           // of those gradients
    double train_loss = 0;                                // mean over steps
    Fingerprint state{};
    std::vector<std::string> remarks{};  // of the executor: what there is to know about where the round ran
};

namespace detail {
// What an executor has to say of the last round, if it is one that speaks.
template <class E, class Sentences>
void take_remarks(const E& executor, Sentences& to) {
    static_assert(executor_is_spelt<E>());
    if constexpr (offers_of<E>().has(offer::remarks)) to = executor.remarks();
}
}  // namespace detail

}  // namespace tessera
