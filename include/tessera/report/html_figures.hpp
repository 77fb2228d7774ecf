// SPDX-License-Identifier: BSD-3-Clause
// The figures of the HTML report: what to draw from which record, and what to say when there is nothing to draw.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/report/evaluation.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/svg.hpp>
#include <tessera/report/svg_categories.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::detail {

inline std::string percent(double share, int decimals = 1) {
    return std::isfinite(share) ? fixed(100 * share, decimals) + " %" : "n/a";
}
inline std::string in_unit(const Evaluation& e) {
    return e.metric == Metric::loss ? std::isfinite(e.value) ? rounded(e.value, 4) : "n/a" : percent(e.value, 2);
}
inline std::string seconds_text(double seconds) {
    if (!std::isfinite(seconds)) return "n/a";
    if (seconds == 0) return "0 s";
    if (seconds < 1) return fixed(1000 * seconds, seconds < 0.01 ? 2 : 0) + " ms";
    if (seconds < 120) return fixed(seconds, seconds < 10 ? 2 : 1) + " s";
    return seconds < 7200 ? fixed(seconds / 60, 1) + " min" : fixed(seconds / 3600, 1) + " h";
}
inline std::string sentence(std::string text) {
    if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text + ".";
}
inline std::string plural(std::size_t count, std::string_view noun) {
    return cat(digits(count), " ", noun, count == 1 ? "" : "s");
}

// When a run has several evaluations of a model, the page leads with the one most people mean.
inline int rank(const Evaluation& e) {
    const When usual = e.model == Which::global ? When::before : When::after;
    return (e.split == SplitOf::test         ? 0
            : e.split == SplitOf::validation ? 64
                                             : 128) +
           (e.on == On::local() ? 0 : 32) +
           (e.clients == Whom::all       ? 0
            : e.clients == Whom::sampled ? 8
                                         : 16) +
           (e.when == usual ? 0 : 4) + (e.pick == Pick::last() ? 0 : 2) + (e.average == Average::unweighted ? 0 : 1);
}
inline const Evaluation* leading(const std::vector<Evaluation>& all, Which model, Metric metric) {
    const Evaluation* best = nullptr;
    for (const auto& e : all)
        if (e.model == model && e.metric == metric && (!best || rank(e) < rank(*best))) best = &e;
    return best;
}
inline const Evaluation* final_result(const RunRecord& run, Which model, Metric metric) {
    if (const auto* found = leading(run.final_evaluations, model, metric)) return found;
    return run.rounds.empty() ? nullptr : leading(run.rounds.back().evaluations, model, metric);
}

inline bool has(const RunRecord& run, Which model) {
    const auto of_model = [&](const Evaluation& e) { return e.model == model; };
    return std::ranges::any_of(run.final_evaluations, of_model) ||
           std::ranges::any_of(
               run.rounds, [&](const RoundRecord& round) { return std::ranges::any_of(round.evaluations, of_model); });
}

struct Totals {
    double up = 0, down = 0, seconds = 0, flops = 0;
    std::size_t trained = 0, merged = 0, rejected = 0, diverged = 0;
    explicit Totals(const RunRecord& run) {
        for (const auto& r : run.rounds) {
            up += static_cast<double>(r.bytes_up), down += static_cast<double>(r.bytes_down);
            seconds += r.seconds, flops += r.flops;
            trained += r.trained, merged += r.merged, rejected += r.rejected, diverged += r.diverged;
        }
    }
};

// In order of gain; clients that miss either accuracy are left out.
struct Gain {
    const ClientRecord* client;
    double points;  // percentage points
};
inline std::vector<Gain> gains_of(const RunRecord& run) {
    std::vector<Gain> out;
    for (const auto& client : run.per_client)
        if (std::isfinite(client.gain())) out.push_back({&client, 100 * client.gain()});
    std::ranges::stable_sort(out, {}, &Gain::points);
    return out;
}
inline std::size_t count_above(const std::vector<Gain>& gains, double sign) {
    return static_cast<std::size_t>(std::ranges::count_if(gains, [&](const Gain& g) { return sign * g.points > 0; }));
}

// The runs of a report and what they are called.
struct Runs {
    const std::vector<RunRecord>& all;
    std::vector<std::string> names = names_of(all);
    bool many() const { return all.size() > 1; }
    // A series of run i: the run's own name only where there are several.
    std::string called(std::size_t i, std::string_view what) const {
        return many() ? cat(names[i], ", ", what) : std::string(what);
    }
};

