// SPDX-License-Identifier: BSD-3-Clause
// What a policy offers beyond what it owes. Optional names are found by nobody unless they are listed:
//
//   static constexpr Offers offers = offer::validate | offer::hides_clients;
//
// A policy always says so, `Offers offers{}` if it has none. Most entries are names of members (a function, a type, a
// constant): listed and absent, or present and not listed, does not compile, so a misspelt name cannot pass for an
// absent one. The others are statements, which need no member; their comments begin with "says".
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace tessera {

struct Offers {
    std::uint64_t bits = 0;
    constexpr bool has(Offers other) const { return (bits & other.bits) == other.bits; }
    friend constexpr Offers operator|(Offers a, Offers b) { return {a.bits | b.bits}; }
};

namespace offer {

// The n-th entry of the list.
constexpr Offers bit(unsigned n) { return {std::uint64_t{1} << n}; }

inline constexpr Offers nothing{};

// Of any policy, and of any struct of settings inside one.
inline constexpr Offers validate = bit(0);      // void validate() const: throws ConfigError
inline constexpr Offers reads_rounds = bit(1);  // bool reads_rounds() const: cannot do without the planned rounds

// Of a method (contracts/method.hpp).
inline constexpr Offers admits = bit(2);            // bool admits(server, from, upload) const: may an upload be merged
inline constexpr Offers takes = bit(3);  // bool takes(context, received, client) const: may a download be read
inline constexpr Offers keeps = bit(4);  // bool keeps(context, client, length) const: may it be a state;
                                         // of a fold, bool keeps(memory, w) const: may a memory be its own
inline constexpr Offers holds = bit(5);             // bool holds(opened, server) const: may a state be the server's
inline constexpr Offers global = bit(6);            // Vec<R> global(server, initial) const: the global model
inline constexpr Offers global_at = bit(7);  // Vec<R> global_at(context, received, client) const: as a client sees
inline constexpr Offers no_global = bit(8);         // says that there is no global model
inline constexpr Offers serves_global = bit(9);     // says that its own `serve` gives the server's model
inline constexpr Offers serves_as_is = bit(10);     // says that its own `serve` trains nothing
inline constexpr Offers trains_to_serve = bit(11);  // bool trains_to_serve() const: whether it does
inline constexpr Offers needs_memory = bit(12);     // std::string_view needs_memory() const: why, or ""
inline constexpr Offers over_budget = bit(13);      // optional<Overdraft> over_budget(client, id) const
inline constexpr Offers keep_spent = bit(14);       // void keep_spent(before, after) const: what a failed visit costs
inline constexpr Offers decode = bit(60);           // bool decode(server, from, upload, inner_upload&) const, and
                                                    // decode(received, inner_received&): of a method around another
inline constexpr Offers Released = bit(15);         // using Released = Trained<...>: behind what leaves a client
inline constexpr Offers Kept = bit(16);             // using Kept = Trained<...>: behind what stays

// Of a fold (contracts/fold.hpp).
inline constexpr Offers streams = bit(17);        // says that it is linear: Sum<R>, lift, add, finish
inline constexpr Offers masked = bit(18);         // says that it understands rows with masks
inline constexpr Offers whole_rows = bit(19);     // says that it does not, though the fold inside it may
inline constexpr Offers hides_clients = bit(20);  // says that it hides what any single client sent
inline constexpr Offers lift_width = bit(21);  // static constexpr std::size_t lift_width: neighbours it lifts at once
inline constexpr Offers check = bit(22);       // void check(context, w) const: what it asks before round one;
                                               // of a rule alike; of a scope, void check(layout) const
inline constexpr Offers cohort_key = bit(23);     // Key cohort_key(Key) const: the key that plans are drawn with

// Of a rule, and of where noise comes from (contracts/private.hpp).
inline constexpr Offers plain = bit(61);        // Step<R> plain(context, terms) const: what every step of a walk is
inline constexpr Offers adds_noise = bit(24);   // says that its steps are private; it has `Sampling`
inline constexpr Offers draws_noise = bit(25);  // says that it is a source: replayable(), words()

// Of a prior and of a divergence (contracts/prior.hpp, contracts/divergence.hpp).
inline constexpr Offers draws = bit(26);           // std::size_t draws() const: batches of a local step
inline constexpr Offers pull_back = bit(27);       // void pull_back(context, w, batches, me, v) const
inline constexpr Offers starts_at_mean = bit(28);  // says that the prox starts at mu unless told otherwise
inline constexpr Offers forgets = bit(29);         // says that me.w_last is not read
inline constexpr Offers natural = bit(30);         // says that what it writes is s = grad g*(mu)
inline constexpr Offers euclidean = bit(31);       // says that g* is half the squared norm

// Of an executor (contracts/executor.hpp).
inline constexpr Offers remarks = bit(63);  // std::vector<std::string> remarks() const: what to say of the last round

// Of a gate (contracts/gate.hpp), a sampler (contracts/plan.hpp), a scope (core/scope.hpp).
inline constexpr Offers saved = bit(32);           // std::size_t saved(routes) const: numbers an example that it keeps
inline constexpr Offers each_by_itself = bit(33);  // double each_by_itself() const: the chance of each client
inline constexpr Offers may_be_empty = bit(34);    // says that finding nothing is no mistake
inline constexpr Offers has = bit(35);             // bool has(segment, client) const: of what it selects

// Of a model (contracts/model.hpp and beside it).
inline constexpr Offers fused = bit(36);          // fuses(step), fused_step(x, batch, step)
inline constexpr Offers initialize = bit(37);     // initialize(x, key): its own first parameters
inline constexpr Offers forward_flops = bit(38);  // forward_flops(): of one example; of a gate, forward_flops(routes)
inline constexpr Offers input_width = bit(39);    // inputs, or input_width(): numbers an example
inline constexpr Offers logits = bit(40);         // logits(x, batch, out), pullback(x, batch, dz, out)
inline constexpr Offers features = bit(41);       // feature_width(), features(x, batch, out)
inline constexpr Offers aligned = bit(42);        // aligns(), aligned_gradient(x, batch, term, out)
inline constexpr Offers clipped = bit(43);        // clips(clip), clipped_sum(x, batch, clip, out)
inline constexpr Offers sparse = bit(44);         // sparse(mask, batch, arithmetic)
inline constexpr Offers routed = bit(45);         // routes(mix), routed_gradient, routed_predict, hard_predict
inline constexpr Offers apart = bit(52);          // bool apart() const: no example changes another's gradient
inline constexpr Offers blueprint = bit(62);      // Blueprint<R> blueprint() const: the layers that it is made of

// Of a model (contracts/judgement.hpp).
inline constexpr Offers judge = bit(56);  // positions(), judge(batch, predictions, to), accepts(examples, labelled)

// Of a layer (nn/layer.hpp).
inline constexpr Offers backward_update = bit(50);  // void backward_update(pass, w, update) const: dx, then gradient
                                                    // and update at once
inline constexpr Offers factors = bit(51);  // Factors<R> factors(pass, example, room) const: of its weight gradient
inline constexpr Offers mixes = bit(53);    // mix_forward, mix_backward: as a block of routing it asks by itself
inline constexpr Offers blocks = bit(61);   // blocks_forward, blocks_backward: the same on blocks of examples

// Of a predictor, as `serve` gives it: how its parameters can be written to a file (runtime/export.hpp).
inline constexpr Offers parameters = bit(46);  // parameters: a Vec<R>, the model's own
inline constexpr Offers whole = bit(47);       // whole(): a Vec<R>, the model's own
inline constexpr Offers segments = bit(48);    // segments() and parameters(): a layout of its own, and its numbers
inline constexpr Offers either = bit(49);      // first, second, takes_second: one of two predictors

// Of a policy around another, what it has if that has it.
constexpr Offers when(bool so, Offers what) { return so ? what : nothing; }

}  // namespace offer

namespace detail {

template <class P>
concept StatesOffers = requires {
    { P::offers } -> std::convertible_to<Offers>;
};
template <class P>
consteval Offers offers_of() {
    if constexpr (StatesOffers<P>) return P::offers;
    else return {};
}
// `&Probed<P, Names>::name` is ambiguous exactly when P has a member called so, of whatever kind: Names has one too.
template <class P, class Names>
struct Probed : P, Names {};

struct PolicyNames {
    int validate, reads_rounds;
};
template <class P> concept names_validate = !requires { &Probed<P, PolicyNames>::validate; };
template <class P> concept names_reads_rounds = !requires { &Probed<P, PolicyNames>::reads_rounds; };

// Listed and present, or neither.
template <class P>
consteval bool agrees(bool present, Offers name) {
    return present == offers_of<P>().has(name);
}

template <class P>
consteval bool policy_is_spelt() {
    static_assert(
        StatesOffers<P>,
        "tessera: a policy, and a struct of settings in one, lists the optional names it has: `static constexpr "
        "Offers offers = offer::validate | ...;`, or `Offers offers{}` if it has none");
    if constexpr (StatesOffers<P>) {
        static_assert(!std::is_final_v<P>, "tessera: a policy must not be final, or nobody can see what names it has");
        static_assert(agrees<P>(names_validate<P>, offer::validate),
                      "tessera: `validate` must be a member and be listed in `offers`, or neither; is it misspelt?");
        static_assert(
            agrees<P>(names_reads_rounds<P>, offer::reads_rounds),
            "tessera: `reads_rounds` must be a member and be listed in `offers`, or neither; is it misspelt?");
    }
    return true;
}

}  // namespace detail
}  // namespace tessera
