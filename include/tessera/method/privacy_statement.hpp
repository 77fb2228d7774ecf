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
struct FirstOf<Trained<Rule, Others...>> {
    using type = Rule;
};

// Of all the noise in the method: replayable if any of it is.
template <class Me>
std::string_view noise_in_words(const Me& method) {
    std::string_view worst;
    const auto look = [&](const auto& rule) {
        if constexpr (requires { rule.source.words(); })
            if (worst.empty() || rule.source.replayable()) worst = rule.source.words();
    };
    if constexpr (requires { method.local; }) look(method.local);
    if constexpr (requires { method.personal; }) look(method.personal);
    if constexpr (requires { method.order.u; }) look(method.order.u), look(method.order.v);
    return worst;
}
}  // namespace detail

template <class Inner, class M>
report::analysis::PrivacyStatement privacy_statement(const Federation<Private<Inner>, M>& run) {
    using Sampling = typename detail::FirstOf<detail::released_t<Inner>>::type::Sampling;
    const auto& method = run.setup().method;
    report::analysis::PrivacyStatement all;
    for (Id k = 0; k < run.size(); ++k)
        all.epsilon.push_back(method.spent(run.client(k)).epsilon);
    all.delta = method.delta;
    all.adjacency = Sampling::adjacency;
    all.sampling = Sampling::words;
    all.conversion = "Renyi, improved (Canonne, Kamath and Steinke 2020)";
    all.noise = detail::noise_in_words(method.inner);
    all.personal = detail::kept_in_words<Inner>();
    return all;
}

}  // namespace tessera
