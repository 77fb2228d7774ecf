// SPDX-License-Identifier: BSD-3-Clause
// Comparisons as figures: a table of numbers with intervals, the clients' differences, who gets which examples right.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tessera/report/compare.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report {

// "+1.25 (0.50 to 2.00)", in points for shares and as it is for losses.
inline std::string in_words(const Interval& interval, double scale) {
    using detail::cat, detail::fixed;
    if (!std::isfinite(interval.mean)) return "n/a";
    const std::string sign = interval.mean > 0 ? "+" : "";
    if (!interval.known()) return cat(sign, fixed(scale * interval.mean, 2));
    return cat(sign, fixed(scale * interval.mean, 2), " (", fixed(scale * interval.low, 2), " to ",
               fixed(scale * interval.high, 2), ")");
}
inline double scale_of(const Evaluation& e) { return is_share(e.metric) ? 100 : 1; }

inline Extra comparison_table(const std::vector<Comparison>& all, double confidence) {
    using detail::cat, detail::digits, detail::fixed;
    Extra out{
        .id = "comparison",
        .title = "Differences over seeds",
        .caption = cat("Second minus first, in points (losses as they are), with ", digits(100 * confidence),
                       " % intervals of Student's t, each for its own comparison. A claim needs at least two seeds "
                       "on both sides."),
        .kind = Kind::table,
        .x = {.title = "number"},
        // The answer stands next to the name, where a narrow screen shows it.
        .series = {
            {.name = "difference"}, {.name = "claim"}, {.name = "seeds"}, {.name = "first"}, {.name = "second"}}};
    for (const auto& each : all)
        for (const auto& number : each.numbers) {
            const double scale = scale_of(number.of);
            out.categories.push_back(cat(each.b, " against ", each.a, ": ", word(number.of.metric), ", ",
                                         in_words(number.of.pick), ", ", in_words(number.of.average)));
            const auto put = [&](std::size_t column, double value, std::string text) {
                out.series[column].y.push_back(value);
                out.series[column].texts.push_back(std::move(text));
            };
            put(0, scale * number.over_seeds.mean, in_words(number.over_seeds, scale));
            put(1, number.claims() ? 1 : 0,
                number.claims()             ? "differ"
                : number.over_seeds.known() ? "no difference shown"
                                            : "too few seeds");
            put(2, static_cast<double>(number.seeds_b),
                number.paired ? detail::plural(number.seeds_b, "pair")
                              : cat(digits(number.seeds_a), " and ", digits(number.seeds_b)));
            put(3, scale * number.mean_a, fixed(scale * number.mean_a, 2));
            put(4, scale * number.mean_b, fixed(scale * number.mean_b, 2));
        }
    return out;
}

inline Extra client_differences(const std::vector<Comparison>& all, double confidence) {
    using detail::cat, detail::digits;
    Extra out{.id = "client-differences",
              .title = "Differences per client",
              .caption = cat("Accuracy on own test data of the models at hand. Means with ", digits(100 * confidence),
                             " % intervals over clients:"),
              .kind = Kind::violin,
              .y = {.title = "difference", .unit = "points"},
              .series = {}};
    for (const auto& each : all) {
        if (each.by_client.empty()) continue;
        auto& series = out.series.emplace_back(Extra::Series{.name = cat(each.b, " - ", each.a)});
        for (std::size_t k = 0; k < each.clients.size(); ++k) {
            series.y.push_back(100 * each.by_client[k]);
            series.texts.push_back(cat("client ", digits(each.clients[k])));
        }
        out.caption += cat(" ", each.b, " against ", each.a, " ", in_words(each.over_clients, 100), ", better for ",
                           digits(each.better), " and worse for ", digits(each.worse), " of ",
                           digits(each.clients.size()), " clients.");
    }
    return out;
}

inline Extra overlaps(const std::vector<Comparison>& all) {
    Extra out{.id = "overlap",
              .title = "Who gets which examples right",
              .caption = "Share of a client's test examples, mean over clients and runs.",
              .kind = Kind::bars,
              .y = {.title = "share of examples", .unit = "%"},
              .categories = {"both", "first only", "second only", "neither"},
              .series = {}};
    for (const auto& each : all)
        if (each.overlap)
            out.series.push_back({.name = detail::cat(each.b, " against ", each.a),
                                  .y = {100 * each.overlap->both, 100 * each.overlap->only_a,
                                        100 * each.overlap->only_b, 100 * each.overlap->neither}});
    return out;
}

inline std::vector<Extra> comparison_figures(const std::vector<Comparison>& all, double confidence) {
    std::vector<Extra> out{comparison_table(all, confidence)};
    for (auto figure : {client_differences(all, confidence), overlaps(all)})
        if (!figure.series.empty()) out.push_back(std::move(figure));
    return out;
}

}  // namespace tessera::report
