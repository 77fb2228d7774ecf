// SPDX-License-Identifier: BSD-3-Clause
// The names that a method may have beside its verbs, and whether it lists those that it has.
#pragma once

#include <tessera/contracts/policy.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::detail {

struct MethodNames {
    int open, send, visit, merge, serve;
    int admits, takes, keeps, holds, global, global_at, trains_to_serve, needs_memory, over_budget, keep_spent, decode;
    int Released, Kept, no_global, serves_global, serves_as_is, serves_own;
};
template <class Me>
using Probe = Probed<Me, MethodNames>;

template <class Me> concept names_open = !requires { &Probe<Me>::open; };
template <class Me> concept names_send = !requires { &Probe<Me>::send; };
template <class Me> concept names_visit = !requires { &Probe<Me>::visit; };
template <class Me> concept names_merge = !requires { &Probe<Me>::merge; };
template <class Me> concept names_serve = !requires { &Probe<Me>::serve; };
template <class Me> concept names_admits = !requires { &Probe<Me>::admits; };
template <class Me> concept names_takes = !requires { &Probe<Me>::takes; };
template <class Me> concept names_state_keeps = !requires { &Probe<Me>::keeps; };
template <class Me> concept names_holds = !requires { &Probe<Me>::holds; };
template <class Me> concept names_global = !requires { &Probe<Me>::global; };
template <class Me> concept names_global_at = !requires { &Probe<Me>::global_at; };
template <class Me> concept names_trains_to_serve = !requires { &Probe<Me>::trains_to_serve; };
template <class Me> concept names_needs_memory = !requires { &Probe<Me>::needs_memory; };
template <class Me> concept names_over_budget = !requires { &Probe<Me>::over_budget; };
template <class Me> concept names_keep_spent = !requires { &Probe<Me>::keep_spent; };
template <class Me> concept names_decode = !requires { &Probe<Me>::decode; };
template <class Me> concept names_Released = !requires { &Probe<Me>::Released; };
template <class Me> concept names_Kept = !requires { &Probe<Me>::Kept; };
template <class Me> concept names_serves_own = !requires { &Probe<Me>::serves_own; };

// Each optional name is a member and listed, or neither.
template <class Me>
consteval bool method_is_spelt() {
    static_assert(policy_is_spelt<Me>());
    if constexpr (StatesOffers<Me>) {
        static_assert(agrees<Me>(names_admits<Me>, offer::admits),
                      "tessera::Method: `admits` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(agrees<Me>(names_takes<Me>, offer::takes),
                      "tessera::Method: `takes` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(
            agrees<Me>(names_state_keeps<Me>, offer::keeps),
            "tessera::Method: `keeps` must be a member and be listed in `offers`, or neither; is it misspelt?");
        static_assert(agrees<Me>(names_holds<Me>, offer::holds),
                      "tessera::Method: `holds` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(agrees<Me>(names_global<Me>, offer::global),
                      "tessera::Method: `global` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(agrees<Me>(names_global_at<Me>, offer::global_at),
                      "tessera::Method: `global_at` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(
            agrees<Me>(names_trains_to_serve<Me>, offer::trains_to_serve),
            "tessera::Method: `trains_to_serve` must be a member and be listed in `offers`, or neither; is it "
            "misspelt?");
        static_assert(agrees<Me>(names_needs_memory<Me>, offer::needs_memory),
                      "tessera::Method: `needs_memory` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(agrees<Me>(names_over_budget<Me>, offer::over_budget),
                      "tessera::Method: `over_budget` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(agrees<Me>(names_keep_spent<Me>, offer::keep_spent),
                      "tessera::Method: `keep_spent` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(agrees<Me>(names_decode<Me>, offer::decode),
                      "tessera::Method: `decode` is a member and listed in `offers`, or neither; is it misspelt?");
        static_assert(agrees<Me>(names_Released<Me>, offer::Released),
                      "tessera::Method: `Released` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(
            agrees<Me>(names_Kept<Me>, offer::Kept),
            "tessera::Method: `Kept` must be a member and be listed in `offers`, or neither; is it misspelt?");
        static_assert(!names_serves_own<Me>,
                      "tessera::Method: `serves_own` is no member: where `serve` gives the server's model, list "
                      "`serves_global` in `offers`");
    }
    return true;
}

}  // namespace tessera::detail
