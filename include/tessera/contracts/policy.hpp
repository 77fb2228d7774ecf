// SPDX-License-Identifier: BSD-3-Clause
// A method and all that it is made of, looked through field by field: what one of them says or asks counts for the
// whole, whatever the field is called and however deep it lies.
#pragma once

#include <type_traits>

#include <tessera/core/bytes.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/core/reflect.hpp>

namespace tessera::detail {

// A plain struct can be looked into; of any other class only the members `fold` and `inner` can.
template <class P>
concept PlainPolicy = std::is_class_v<P> && Reflectable<P> && !is_array<P>;
template <class P>
concept ClosedPolicy = std::is_class_v<P> && !Reflectable<P> && !Growable<P> && !std::is_final_v<P> &&
                       (StatesOffers<P> || names_validate<P>);

// Asked before any body is compiled, so that the sentence stands alone.
template <class P>
consteval bool all_are_spelt() {
    if constexpr (PlainPolicy<P>) {
        static_assert(policy_is_spelt<P>());
        return []<class... F>(Types<F...>*) { return (all_are_spelt<F>() && ...); }(
            static_cast<field_types<P>*>(nullptr));
    } else if constexpr (ClosedPolicy<P>) {
        static_assert(policy_is_spelt<P>());
        if constexpr (requires { &P::fold; }) all_are_spelt<std::remove_cvref_t<decltype(P::fold)>>();
        if constexpr (requires { &P::inner; }) all_are_spelt<std::remove_cvref_t<decltype(P::inner)>>();
    }
    return true;
}

// f(policy) for a policy and for everything inside it.
template <class P, class F>
void for_each_policy(const P& policy, F&& f) {
    if constexpr (PlainPolicy<P>) {
        f(policy);
        with_fields(policy, [&](const auto&... field) { (for_each_policy(field, f), ...); });
    } else if constexpr (ClosedPolicy<P>) {
        f(policy);
        if constexpr (requires { policy.fold; }) for_each_policy(policy.fold, f);
        if constexpr (requires { policy.inner; }) for_each_policy(policy.inner, f);
    }
}

// What P, or something inside it, offers.
template <class P>
consteval Offers all_offers() {
    if constexpr (PlainPolicy<P>) {
        return offers_of<P>() | []<class... F>(Types<F...>*) {
            return (Offers{} | ... | all_offers<F>());
        }(static_cast<field_types<P>*>(nullptr));
    } else if constexpr (ClosedPolicy<P>) {
        Offers all = offers_of<P>();
        if constexpr (requires { &P::fold; }) all = all | all_offers<std::remove_cvref_t<decltype(P::fold)>>();
        if constexpr (requires { &P::inner; }) all = all | all_offers<std::remove_cvref_t<decltype(P::inner)>>();
        return all;
    } else {
        return {};
    }
}
template <class P>
constexpr bool somewhere_offers(Offers name) {
    return all_offers<P>().has(name);
}

// Calls validate() on a policy and on every policy inside it.
template <class P>
void validate_all(const P& policy) {
    static_assert(all_are_spelt<P>());
    for_each_policy(policy, []<class Q>(const Q& each) {
        if constexpr (offers_of<Q>().has(offer::validate)) each.validate();
    });
}

// Only a plain struct can be looked into.
template <class P>
consteval bool is_checked() {
    return Reflectable<P> || requires(const P& policy) { policy.validate(); };
}

// Whether a policy, or one inside it, cannot do without the planned number of rounds.
template <class P>
bool reads_rounds(const P& policy) {
    bool found = false;
    for_each_policy(policy, [&]<class Q>(const Q& each) {
        if constexpr (offers_of<Q>().has(offer::reads_rounds)) found = found || each.reads_rounds();
    });
    return found;
}

}  // namespace tessera::detail
