// SPDX-License-Identifier: BSD-3-Clause
// Figures of the HTML report about bytes and time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/report/analysis/cost.hpp>
#include <tessera/report/html_extras.hpp>
#include <tessera/report/html_figures.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/svg.hpp>
#include <tessera/report/svg_categories.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::detail {

// Running totals, of seeds the mean; several methods show up and down together, to keep two curves each.
inline std::string bytes_figure(const Runs& runs) {
    std::vector<Series> all;
    double largest = 0;
    const auto measured_up = [](const RoundRecord& r) { return static_cast<double>(r.bytes_up); };
    const auto measured_down = [](const RoundRecord& r) { return static_cast<double>(r.bytes_down); };
    const auto formula_up = [](const RoundRecord& r) { return r.formula_bytes_up; };
    const auto formula_down = [](const RoundRecord& r) { return r.formula_bytes_down; };
    for (std::size_t g = 0; g < runs.groups.size(); ++g) {
        const auto add = [&](std::string_view what, std::size_t colour, bool dashed, auto... parts) {
            std::vector<std::vector<Point>> lines;
            for (const auto* run : runs.groups[g].runs) {
                auto& line = lines.emplace_back();
                double sum = 0;
                for (const auto& r : run->rounds)
                    line.push_back({static_cast<double>(r.round), sum += (0.0 + ... + parts(r))});
            }
            std::vector<Point> points = mean_line(lines).points;
            if (points.empty() || (dashed && !std::isfinite(points[0].y))) return;
            for (const auto& point : points)
                if (std::isfinite(point.y)) largest = std::max(largest, point.y);
            all.push_back({runs.group_called(g, what), colour, dashed, std::move(points)});
        };
        if (runs.many_groups()) {
            add("measured", g, false, measured_up, measured_down);
            add("formula", g, true, formula_up, formula_down);
        } else {
            add("up, measured", 0, false, measured_up);
            add("down, measured", 1, false, measured_down);
            add("up, formula", 0, true, formula_up);
            add("down, formula", 1, true, formula_down);
        }
    }
    const Prefix prefix = prefix_of(largest);
    for (auto& series : all)
        for (auto& point : series.points) point.y /= prefix.divisor;
    const std::string caption =
        cat(runs.many_groups() ? "Up and down together, all rounds so far." : "All rounds so far.",
            runs.over_seeds() ? " Means over seeds." : "",
            " Measured on the wire form; the formula is the one of the method's paper.");
    return figure("bytes", "Communication", caption, keys_of(all),
                  line_chart(caption, {.title = "round", .integers = true},
                             {.title = "sent so far", .unit = cat(prefix.name, "B"), .from_zero = true}, all),
                  "No round was recorded in this run.");
}

inline double bytes_of(const RoundRecord& r) { return static_cast<double>(r.bytes_up + r.bytes_down); }

inline std::string accuracy_against_bytes(const Runs& runs) {
    double largest = 0;
    for (const auto& run : runs.all) largest = std::max(largest, Totals(run).up + Totals(run).down);
    const Prefix prefix = prefix_of(largest);
    return curves(runs, "accuracy-bytes", "Accuracy and communication", Metric::accuracy, {"accuracy", "%"}, 100,
                  {.axis = {.title = "sent so far", .unit = cat(prefix.name, "B")},
                   .spent = bytes_of,
                   .unit = prefix.divisor,
                   .in_words = " Against all bytes on the wire so far, up and down together."});
}
inline std::string accuracy_against_seconds(const Runs& runs) {
    return curves(runs, "accuracy-seconds", "Accuracy and time", Metric::accuracy, {"accuracy", "%"}, 100,
                  {.axis = {.title = "time of all rounds so far", .unit = "s"},
                   .spent = [](const RoundRecord& r) { return r.seconds; },
                   .in_words = " Against the time of all rounds so far."});
}

// Rounds to the highest three accuracies, in steps of five points, that some run reaches.
inline std::string rounds_to_reach_table(const Runs& runs) {
    constexpr double step = 5;
    double best = 0;
    for (const auto& run : runs.all) {
        const Which served = analysis::detail::served(run);
        for (const auto& round : run.rounds)
            if (const double accuracy = analysis::detail::accuracy_of(round, served); std::isfinite(accuracy))
                best = std::max(best, accuracy);
    }
    std::vector<double> targets;
    for (double target = step * std::floor(best / step); target > 0 && targets.size() < 3; target -= step)
        targets.insert(targets.begin(), target);
    if (targets.empty()) return "";
    const auto table = analysis::rounds_to_reach(runs.all, targets);
    return drawn(table, in_turn(table));
}

inline std::string seconds_figure(const Runs& runs) {
    std::vector<Series> all;
    Range range;
    for (std::size_t g = 0; g < runs.groups.size(); ++g) {
        std::vector<std::vector<Point>> lines;
        for (const auto* run : runs.groups[g].runs) {
            auto& line = lines.emplace_back();
            for (const auto& r : run->rounds) {
                line.push_back({static_cast<double>(r.round), r.seconds});
                range.add(r.seconds);
            }
        }
        Series series = mean_line(lines);
        series.name = runs.groups[g].name;
        series.colour = g;
        if (!series.points.empty()) all.push_back(std::move(series));
    }
    const bool brief = !range.empty() && range.high < 1;
    if (brief)
        for (auto& series : all)
            for (auto* points : {&series.points, &series.low, &series.high})
                for (auto& point : *points) point.y *= 1000;
    const std::string caption = cat("Wall-clock time of each round: its visits and the merge, not its evaluation.",
                                    runs.over_seeds() ? bands_in_words : "");
    return figure("seconds", "Time per round", caption, runs.many_groups() ? keys_of(all) : std::vector<Key>{},
                  line_chart(caption, {.title = "round", .integers = true},
                             {.title = "time per round", .unit = brief ? "ms" : "s", .from_zero = true}, all),
                  "No round was recorded in this run.");
}

// What a round does and when: rows are phases, or methods where there are several. Seeds would lie over each other, so
// the first stands for all.
inline std::string phases_figure(const Runs& runs) {
    std::vector<std::string> names;
    Timeline all{.label = "When the run did what"};
    for (const auto& group : runs.groups) {
        bool any = false;
        for (const auto& round : group.runs[0]->rounds)
            for (const auto& phase : round.phases) {
                auto known = std::ranges::find(names, phase.name);
                if (known == names.end()) known = names.insert(names.end(), phase.name);
                const auto series = static_cast<std::size_t>(known - names.begin());
                any = true;
                all.spans.push_back({.row = runs.many_groups() ? all.rows.size() : series,
                                     .series = series,
                                     .name = phase.name,
                                     .first = round.round,
                                     .last = round.round,
                                     .begin = phase.begin,
                                     .seconds = phase.seconds});
            }
        if (any && runs.many_groups()) all.rows.push_back(group.name);
    }
    if (!runs.many_groups()) all.rows = names;
    std::vector<Key> legend;
    for (std::size_t p = 0; p < names.size(); ++p) legend.push_back({names[p], p, "block"});
    return figure("phases", "Phases",
                  cat("When a run was busy with what, since it began. Neighbours too close to tell apart are drawn "
                      "as one.",
                      runs.over_seeds() ? " Of several seeds the first is drawn." : ""),
                  legend, timeline(std::move(all)), "The phases of rounds were not recorded in this run.");
}

}  // namespace tessera::report::detail
