// SPDX-License-Identifier: BSD-3-Clause
// What a client's noise must cover. With neighbouring data a personal state that was trained without noise differs, and
// then every clipped gradient that reads it may differ too: the sum moves by far more than one example's norm.
#pragma once

#include <string_view>
#include <type_traits>

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/policy.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>

namespace tessera {
template <class Inner>
struct Private;
}

namespace tessera::detail {

template <class Me>
inline constexpr bool is_private = false;
template <class Inner>
inline constexpr bool is_private<Private<Inner>> = true;

template <class Me>
consteval bool holds_private() {
    if constexpr (is_private<Me>) return true;
    else if constexpr (WrapsMethod<Me>) return holds_private<inner_t<Me>>();
    else return false;
}
// A private method, or one around such a method; and that, and its own part of a client's state.
template <class Me>
concept HoldsPrivate = holds_private<Me>();
template <HoldsPrivate Me>
const auto& private_in(const Me& me) {
    if constexpr (is_private<Me>) return me;
    else return private_in(inner_of(me));
}
template <HoldsPrivate Me>
auto private_state(const auto& state) {
    if constexpr (is_private<Me>) return state;
    else return private_state<inner_t<Me>>(state_within<Me>(state));
}

template <class Me>
struct ReleasedBy {
    using type = void;
};
template <class Me>
    requires requires { typename Me::Released; }
struct ReleasedBy<Me> {
    using type = typename Me::Released;
};
template <class Me>  // a split model: whatever its order trains
    requires(!requires { typename Me::Released; } &&
             requires { typename std::remove_cvref_t<decltype(Me::order)>::Trains; })
struct ReleasedBy<Me> {
    using type = typename std::remove_cvref_t<decltype(Me::order)>::Trains;
};
template <class Me>
using released_t = typename ReleasedBy<Me>::type;

// One ledger counts in one way: all noisy rules draw their examples alike.
template <class A, class B>
consteval bool both_draw_alike() {
    if constexpr (noisy<A>() && noisy<B>()) return std::is_same_v<typename A::Sampling, typename B::Sampling>;
    else return true;
}
template <class First, class... Rest>
consteval bool draw_alike(Trained<First, Rest...>) {
    return (both_draw_alike<First, Rest>() && ...);
}
template <class... Released, class... Kept>
consteval Trained<Released..., Kept...> joined_rules(Trained<Released...>, Trained<Kept...>) {
    return {};
}
template <class Me>
consteval bool counts_in_one_way() {
    if constexpr (std::is_void_v<released_t<Me>>) return true;
    else if constexpr (requires { typename Me::Kept; })
        return draw_alike(joined_rules(released_t<Me>{}, typename Me::Kept{}));
    else return draw_alike(released_t<Me>{});
}

// Whether a rule is among those that a method says are behind what it releases or keeps.
template <class Rule, class... Said>
consteval bool is_said(Trained<Said...>) {
    return (std::is_same_v<Rule, Said> || ...);
}
template <class Me, class Rule>
consteval bool says_of() {
    bool said = false;
    if constexpr (!std::is_void_v<released_t<Me>>) said = is_said<Rule>(released_t<Me>{});
    if constexpr (requires { typename Me::Kept; }) said = said || is_said<Rule>(typename Me::Kept{});
    return said;
}
// Every noisy rule in the method, wherever it lies, is one that the method speaks of.
template <class Me, class Part>
consteval bool speaks_of_all() {
    if constexpr (PlainPolicy<Part>) {
        const bool here = !noisy<Part>() || says_of<Me, Part>();
        return here && []<class... F>(Types<F...>*) { return (speaks_of_all<Me, F>() && ...); }(
                           static_cast<field_types<Part>*>(nullptr));
    } else {
        return true;
    }
}
// Every noisy rule can say where its noise comes from.
template <class Part>
consteval bool all_have_sources() {
    if constexpr (PlainPolicy<Part>) {
        const bool here = !noisy<Part>() || somewhere_offers<Part>(offer::draws_noise);
        return here && []<class... F>(Types<F...>*) { return (all_have_sources<F>() && ...); }(
                           static_cast<field_types<Part>*>(nullptr));
    } else {
        return true;
    }
}
template <class T>
consteval bool holds_vectors() {
    if constexpr (Number<T>) return false;
    else if constexpr (std::is_same_v<T, Mask> || Growable<T>) return true;
    else if constexpr (is_array<T>) return holds_vectors<typename T::value_type>();
    else
        return []<class... F>(Types<F...>*) { return (holds_vectors<F>() || ...); }(
            static_cast<field_types<T>*>(nullptr));
}

template <class Me>
consteval bool releases_only_noise() {
    static_assert(PlainPolicy<Me>,
                  "tessera::Private: a method with constructors or private members cannot be looked through for rules "
                  "without noise; make it a plain struct");
    static_assert(!offers_of<Me>().has(offer::decode),
                  "tessera::Private: what encodes messages goes around a private method, not into it: "
                  "Coded<Private<...>>");
    constexpr bool searches = requires { &Me::masking; }, routes = requires { &Me::gate; };
    constexpr bool guesses = !routes && requires { &Me::prior; }, ordered = requires { &Me::order; };
    static_assert(!searches, "tessera::Private: this method's masks are chosen by data without noise and leave the "
                             "client; privacy of examples needs masks that no data chose, worn around it: "
                             "Masked<Private<...>, mask::RandomStatic>");
    static_assert(!guesses, "tessera::Private: this method's prior reads data and personal state without noise, and "
                            "what it releases reads the prior; use client-level privacy (fold::PrivateMean)");
    static_assert(!routes, "tessera::Private: this method's local branch is trained without noise, and the gradients "
                           "it releases read it; use client-level privacy (fold::PrivateMean)");
    constexpr bool says = !std::is_void_v<released_t<Me>>;
    constexpr bool known = searches || guesses || routes || offers_of<Me>().has(offer::decode);
    static_assert(known || says || !ordered,
                  "tessera::Private: this order takes the gradients of both parts at once, so no example of either is "
                  "clipped by itself; use order::Alternate (FedAlt) with rule::DpSgd for both");
    static_assert(known || says || ordered,
                  "tessera::Private: this method does not say which rules are behind what it releases "
                  "(`using Released = Trained<...>`), so nothing can be promised for it");
    static_assert(known || !says || all_noisy<released_t<Me>>,
                  "tessera::Private: what this method releases reads state that is trained without noise; every rule "
                  "behind it must be rule::DpSgd");
    static_assert(known || !says || speaks_of_all<Me, Me>(),
                  "tessera::Private: this method holds a noisy rule that it does not name in `Released` or `Kept`, so "
                  "what its noise covers cannot be stated");
    static_assert(known || !says || all_have_sources<Me>(),
                  "tessera::Private: a noisy rule of this method does not show where its noise comes from; its source "
                  "offers `draws_noise`");
    constexpr bool keeps = holds_vectors<client_t<Me, float>>(), of_kept = offers_of<Me>().has(offer::Kept);
    static_assert(
        known || !says || !keeps || of_kept || ordered,
        "tessera::Private: clients of this method keep vectors, and it does not say which rules are behind them "
        "(`using Kept = Trained<...>`), so nothing can be said of them");
    constexpr bool serves = !names_serve<Me> || offers_of<Me>().has(offer::serves_as_is) ||
                            offers_of<Me>().has(offer::trains_to_serve);
    static_assert(known || !says || serves,
                  "tessera::Private: this method does not say whether its `serve` trains (`serves_as_is` or "
                  "`trains_to_serve` in `offers`), and no ledger pays for that");
    static_assert(counts_in_one_way<Me>(), "tessera::Private: all rules must draw their examples in one way, Poisson "
                                           "samples or epochs; a ledger cannot add up both");
    return true;
}

// Serving may train as well, and no ledger is there to pay for it.
template <class Me>
void keeps_what_it_covers(const Me& inner) {
    if constexpr (offers_of<Me>().has(offer::trains_to_serve))
        require(
            !inner.trains_to_serve(),
            "a private method must not train when a model is served (tune_epochs must be 0): that is on data without "
            "noise, and no epsilon covers it");
}

// Of what stays on a client and has no noise, for the report.
template <class Me>
constexpr std::string_view kept_in_words() {
    if constexpr (offers_of<Me>().has(offer::Kept)) {
        if constexpr (!all_noisy<typename Me::Kept>)
            return "personal models are trained without noise; they are not covered and must never leave their client";
        else return "personal models are covered";
    } else if constexpr (requires { &Me::order; }) {
        return "personal parts are covered";
    } else {
        return "nothing personal is kept";
    }
}

}  // namespace tessera::detail