// An entry of a legend.
struct Key {
    std::string name;
    std::size_t colour;
    std::string_view shape;
};
inline std::string figure(std::string_view id, std::string_view title, const std::string& caption,
                          const std::vector<Key>& legend, const std::string& chart, std::string_view if_empty,
                          bool wide = false) {
    std::string out;
    put(out, "<figure id=\"fig-", id, wide ? "\" class=\"wide\">" : "\">", "<figcaption><h3>", title, "</h3>");
    if (!chart.empty() && !caption.empty()) put(out, "<p>", escape_html(caption), "</p>");
    out += "</figcaption>";
    if (!chart.empty() && !legend.empty()) {
        out += "<ul class=\"legend\">";
        for (std::size_t i = 0; i < legend.size(); ++i)
            put(out, "<li class=\"", colour_class(legend[i].colour), "\" data-series=\"", digits(i), "\"><i class=\"",
                legend[i].shape, "\"></i>", escape_html(legend[i].name), "</li>");
        out += "</ul>";
    }
    if (chart.empty()) put(out, "<p class=\"empty\">", if_empty, "</p>");
    put(out, chart, "</figure>\n");
    return out;
}
inline std::vector<Key> keys_of(const std::vector<Series>& all) {
    std::vector<Key> out;
    for (const auto& series : all) out.push_back({series.name, series.colour, series.dashed ? "dash" : ""});
    return out;
}
// The tags of the curves: in one sentence where they share them, else curve by curve.
inline std::string tags_in_words(const std::vector<Series>& curves, const std::vector<const Evaluation*>& tags) {
    const auto ground = [](const Evaluation* e) {
        const std::string pick = e->pick == Pick::last() ? "" : e->pick.word() + ", ";
        return cat(ground_in_words(*e), ", ", pick, in_words(e->average));
    };
    const auto state = [](const Evaluation* e) { return cat(word(e->model), " model ", word(e->when)); };
    std::vector<std::string> grounds, states;
    const auto note = [](std::vector<std::string>& known, std::string text) {
        if (std::ranges::find(known, text) == known.end()) known.push_back(std::move(text));
    };
    for (const auto* e : tags) note(grounds, ground(e)), note(states, state(e));
    std::string out;
    if (grounds.size() == 1 && states.size() <= 2) {
        for (const auto& each : states) out += (out.empty() ? "" : ", ") + each;
        return sentence(cat(out, " local training; ", grounds[0]));
    }
    for (std::size_t i = 0; i < tags.size(); ++i)
        out += cat(out.empty() ? "" : "; ", curves[i].name, ": ", word(tags[i]->when), " local training, ",
                   ground(tags[i]));
    return sentence(out);
}

inline std::string curves(const Runs& runs, std::string_view id, std::string_view title, Metric metric, const Axis& y,
                          double scale) {
    std::vector<Series> all;
    std::vector<const Evaluation*> tags;
    std::string missing;
    for (std::size_t i = 0; i < runs.all.size(); ++i)
        for (const Which model : {Which::personal, Which::global}) {
            const Evaluation* best = nullptr;
            for (const auto& round : runs.all[i].rounds)
                if (const auto* e = leading(round.evaluations, model, metric); e && (!best || rank(*e) < rank(*best)))
                    best = e;
            if (!best) {
                if (!runs.many())
                    missing = has(runs.all[i], model) ? cat(" No ", word(metric), " of the ", word(model), " model.")
                                                      : cat(" No ", word(model), " model in this run.");
                continue;
            }
            const std::size_t colour = runs.many() ? i : model == Which::personal ? 0 : 1;
            Series series{runs.called(i, word(model)), colour, model == Which::global};
            for (const auto& round : runs.all[i].rounds)
                for (const auto& e : round.evaluations)
                    if (comparable(e, *best))
                        series.points.push_back({static_cast<double>(round.round), scale * e.value});
            all.push_back(std::move(series));
            tags.push_back(best);
        }
    const std::string caption = tags.empty() ? "" : tags_in_words(all, tags) + missing;
    return figure(id, title, caption, keys_of(all),
                  line_chart(cat(title, ": ", caption), {.title = "round", .integers = true}, y, all),
                  metric == Metric::accuracy ? "No accuracy was recorded." : "No loss was recorded.");
}

inline constexpr std::string_view no_gain = "No personal model beside a global one in this run, so there is no gain.";

inline std::string gain_text(const Runs& runs, std::size_t run, const ClientRecord& client) {
    return cat(runs.many() ? runs.names[run] + ", " : "", "client ", digits(client.id), ": ",
               client.gain() > 0 ? "+" : "", fixed(100 * client.gain(), 2), " points (",
               percent(client.accuracy_global), " to ", percent(client.accuracy_personal), "), ",
               digits(client.n_train), " training examples");
}

