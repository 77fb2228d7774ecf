// SPDX-License-Identifier: BSD-3-Clause
// What a private run can say about itself, be it examples that are hidden or whole clients: the
// epsilon of every client, and all that it assumes.
//
//   record.add(report::analysis::privacy_table(privacy_statement(run)));
#pragma once

#include <algorithm>
#include <string_view>

#include <tessera/contracts/fold.hpp>
#include <tessera/method/private.hpp>
#include <tessera/privacy/budget.hpp>
#include <tessera/report/analysis/privacy.hpp>
#include <tessera/runtime/at_home.hpp>
#include <tessera/runtime/federation.hpp>

namespace tessera {

namespace detail {
template <class List>
struct FirstOf;
template <class Rule, class... Others>
struct FirstOf<Trained<Rule, Others...>> { using type = Rule; };

// f(source) for all that draws noise, wherever it lies in the method.
template <class Me, class F>
void each_noise(const Me& method, const F& f) {
    for_each_policy(method, [&]<class P>(const P& policy) {
        if constexpr (offers_of<P>().has(offer::draws_noise)) f(policy);
    });
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
// Of a method whose aggregator hides whole clients: fold::PrivateMean, with nothing around it.
template <class Me>
concept HidesClients = !HoldsPrivate<Me> && requires(const Me& method) {
    method.fold.delta;
    method.fold.cost(Participation{});
    requires hides_clients<std::remove_cvref_t<decltype(method.fold)>>;
};
}  // namespace detail

// Whether a round that is made again, after a crash say, has other noise and so is paid for again.
template <class Me>
bool draws_afresh(const Me& method) {
    bool afresh = false;
    detail::each_noise(method, [&](const auto& source) { afresh |= !source.replayable(); });
    return afresh;
}

// Of a private method, or of one around it.
template <class Me, class M>
    requires detail::HoldsPrivate<Me>
report::analysis::PrivacyStatement privacy_statement(const Federation<Me, M>& run) {
    const auto& method = detail::private_in(run.setup().method);
    using Inner = detail::inner_t<std::remove_cvref_t<decltype(method)>>;
    using Sampling = typename detail::FirstOf<detail::released_t<Inner>>::type::Sampling;
    report::analysis::PrivacyStatement all;
    all.epsilon.resize(run.size());
    for (Id k = 0; k < run.size(); ++k)
        if (run.lives_here(k))
            all.epsilon[k] = method.spent(detail::private_state<Me>(run.client(k))).epsilon;
    detail::know_everywhere(run, all.epsilon);
    all.delta = method.delta;
    all.adjacency = Sampling::adjacency;
    all.sampling = Sampling::words;
    all.conversion = "Renyi, improved (Canonne, Kamath and Steinke 2020)";
    all.noise = detail::noise_in_words(method.inner);
    all.personal = detail::kept_in_words<Inner>();
    return all;
}

// Of a method that hides whole clients. All have the epsilon of the server's ledger: it counts
// rounds, whoever came.
template <class Me, class M>
    requires detail::HidesClients<Me>
report::analysis::PrivacyStatement privacy_statement(const Federation<Me, M>& run) {
    const auto& method = run.setup().method;
    const auto& ledger = run.server().fold.ledger;
    report::analysis::PrivacyStatement all;
    all.delta = method.fold.delta;
    all.of_clients = true;
    all.epsilon.assign(run.size(), privacy::guarantee(ledger, all.delta).epsilon);
    all.adjacency = "one client more or less, with all of its examples";
    const bool sampled = std::ranges::any_of(ledger, [](const Spent& s) { return s.rate < 1; });
    all.sampling = sampled ? "each by itself with a chance that nobody else knows the outcome of"
                           : "everybody, or a fixed number: a round counts for all clients";
    all.conversion = "Renyi, improved (Canonne, Kamath and Steinke 2020)";
    all.noise = detail::noise_in_words(method);
    all.personal = "what stays with a client has no noise, and is private towards others";
    return all;
}

}  // namespace tessera
