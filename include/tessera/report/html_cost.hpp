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

#include <tessera/report/html_figures.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/svg.hpp>
#include <tessera/report/svg_categories.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::detail {

// Running totals; several runs show up and down together, to keep two curves each.
inline std::string bytes_figure(const Runs& runs) {
    std::vector<Series> all;
    double largest = 0;
    for (std::size_t i = 0; i < runs.all.size(); ++i) {
        double up = 0, down = 0, formula_up = 0, formula_down = 0;
        std::vector<Point> ups, downs, formula_ups, formula_downs, sums, formula_sums;
        for (const auto& r : runs.all[i].rounds) {
            const auto x = static_cast<double>(r.round);
            ups.push_back({x, up += static_cast<double>(r.bytes_up)});
            downs.push_back({x, down += static_cast<double>(r.bytes_down)});
            formula_ups.push_back({x, formula_up += r.formula_bytes_up});
            formula_downs.push_back({x, formula_down += r.formula_bytes_down});
            sums.push_back({x, up + down});
            formula_sums.push_back({x, formula_up + formula_down});
        }
        const auto add = [&](std::string_view what, std::size_t colour, bool dashed, std::vector<Point> points) {
            if (points.empty() || (dashed && !std::isfinite(points[0].y))) return;
            for (const auto& point : points)
                if (std::isfinite(point.y)) largest = std::max(largest, point.y);
            all.push_back({runs.called(i, what), colour, dashed, std::move(points)});
        };
        if (runs.many()) {
            add("measured", i, false, std::move(sums));
            add("formula", i, true, std::move(formula_sums));
        } else {
            add("up, measured", 0, false, std::move(ups));
            add("down, measured", 1, false, std::move(downs));
            add("up, formula", 0, true, std::move(formula_ups));
            add("down, formula", 1, true, std::move(formula_downs));
        }
    }
    const Prefix prefix = prefix_of(largest);
    for (auto& series : all)
        for (auto& point : series.points) point.y /= prefix.divisor;
    const std::string caption = cat(runs.many() ? "Up and down together, all rounds so far." : "All rounds so far.",
                                    " Measured on the wire form; the formula is the one of the method's paper.");
    return figure("bytes", "Communication", caption, keys_of(all),
                  line_chart(caption, {.title = "round", .integers = true},
                             {.title = "sent so far", .unit = cat(prefix.name, "B"), .from_zero = true}, all),
                  "No round was recorded in this run.");
}

inline std::string seconds_figure(const Runs& runs) {
    std::vector<Series> all;
    Range range;
    for (std::size_t i = 0; i < runs.all.size(); ++i) {
        Series series{runs.names[i], i, false};
        for (const auto& r : runs.all[i].rounds) {
            series.points.push_back({static_cast<double>(r.round), r.seconds});
            range.add(r.seconds);
        }
        if (!series.points.empty()) all.push_back(std::move(series));
    }
    const bool brief = !range.empty() && range.high < 1;
    if (brief)
        for (auto& series : all)
            for (auto& point : series.points) point.y *= 1000;
    const std::string caption = "Wall-clock time of each round, evaluation included where it was timed.";
    return figure("seconds", "Time per round", caption, runs.many() ? keys_of(all) : std::vector<Key>{},
                  line_chart(caption, {.title = "round", .integers = true},
                             {.title = "time per round", .unit = brief ? "ms" : "s", .from_zero = true}, all),
                  "No round was recorded in this run.");
}

// What a round does and when: rows are phases, or runs where there are several.
inline std::string phases_figure(const Runs& runs) {
    std::vector<std::string> names;
    Timeline all{.label = "When the run did what"};
    for (std::size_t i = 0; i < runs.all.size(); ++i) {
        bool any = false;
        for (const auto& round : runs.all[i].rounds)
            for (const auto& phase : round.phases) {
                auto known = std::ranges::find(names, phase.name);
                if (known == names.end()) known = names.insert(names.end(), phase.name);
                const auto series = static_cast<std::size_t>(known - names.begin());
                any = true;
                all.spans.push_back({.row = runs.many() ? all.rows.size() : series,
                                     .series = series,
                                     .name = phase.name,
                                     .first = round.round,
                                     .last = round.round,
                                     .begin = phase.begin,
                                     .seconds = phase.seconds});
            }
        if (any && runs.many()) all.rows.push_back(runs.names[i]);
    }
    if (!runs.many()) all.rows = names;
    std::vector<Key> legend;
    for (std::size_t p = 0; p < names.size(); ++p) legend.push_back({names[p], p, "block"});
    return figure("phases", "Phases",
                  "When a run was busy with what, since it began. Neighbours too close to tell "
                  "apart are drawn as one.",
                  legend, timeline(std::move(all)), "The phases of rounds were not recorded in this run.");
}

}  // namespace tessera::report::detail