inline std::string gain_against_size(const Runs& runs) {
    std::vector<std::vector<Mark>> groups;
    std::vector<Key> legend;
    Range sizes;
    bool thinned_out = false;
    const auto add = [&](std::string name, std::size_t colour, std::vector<Mark> marks) {
        thinned_out = thinned_out || marks.size() > most_points;
        legend.push_back({std::move(name), colour, "block"});
        groups.push_back(std::move(marks));
    };
    for (std::size_t i = 0; i < runs.all.size(); ++i) {
        std::vector<Mark> up, down;
        for (const auto& [client, points] : gains_of(runs.all[i])) {
            const bool better = points > 0;
            const auto n = static_cast<double>(client->n_train);
            const std::size_t colour = runs.many() ? i : better ? 0 : 1;
            sizes.add(n);
            (better || runs.many() ? up : down).push_back({n, points, colour, gain_text(runs, i, *client)});
        }
        if (up.empty() && down.empty()) continue;
        add(runs.many() ? runs.names[i] : "gains", i, std::move(up));
        if (!runs.many()) add("does not gain", 1, std::move(down));
    }
    std::string caption = "Personal minus global accuracy on own test data, against training examples.";
    if (thinned_out) caption += " A sample of the clients is drawn.";
    Axis x{.title = "training examples of the client"};
    x.logarithmic = !sizes.empty() && sizes.low > 0 && sizes.high / sizes.low > 10;
    return figure("gain-size", "Gain and client size", caption, legend,
                  dot_chart(caption, x, {.title = "gain", .unit = "points"}, groups), no_gain);
}

inline std::string gain_sorted(const Runs& runs) {
    constexpr std::size_t most_bars = 400;
    const Axis y{.title = "gain", .unit = "points", .from_zero = true};
    std::vector<Series> curves;
    std::vector<Mark> bars;
    std::string caption = "Clients from the largest loss to the largest gain.";
    for (std::size_t i = 0; i < runs.all.size(); ++i) {
        const auto gains = gains_of(runs.all[i]);
        if (gains.empty()) continue;
        Series series{runs.names[i], i, false};
        const double last = std::max(1.0, static_cast<double>(gains.size()) - 1);
        for (std::size_t k = 0; k < gains.size(); ++k) {
            const auto place = static_cast<double>(k);
            series.points.push_back({100 * place / last, gains[k].points});
            const std::size_t colour = gains[k].points > 0 ? 0 : 1;
            bars.push_back({place, gains[k].points, colour, gain_text(runs, i, *gains[k].client)});
        }
        curves.push_back(std::move(series));
        if (!runs.many())
            caption += cat(" ", digits(count_above(gains, 1)), " of ", digits(gains.size()), " gain, ",
                           digits(count_above(gains, -1)), " lose.");
    }
    if (runs.many() || bars.size() > most_bars)
        return figure("gain-sorted", "Gains in order", caption, runs.many() ? keys_of(curves) : std::vector<Key>{},
                      line_chart(caption, {.title = "share of clients", .unit = "%"}, y, curves), no_gain);
    return figure("gain-sorted", "Gains in order", caption, {},
                  bar_chart(caption, {.title = "clients in order of gain", .integers = true}, y, bars, 1), no_gain);
}

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

inline bool same_data(const RunRecord& a, const RunRecord& b) {
    return std::ranges::equal(a.per_client, b.per_client, [](const ClientRecord& x, const ClientRecord& y) {
        return x.id == y.id && x.n_train == y.n_train && x.labels == y.labels;
    });
}

// From what to what the colours of a heat map go.
inline std::string ramp(const HeatMap& map) {
    const auto [low, high] = map.range();
    const std::string unit = map.unit.empty() ? "" : cat(" ", escape_html(map.unit));
    const std::string minus = low < 0 ? cat(rounded(low, 3), "<i class=\"minus\"></i>") : "";
    const std::string plus = high > 0 ? cat("<i></i>", rounded(high, 3)) : "";
    return cat("<div class=\"ramp\">", minus, "0", plus, unit, ", root scale</div>");
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
    for (std::size_t c = 0; c < classes; ++c) map.rows.push_back(digits(c));
    const std::string total = cat(plural(clients.size(), "client"), ", ", plural(examples, "training example"), ".");
    std::string out;
    if (const std::string chart = heat_map(map); !chart.empty()) {
        out = figure("classes" + suffix, "Classes per client" + whose, "A column is a client, a row a class.", {},
                     ramp(map) + chart, "");
    }
    const std::size_t stride = stride_of(clients.size(), 400);
    std::vector<Mark> bars;
    for (std::size_t k = 0; k < clients.size(); k += stride)
        bars.push_back({static_cast<double>(k), static_cast<double>(clients[k].n_train), 0,
                        cat("client ", digits(clients[k].id), ": ", plural(clients[k].n_train, "training example"))});
    const std::string caption = stride > 1 ? cat(total, " One bar for every ", digits(stride), " clients.") : total;
    out += figure("data" + suffix, "Data per client" + whose, caption, {},
                  bar_chart(caption, {.title = "client", .integers = true},
                            {.title = "training examples", .from_zero = true}, bars, static_cast<double>(stride)),
                  "No per-client record in this run.");
    return out;
}

}  // namespace tessera::report::detail
