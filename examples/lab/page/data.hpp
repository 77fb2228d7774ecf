// SPDX-License-Identifier: BSD-3-Clause
// Figures of the HTML report about the split: who has how much, and of which classes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/report/record.hpp>

#include "categories.hpp"
#include "figures.hpp"
#include "svg.hpp"
#include "text.hpp"

namespace lab::page {

inline bool same_data(const RunRecord& a, const RunRecord& b) {
    return std::ranges::equal(a.per_client, b.per_client, [](const ClientRecord& x, const ClientRecord& y) {
        return x.id == y.id && x.n_train == y.n_train && x.labels == y.labels;
    });
}

// The classes of each client where they are known, and its size.
inline std::string data_figures(const Runs& runs, std::size_t i) {
    const auto& clients = runs.all[i].per_client;
    const std::string suffix = i == 0 ? "" : cat("-", digits(i + 1));
    const std::string whose = runs.many() ? cat(", ", escape_html(runs.names[i])) : "";
    HeatMap map{.label = "Training examples per client and class",
                .column_title = "client",
                .row_title = "class",
                .unit = "examples"};
    std::size_t classes = 0, examples = 0;
    for (const auto& client : clients) {
        map.names.push_back(digits(client.id));
        map.columns.emplace_back(client.labels.begin(), client.labels.end());
        classes = std::max(classes, client.labels.size());
        examples += client.n_train;
    }
    for (std::size_t c = 0; c < classes; ++c) map.rows.push_back(class_called(runs.all[i], c));
    std::vector<double> sizes;
    for (const auto& client : clients) sizes.push_back(static_cast<double>(client.n_train));
    const bool equal = !sizes.empty() && std::ranges::count(sizes, sizes[0]) == std::ssize(sizes);
    const std::string total =
        cat(plural(clients.size(), "client"), ", ", plural(examples, "training example"),
            equal && sizes.size() > 1 ? cat(", ", digits(clients[0].n_train), " each.") : ".");
    std::string out;
    if (const std::string chart = heat_map(map); !chart.empty()) {
        out = figure("classes" + suffix, "Classes per client" + whose, "A column is a client, a row a class.", {},
                     ramp(map) + chart, "");
    }
    const std::size_t stride = stride_of(clients.size(), 400);
    std::vector<Mark> bars;
    for (std::size_t k = 0; k < clients.size(); k += stride)
        bars.push_back({static_cast<double>(k), static_cast<double>(clients[k].n_train), 0,
                        cat(called(clients[k]), ": ", plural(clients[k].n_train, "training example"))});
    const std::string caption = stride > 1 ? cat(total, " One bar for every ", digits(stride), " clients.") : total;
    out += figure("data" + suffix, "Data per client" + whose, caption, {},
                  bar_chart(caption, {.title = "client", .integers = true},
                            {.title = "training examples", .from_zero = true}, bars, static_cast<double>(stride)),
                  "No per-client record in this run.");
    if (equal) return out;  // one bar, which the caption has in words
    const std::string counted = "How many clients have how many training examples.";
    out += figure("data-histogram" + suffix, "Sizes of clients" + whose, counted, {},
                  histogram({.label = counted,
                             .counted = "clients",
                             .x = {.title = "training examples", .integers = true},
                             .groups = {std::move(sizes)},
                             .names = {""},
                             .colours = {0}}),
                  "No per-client record in this run.");
    return out;
}

}  // namespace lab::page
