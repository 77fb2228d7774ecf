// SPDX-License-Identifier: BSD-3-Clause
// Upper and lower controls: what a method must be compared with to mean anything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/runtime/evaluate.hpp>

namespace tessera {

// Everybody's training data in one client, tested where it was: FedAvg on the result is centralised training.
inline data::FederatedDataset pooled(const data::FederatedDataset& clients) {
    data::Share all;
    for (const auto& share : clients.split().clients) {
        all.train.insert(all.train.end(), share.train.begin(), share.train.end());
        all.validation.insert(all.validation.end(), share.validation.begin(), share.validation.end());
        all.test.insert(all.test.end(), share.test.begin(), share.test.end());
    }
    return {clients.pool(), data::Split{.clients = {std::move(all)}}};
}

// Each client predicts the most frequent class of its own training data (the lowest on a tie).
inline report::PerClient<Which::personal, When::after, SplitOf::test, Whom::all> majority_class(
    const data::FederatedDataset& clients) {
    std::vector<report::ClientCount> counts;
    for (std::size_t k = 0; k < clients.size(); ++k) {
        const auto data = clients[k];
        detail::require(data.examples->one_label(), "majority_class: the task has no classes, or several an example");
        std::vector<std::size_t> seen_labels(data.examples->classes);
        for (const Index i : data.train) ++seen_labels[static_cast<std::size_t>(data.examples->labels[i])];
        const auto best = std::max_element(seen_labels.begin(), seen_labels.end()) - seen_labels.begin();
        report::ClientCount count{.client = static_cast<Id>(k), .loss_sum = report::absent, .n = data.test.size()};
        for (const Index i : data.test) count.correct += data.examples->labels[i] == best;
        counts.push_back(count);
    }
    return {report::On::local(), report::Pick::last(), "", std::move(counts)};
}

// The better of two results, client by client. It reads test data to choose, so it bounds what choosing
// can reach and is no method.
template <When T, SplitOf S, Whom P>
std::vector<double> oracle_best_of(const report::PerClient<Which::global, When::before, S, P>& global,
                                   const report::PerClient<Which::personal, T, S, P>& personal) {
    auto best = global.accuracies();
    const auto other = personal.accuracies();
    detail::require(best.size() == other.size(), "oracle_best_of: the two results have different clients");
    for (std::size_t k = 0; k < best.size(); ++k) best[k] = std::max(best[k], other[k]);
    return best;
}

}  // namespace tessera
