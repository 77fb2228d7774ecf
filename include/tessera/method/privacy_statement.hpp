// SPDX-License-Identifier: BSD-3-Clause
// What a private run can say about itself: the epsilon of every client, and all that it assumes.
//
//   record.add(report::analysis::privacy_table(privacy_statement(run)));
#pragma once

#include <string>

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

// The rule behind what is released.
template <class Me>
const auto& released_rule(const Me& method) {
    if constexpr (requires { method.local; }) return method.local;
    else return method.order.u;
}
}  // namespace detail

template <class Inner, class M>
report::analysis::PrivacyStatement privacy_statement(const Federation<Private<Inner>, M>& run) {
    using Sampling = typename detail::FirstOf<detail::released_t<Inner>>::type::Sampling;
    const auto& method = run.setup().method;
    report::analysis::PrivacyStatement all;
    for (Id k = 0; k < run.size(); ++k)
        all.epsilon.push_back(method.epsilon(run.client(k)).epsilon);
    all.delta = method.delta;
    all.adjacency = Sampling::adjacency;
    all.sampling = Sampling::words;
    all.conversion = "Renyi, improved (Canonne, Kamath and Steinke 2020)";
    all.noise = detail::released_rule(method.inner).source.words();
    all.personal = detail::kept_in_words<Inner>();
    return all;
}

}  // namespace tessera
