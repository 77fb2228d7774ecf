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
#include <tessera/report/record.hpp>

#include "categories.hpp"
#include "extras.hpp"
#include "figures.hpp"
#include "svg.hpp"
#include "text.hpp"

namespace lab::page {

// Whether two curves would hide each other: nowhere apart by more than half a percent of the largest value.
inline bool alike(const Series& a, const Series& b) {
    constexpr double visible = 0.005;
    double largest = 0;
    for (const auto& point : a.points)
        if (std::isfinite(point.y)) largest = std::max(largest, std::abs(point.y));
    return std::ranges::equal(a.points, b.points, [&](const Point& p, const Point& q) {
        return p.x == q.x && std::abs(p.y - q.y) <= visible * largest;
    });
}

// Running totals, of seeds the mean; several methods show up and down together, to keep two curves each. Of curves that
// would lie on each other one is drawn, and the caption says so.
inline std::string bytes_figure(const Runs& runs) {
    using Bytes = double (*)(const RoundRecord&);
    struct Way {
        std::string_view name;
        Bytes measured, formula;
    };
    static constexpr Way up{"up", [](const RoundRecord& r) { return static_cast<double>(r.bytes_up); },
                            [](const RoundRecord& r) { return r.formula_bytes_up; }};
    static constexpr Way down{"down", [](const RoundRecord& r) { return static_cast<double>(r.bytes_down); },
                              [](const RoundRecord& r) { return r.formula_bytes_down; }};
    static constexpr Way both{"", [](const RoundRecord& r) { return up.measured(r) + down.measured(r); },
                              [](const RoundRecord& r) { return up.formula(r) + down.formula(r); }};
    struct Pair {
        std::string name;
        Series measured, formula;  // the second without points where no round tells
    };
    std::vector<Pair> all;
    double largest = 0;
    for (std::size_t g = 0; g < runs.groups.size(); ++g) {
        const auto total = [&](Bytes bytes, bool dashed) {
            std::vector<std::vector<Point>> lines;
            for (const auto* run : runs.groups[g].runs) {
                auto& line = lines.emplace_back();
                double sum = 0;
                for (const auto& r : run->rounds) line.push_back({static_cast<double>(r.round), sum += bytes(r)});
            }
            Series out{"", runs.many_groups() ? g : all.size(), dashed, mean_line(lines).points};
            if (!out.points.empty() && !std::isfinite(out.points[0].y)) out.points.clear();
            for (const auto& point : out.points)
                if (std::isfinite(point.y)) largest = std::max(largest, point.y);
            return out;
        };
        for (const Way& way : runs.many_groups() ? std::vector{both} : std::vector{up, down})
            all.push_back({runs.many_groups() ? runs.groups[g].name : std::string(way.name),
                           total(way.measured, false), total(way.formula, true)});
    }
    const bool same_formula =
        std::ranges::all_of(all, [](const Pair& each) { return alike(each.measured, each.formula); });
    if (!runs.many_groups() && all.size() == 2 && alike(all[0].measured, all[1].measured) &&
        alike(all[0].formula, all[1].formula)) {
        all.pop_back();
        all[0].name = "up, and as much down";
    }
    const Prefix prefix = prefix_of(largest);
    std::vector<Series> drawn;
    const auto draw = [&](Series series, std::string name) {
        if (series.points.empty()) return;
        for (auto& point : series.points) point.y /= prefix.divisor;
        series.name = std::move(name);
        drawn.push_back(std::move(series));
    };
    for (const auto& each : all) draw(each.measured, same_formula ? each.name : cat(each.name, ", measured"));
    for (const auto& each : all)
        if (!same_formula) draw(each.formula, cat(each.name, ", formula"));
    const std::string caption =
        cat(runs.many_groups() ? "Up and down together, all rounds so far." : "All rounds so far.",
            runs.over_seeds() ? " Means over seeds." : "",
            same_formula ? " Measured on the wire form; the formula of the method's paper gives the same, within 0.5 %."
                         : " Measured on the wire form; the formula is the one of the method's paper.");
    return figure("bytes", "Communication", caption, keys_of(drawn),
                  line_chart(caption, {.title = "round", .integers = true},
                             {.title = "sent so far", .unit = cat(prefix.name, "B"), .from_zero = true}, drawn),
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

}  // namespace lab::page
