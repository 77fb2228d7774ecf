// SPDX-License-Identifier: BSD-3-Clause
// Figures of the HTML report about single clients: what personalization changes, and how accuracies spread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/report/evaluation.hpp>
#include <tessera/report/record.hpp>

#include "categories.hpp"
#include "figures.hpp"
#include "svg.hpp"
#include "text.hpp"

namespace lab::page {

inline constexpr std::string_view no_gain = "No personal model beside a global one in this run, so there is no gain.";

inline std::string gain_text(const Runs& runs, std::size_t run, const ClientRecord& client) {
    return cat(runs.many() ? runs.names[run] + ", " : "", called(client), ": ",
               client.gain() > 0 ? "+" : "", fixed(100 * client.gain(), 2), " points (",
               percent(client.accuracy_global), " to ", percent(client.accuracy_personal), "), ",
               digits(client.n_train), " training examples");
}

inline std::string_view together(const Runs& runs) {
    return runs.over_seeds() ? " Clients of all seeds together." : "";
}

// Of clients that all have as many examples, against what the global model reaches: a size that nobody has alone
// explains nothing.
inline std::string gain_against_size(const Runs& runs) {
    std::vector<std::vector<Mark>> groups;
    std::vector<Key> legend;
    std::vector<std::string> names;
    Range sizes;
    for (const auto& run : runs.all)
        for (const auto& gain : gains_of(run)) sizes.add(static_cast<double>(gain.client->n_train));
    const bool equal = !sizes.empty() && sizes.low == sizes.high;
    bool thinned_out = false;
    const auto add = [&](std::string name, std::size_t colour, std::vector<Mark> marks) {
        thinned_out = thinned_out || marks.size() > most_points;
        names.push_back(name);
        legend.push_back({std::move(name), colour, "block"});
        groups.push_back(std::move(marks));
    };
    for (std::size_t g = 0; g < runs.groups.size(); ++g) {
        std::vector<Mark> up, down;
        for (const auto* run : runs.groups[g].runs)
            for (const auto& [client, points, of] : gains_of(*run)) {
                const bool apart = !runs.many_groups() && !(points > 0);
                const double x = equal ? 100 * client->accuracy_global : static_cast<double>(client->n_train);
                (apart ? down : up)
                    .push_back({x, points, apart ? 1 : g, gain_text(runs, runs.place_of(of), *client)});
            }
        if (up.empty() && down.empty()) continue;
        add(runs.many_groups() ? runs.groups[g].name : "gains", g, std::move(up));
        if (!runs.many_groups()) add("does not gain", 1, std::move(down));
    }
    std::string caption = cat("Personal minus global accuracy on own test data, against ",
                              equal ? cat("the global one: all clients have ", digits(sizes.low), " training examples.")
                                    : "training examples.",
                              together(runs));
    if (thinned_out) caption += " A sample of the clients is drawn.";
    Axis x{.title = "training examples of the client"};
    if (equal) x = {.title = "global accuracy of the client", .unit = "%"};
    x.logarithmic = !equal && !sizes.empty() && sizes.low > 0 && sizes.high / sizes.low > 10;
    return figure("gain-size", equal ? "Gain and global accuracy" : "Gain and client size", caption, legend,
                  dot_chart(caption, x, {.title = "gain", .unit = "points"}, groups, names), no_gain);
}

inline std::string gain_sorted(const Runs& runs) {
    constexpr std::size_t most_bars = 400;
    const Axis y{.title = "gain", .unit = "points", .from_zero = true};
    std::vector<Series> curves;
    std::vector<Mark> bars;
    std::string caption = cat("Clients from the largest loss to the largest gain.", together(runs));
    for (std::size_t g = 0; g < runs.groups.size(); ++g) {
        std::vector<Gain> gains;
        for (const auto* run : runs.groups[g].runs) std::ranges::copy(gains_of(*run), std::back_inserter(gains));
        std::ranges::stable_sort(gains, {}, &Gain::points);
        if (gains.empty()) continue;
        Series series{runs.groups[g].name, g, false};
        const double last = std::max(1.0, static_cast<double>(gains.size()) - 1);
        for (std::size_t k = 0; k < gains.size(); ++k) {
            const auto place = static_cast<double>(k);
            series.points.push_back({100 * place / last, gains[k].points});
            const std::size_t colour = gains[k].points > 0 ? 0 : 1;
            const std::size_t run = runs.place_of(gains[k].run);
            bars.push_back({place, gains[k].points, colour, gain_text(runs, run, *gains[k].client)});
        }
        curves.push_back(std::move(series));
        if (!runs.many_groups())
            caption += cat(" ", digits(count_above(gains, 1)), " of ", digits(gains.size()), " gain, ",
                           digits(count_above(gains, -1)), " lose.");
    }
    if (runs.many_groups() || bars.size() > most_bars)
        return figure("gain-sorted", "Gains in order", caption,
                      runs.many_groups() ? keys_of(curves) : std::vector<Key>{},
                      line_chart(caption, {.title = "share of clients", .unit = "%"}, y, curves), no_gain);
    return figure("gain-sorted", "Gains in order", caption, {},
                  bar_chart(caption, {.title = "clients in order of gain", .integers = true}, y, bars, 1), no_gain);
}

// Accuracies of clients on their own test data, a group for each model; seeds count together.
struct Accuracies {
    std::vector<std::vector<double>> groups{};  // in %
    std::vector<std::string> names{};
    std::vector<std::size_t> colours{};

