// SPDX-License-Identifier: BSD-3-Clause
// What a private run can say about itself: the epsilon of every client, and all that it assumes.
//
//   record.add(report::analysis::privacy_table(privacy_statement(run)));
#pragma once

#include <string_view>

#include <tessera/method/private.hpp>
#include <tessera/report/analysis/privacy.hpp>
#include <tessera/runtime/federation.hpp>

namespace tessera {

namespace detail {
template <class List>
struct FirstOf;
template <class Rule, class... Others>
struct FirstOf<Trained<Rule, Others...>> { using type = Rule; };

// Of a rule, or of a fold and those inside it.
template <class Part, class F>
void each_source(const Part& part, const F& f) {
    if constexpr (requires { part.source.words(); }) f(part.source);
    if constexpr (requires { part.inner; }) each_source(part.inner, f);
}
template <class Me, class F>
void each_noise(const Me& method, const F& f) {
    if constexpr (requires { method.local; }) each_source(method.local, f);
    if constexpr (requires { method.personal; }) each_source(method.personal, f);
    if constexpr (requires { method.order.u; })
        each_source(method.order.u, f), each_source(method.order.v, f);
    if constexpr (requires { method.fold; }) each_source(method.fold, f);
    if constexpr (requires { method.inner; }) each_noise(method.inner, f);
}
// Of all the noise in the method: replayable if any of it is.
template <class Me>
std::string_view noise_in_words(const Me& method) {
    std::string_view worst;
    each_noise(method, [&](const auto& source) {
        if (worst.empty() || source.replayable()) worst = source.words();
    });
    return worst;
}
}  // namespace detail

// Whether a round that is made again, after a crash say, has other noise and so is paid for again.
template <class Me>
bool draws_afresh(const Me& method) {
    bool afresh = false;
    detail::each_noise(method, [&](const auto& source) { afresh |= !source.replayable(); });
    return afresh;
}

template <class Inner, class M>
report::analysis::PrivacyStatement privacy_statement(const Federation<Private<Inner>, M>& run) {
    using Sampling = typename detail::FirstOf<detail::released_t<Inner>>::type::Sampling;
    const auto& method = run.setup().method;
    report::analysis::PrivacyStatement all;
    for (Id k = 0; k < run.size(); ++k) all.epsilon.push_back(method.spent(run.client(k)).epsilon);
    all.delta = method.delta;
    all.adjacency = Sampling::adjacency;
    all.sampling = Sampling::words;
    all.conversion = "Renyi, improved (Canonne, Kamath and Steinke 2020)";
    all.noise = detail::noise_in_words(method.inner);
    all.personal = detail::kept_in_words<Inner>();
    return all;
}

}  // namespace tessera
