// SPDX-License-Identifier: BSD-3-Clause
// What a run has promised to hide, client by client. A mean would hide the client that paid most, so the largest
// epsilon comes first; and an epsilon says nothing without what it assumes, so that stands in the same table.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/report/extra.hpp>

namespace tessera::report::analysis {

struct PrivacyStatement {
    std::vector<double> epsilon;  // of each client
    double delta = 1e-5;
    std::string adjacency, sampling, conversion, noise, personal;
    bool of_clients = false;  // whether it is whole clients that are hidden, or single examples
};

// The q-quantile of sorted values: the smallest that is not below a share q of them.
inline double quantile(const std::vector<double>& sorted, double q) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
    return sorted[std::max<std::size_t>(rank, 1) - 1];
}

inline Extra privacy_table(const PrivacyStatement& s) {
    tessera::detail::require(!s.epsilon.empty(), "a privacy statement needs the epsilon of at least one client");
    auto sorted = s.epsilon;
    std::sort(sorted.begin(), sorted.end());
    double mean = 0;
    for (const double e : sorted) mean += e / static_cast<double>(sorted.size());
    const char* of_examples = "Epsilon of what each client has released so far, by Renyi accounting. The sizes of the "
                              "clients' data, and the losses and accuracies in this report, are not covered by it.";
    const char* of_clients = "Epsilon of what the server has made of each client's uploads so far, by Renyi "
                             "accounting. The server sees uploads as they are; losses and accuracies in this report "
                             "are not covered either.";
    Extra out{.id = "privacy",
              .title = s.of_clients ? "Differential privacy of whole clients"
                                    : "Differential privacy of single examples",
              .caption = s.of_clients ? of_clients : of_examples,
              .kind = Kind::table,
              .series = {{.name = "value"}}};
    const auto number = [&](const std::string& name, double value) {
        out.categories.push_back(name);
        out.series[0].y.push_back(value);
        char text[40];
        std::snprintf(text, sizeof text, "%.6g", value);
        out.series[0].texts.push_back(std::isfinite(value) ? text : "infinite: nothing is hidden");
    };
    const auto words = [&](const std::string& name, const std::string& value) {
        out.categories.push_back(name);
        out.series[0].y.push_back(std::nan(""));
        out.series[0].texts.push_back(value);
    };
    number("epsilon, largest", sorted.back());
    number("epsilon, 95 % of clients", quantile(sorted, 0.95));
    number("epsilon, median", quantile(sorted, 0.5));
    number("epsilon, mean", mean);
    number("epsilon, smallest", sorted.front());
    number("delta", s.delta);
    number("clients", static_cast<double>(sorted.size()));
    words("neighbours", s.adjacency);
    words(s.of_clients ? "clients are drawn as" : "examples are drawn as", s.sampling);
    words("conversion", s.conversion);
    words("noise", s.noise);
    words("personal models", s.personal);
    return out;
}

// Of every client, from the one that paid least to the one that paid most. Who is not hidden at all has no dot; the
// caption counts them.
inline Extra privacy_figure(const PrivacyStatement& s) {
    std::vector<std::size_t> order(s.epsilon.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return s.epsilon[a] < s.epsilon[b]; });
    Extra out{.id = "privacy-clients",
              .title = "Epsilon of each client",
              .caption = "Clients in order of what they have released so far.",
              .kind = Kind::scatter,
              .x = {.title = "clients in order of epsilon", .integers = true},
              .y = {.title = "epsilon", .from_zero = true},
              .series = {{.name = ""}}};
    std::size_t bare = 0;
    for (std::size_t place = 0; place < order.size(); ++place) {
        const double epsilon = s.epsilon[order[place]];
        bare += !std::isfinite(epsilon);
        out.series[0].x.push_back(static_cast<double>(place + 1));
        out.series[0].y.push_back(epsilon);
        out.series[0].texts.push_back("client " + std::to_string(order[place]));
    }
    if (bare > 0) out.caption += " Of " + std::to_string(bare) + " it is infinite: nothing is hidden.";
    return out;
}

}  // namespace tessera::report::analysis