    explicit Accuracies(const Runs& runs) {
        const bool one = runs.groups.size() == 1;
        for (std::size_t g = 0; g < runs.groups.size(); ++g) {
            bool shown = false;
            for (const Which model : {Which::personal, Which::global}) {
                std::vector<double> values;
                for (const auto* run : runs.groups[g].runs)
                    for (const auto& client : run->per_client) {
                        const double a = model == Which::personal ? client.accuracy_personal : client.accuracy_global;
                        if (std::isfinite(a)) values.push_back(100 * a);
                    }
                // Beside others a run shows what its clients are served: the personal model where there is one.
                if (values.empty() || (!one && shown)) continue;
                shown = true;
                groups.push_back(std::move(values));
                names.push_back(one                        ? std::string(word(model))
                                : model == Which::personal ? runs.groups[g].name
                                                           : cat(runs.groups[g].name, ", global"));
                colours.push_back(!one ? g : model == Which::personal ? 0 : 1);
            }
        }
    }
    std::vector<Key> legend() const {
        std::vector<Key> out;
        for (std::size_t g = 0; g < names.size(); ++g) out.push_back({names[g], colours[g], "block"});
        return out;
    }
};

inline constexpr std::string_view no_accuracy = "No accuracy of single clients was recorded.";

inline std::string accuracy_histogram(const Runs& runs) {
    const Accuracies all(runs);
    const std::string caption = cat("How many clients have which accuracy on their own test data.", together(runs));
    return figure("accuracy-histogram", "Accuracy of clients", caption, all.legend(),
                  histogram({.label = caption,
                             .counted = "clients",
                             .x = {.title = "accuracy", .unit = "%"},
                             .groups = all.groups,
                             .names = all.names,
                             .colours = all.colours}),
                  no_accuracy);
}

inline std::string accuracy_violins(const Runs& runs) {
    const Accuracies all(runs);
    std::vector<Violin> violins;
    for (std::size_t g = 0; g < all.groups.size(); ++g) {
        std::vector<Weighted> once;
        for (const double value : all.groups[g]) once.push_back({value, 1});
        violins.push_back({all.names[g],
                           cat(all.names[g], ": median ", fixed(quantile(once, 0.5), 1), " %, middle half ",
                               fixed(quantile(once, 0.25), 1), " to ", fixed(quantile(once, 0.75), 1), " %"),
                           all.colours[g], all.groups[g]});
    }
    const std::string caption =
        cat("Clients' accuracy on own test data: outline by frequency, bar over the middle half, ",
            "dot at the median.", together(runs));
    return figure("accuracy-violins", "Spread of accuracy", caption, all.legend(),
                  violin_chart(caption, {}, {.title = "accuracy", .unit = "%"}, violins), no_accuracy);
}

}  // namespace lab::page
