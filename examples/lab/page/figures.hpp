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
#include <tessera/report/seeds.hpp>

#include "categories.hpp"
#include "svg.hpp"
#include "text.hpp"

namespace lab::page {

inline std::string percent(double share, int decimals = 1) {
    return std::isfinite(share) ? fixed(100 * share, decimals) + " %" : "n/a";
}
inline std::string in_unit(const Evaluation& e) {
    return is_share(e.metric) ? percent(e.value, 2) : std::isfinite(e.value) ? rounded(e.value, 4) : "n/a";
}
// Shares of several seeds: "87.05 ± 1.26 %"; one has no deviation.
inline std::string percent(const std::vector<double>& shares, int decimals) {
    const double mean = spread(shares).mean;
    if (shares.size() < 2 || !std::isfinite(mean)) return percent(mean, decimals);
    return cat(fixed(100 * mean, decimals), " \xC2\xB1 ", fixed(100 * sample_deviation(shares), decimals), " %");
}
inline std::string in_unit(const OverSeeds& all) {
    if (all.values.size() < 2 || !std::isfinite(all.mean.value)) return in_unit(all.mean);
    if (is_share(all.mean.metric)) return percent(all.values, 2);
    return cat(rounded(all.mean.value, 4), " \xC2\xB1 ", rounded(all.deviation(), 2));
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
inline const Evaluation* leading(const std::vector<Evaluation>& all, Which model, Metric metric,
                                 const std::string* stage = nullptr) {  // none: of any
    const Evaluation* best = nullptr;
    for (const auto& e : all)
        if (e.model == model && e.metric == metric && (!stage || e.stage == *stage) && (!best || rank(e) < rank(*best)))
            best = &e;
    return best;
}
// Of what the run ended with: earlier stages and other ways of serving have their lines in the table of all.
inline const Evaluation* final_result(const RunRecord& run, Which model, Metric metric) {
    const std::string stage = main_stage(run);
    if (const auto* found = leading(run.final_evaluations, model, metric, &stage)) return found;
    return run.rounds.empty() ? nullptr : leading(run.rounds.back().evaluations, model, metric, &stage);
}

// What a run is judged by: R2 where targets are real.
inline Metric quality_of(const RunRecord& run) {
    const auto real = [](const Evaluation& e) { return e.metric == Metric::r2; };
    const bool any = std::ranges::any_of(run.final_evaluations, real) ||
                     (!run.rounds.empty() && std::ranges::any_of(run.rounds.back().evaluations, real));
    return any ? Metric::r2 : Metric::accuracy;
}
inline std::string_view in_words(Metric quality) { return quality == Metric::r2 ? "R2" : word(quality); }

inline bool has(const RunRecord& run, Metric metric) {
    const auto of = [&](const Evaluation& e) { return e.metric == metric; };
    return std::ranges::any_of(run.rounds,
                               [&](const RoundRecord& r) { return std::ranges::any_of(r.evaluations, of); });
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
    const RunRecord* run;
};
inline std::vector<Gain> gains_of(const RunRecord& run) {
    std::vector<Gain> out;
    for (const auto& client : run.per_client)
        if (std::isfinite(client.gain())) out.push_back({&client, 100 * client.gain(), &run});
    std::ranges::stable_sort(out, {}, &Gain::points);
    return out;
}
inline std::size_t count_above(const std::vector<Gain>& gains, double sign) {
    return static_cast<std::size_t>(std::ranges::count_if(gains, [&](const Gain& g) { return sign * g.points > 0; }));
}

// Runs that differ in their seed alone, in the order in which they came.
struct SeedGroup {
    std::string name;
    std::vector<const RunRecord*> runs;
};
inline std::vector<SeedGroup> seed_groups(const std::vector<RunRecord>& all) {
    std::vector<SeedGroup> out;
    std::vector<RunRecord> settings;  // those that decide which group
    for (const auto& run : all) {
        RunRecord own;
        for (const auto& [name, value] : run.config)
            if (name != "seed" && name != "threads") own.config.emplace_back(name, value);
        const auto known = std::ranges::find(settings, own.config, &RunRecord::config);
        const auto place = static_cast<std::size_t>(known - settings.begin());
        if (known == settings.end()) {
            settings.push_back(std::move(own));
            out.emplace_back();
        }
        out[place].runs.push_back(&run);
    }
    const auto names = names_of(settings);
    for (std::size_t g = 0; g < out.size(); ++g) out[g].name = names[g];
    return out;
}

// The runs of a report and what they are called.
struct Runs {
    const std::vector<RunRecord>& all;
    std::vector<std::string> names = names_of(all);
    std::vector<SeedGroup> groups = seed_groups(all);
    bool many() const { return all.size() > 1; }
    bool over_seeds() const { return groups.size() < all.size(); }
    bool many_groups() const { return groups.size() > 1; }
    std::size_t place_of(const RunRecord* run) const { return static_cast<std::size_t>(run - all.data()); }
    // Runs of one group have its colour; where there is but one group, each has its own.
    std::size_t colour_of(std::size_t i) const {
        if (!many_groups()) return i;
        const auto holds = [&](const SeedGroup& group) { return std::ranges::count(group.runs, &all[i]) > 0; };
        return static_cast<std::size_t>(std::ranges::find_if(groups, holds) - groups.begin());
    }
    // A series of group g: the group's own name only where there are several.
    std::string group_called(std::size_t g, std::string_view what) const {
        return many_groups() ? cat(groups[g].name, ", ", what) : std::string(what);
    }
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
        const std::string pick = e->pick == Pick::last() ? "" : in_words(e->pick) + ", ";
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

// Lines of the runs of a group, where all have a point: their mean, and as a band the least and the most of them.
inline Series mean_line(const std::vector<std::vector<Point>>& lines) {
    Series out;
    for (const auto& first : lines.at(0)) {
        std::vector<double> values;
        for (const auto& line : lines) {
            const auto found = std::ranges::lower_bound(line, first.x, {}, &Point::x);
            if (found != line.end() && found->x == first.x) values.push_back(found->y);
        }
        if (values.size() < lines.size()) continue;
        out.points.push_back({first.x, spread(values).mean});
        if (lines.size() == 1) continue;
        const auto [least, most] = std::ranges::minmax(values);
        const bool known = std::isfinite(out.points.back().y);
        out.low.push_back({first.x, known ? least : absent});
        out.high.push_back({first.x, known ? most : absent});
    }
    return out;
}

// The evaluation of a model that a group has over its rounds.
inline Series curve(const std::vector<const RunRecord*>& runs, const Evaluation& tag, double scale) {
    const auto find = [&](const RoundRecord& round) {
        const auto same = [&](const Evaluation& e) { return comparable(e, tag); };
        const auto found = std::ranges::find_if(round.evaluations, same);
        return found == round.evaluations.end() ? nullptr : &*found;
    };
    std::vector<std::vector<Point>> lines;
    for (const auto* run : runs) {
        auto& line = lines.emplace_back();
        for (const auto& round : run->rounds)
            if (const auto* e = find(round)) line.push_back({static_cast<double>(round.round), scale * e->value});
    }
    return mean_line(lines);
}

// What a curve runs along: rounds, or what had been spent by then.
struct Along {
    Axis axis{.title = "round", .integers = true};
    double (*spent)(const RoundRecord&) = nullptr;  // in a round; none: the rounds themselves
    double unit = 1;
    std::string_view in_words{};
};
// From rounds to what the runs of a group had spent by then, of seeds the mean.
inline void move_along(Series& series, const std::vector<const RunRecord*>& runs, const Along& along) {
    std::vector<std::vector<Point>> lines;
    for (const auto* run : runs) {
        auto& line = lines.emplace_back();
        double sum = 0;
        for (const auto& r : run->rounds) line.push_back({static_cast<double>(r.round), sum += along.spent(r)});
    }
    const auto places = mean_line(lines).points;
    for (auto* points : {&series.points, &series.low, &series.high})
        for (auto& point : *points) {
            const double spent = std::ranges::lower_bound(places, point.x, {}, &Point::x)->y / along.unit;
            point = std::isfinite(spent) ? Point{spent, point.y} : Point{0, absent};
        }
}

// Which rounds belong to which stage, where there are several.
inline std::string stages_in_words(const RunRecord& run) {
    struct Stage {
        std::string name;
        std::size_t last;
    };
    std::vector<Stage> stages;
    for (const auto& round : run.rounds) {
        if (round.evaluations.empty()) continue;
        const std::string name = round.evaluations[0].stage;
        if (stages.empty() || stages.back().name != name) stages.push_back({name, round.round});
        stages.back().last = round.round;
    }
    if (stages.size() < 2) return "";
    std::string out;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        const std::size_t first = i == 0 ? run.rounds[0].round : stages[i - 1].last + 1;
        out += cat(i == 0 ? " Stages: " : ", ", stages[i].name, " in rounds ", digits(first), " to ",
                   digits(stages[i].last));
    }
    return out + ".";
}

inline constexpr std::string_view bands_in_words =
    " Lines are means over seeds, bands reach from the least to the most of them.";

inline std::string curves(const Runs& runs, std::string_view id, std::string_view title, Metric metric, const Axis& y,
                          double scale, const Along& along = {}) {
    std::vector<Series> all;
    std::vector<const Evaluation*> tags;
    std::string more;
    const bool one = runs.groups.size() == 1;
    for (std::size_t g = 0; g < runs.groups.size(); ++g)
        for (const Which model : {Which::personal, Which::global}) {
            const auto& group = runs.groups[g];
            const Evaluation* best = nullptr;
            for (const auto& round : group.runs[0]->rounds)
                if (const auto* e = leading(round.evaluations, model, metric); e && (!best || rank(*e) < rank(*best)))
                    best = e;
            if (!best) {
                if (one && metric != Metric::gradient_norm)  // which no personal model has
                    more = has(*group.runs[0], model) ? cat(" No ", word(metric), " of the ", word(model), " model.")
                                                      : cat(" No ", word(model), " model in this run.");
                continue;
            }
            Series series = curve(group.runs, *best, scale);
            if (along.spent) move_along(series, group.runs, along);
            series.name = one ? std::string(word(model)) : cat(group.name, ", ", word(model));
            series.colour = !one ? g : model == Which::personal ? 0 : 1;
            series.dashed = model == Which::global;
            all.push_back(std::move(series));
            tags.push_back(best);
        }
    if (one && !along.spent) more += stages_in_words(*runs.groups[0].runs[0]);
    if (runs.over_seeds()) more += bands_in_words;
    const std::string caption = tags.empty() ? "" : cat(tags_in_words(all, tags), more, along.in_words);
    return figure(id, title, caption, keys_of(all), line_chart(cat(title, ": ", caption), along.axis, y, all),
                  metric == Metric::loss ? "No loss was recorded." : cat("No ", word(metric), " was recorded."));
}

// What clients descended; a method's own objective, so that methods are not to be held against each other by it.
inline std::string training_loss(const Runs& runs) {
    std::vector<Series> all;
    for (std::size_t g = 0; g < runs.groups.size(); ++g) {
        std::vector<std::vector<Point>> lines;
        for (const auto* run : runs.groups[g].runs) {
            auto& line = lines.emplace_back();
            for (const auto& round : run->rounds)
                if (std::isfinite(round.train_loss))
                    line.push_back({static_cast<double>(round.round), round.train_loss});
        }
        if (std::ranges::any_of(lines, [](const auto& line) { return line.empty(); })) continue;
        Series series = mean_line(lines);
        series.name = runs.groups.size() == 1 ? "training" : runs.groups[g].name;
        series.colour = g;
        all.push_back(std::move(series));
    }
    if (all.empty()) return "";  // of records that do not say it
    const std::string caption =
        cat("What clients descend, mean over the steps of a round: the loss on training batches with "
            "whatever the method adds to it.",
            runs.over_seeds() ? bands_in_words : "");
    return figure("train-loss", "Training loss over rounds", caption, keys_of(all),
                  line_chart(caption, {.title = "round", .integers = true}, {.title = "training loss"}, all), "");
}

// A whole number with its thousands apart: 1,340.
inline std::string with_thousands(double value) {
    std::string out = fixed(value, 0);
    const std::size_t first = out.starts_with('-') ? 1 : 0;
    for (std::size_t at = out.size(); at > first + 3;) out.insert(at -= 3, ",");
    return out;
}

// From what to what the colours of a heat map go.
inline std::string ramp(const HeatMap& map) {
    const auto [low, high] = map.range();
    const auto number = [](double value) {
        return std::abs(value) >= 1000 && std::abs(value) < 1e9 ? with_thousands(value) : rounded(value, 3);
    };
    const std::string after = cat(map.unit.empty() ? "" : " ", escape_html(map.unit), ", root scale");
    const std::string minus = low < 0 ? cat(number(low), "<i class=\"minus\"></i>") : "";
    const std::string plus = high > 0 ? cat("<i></i>", number(high)) : "";
    const std::string words = cat(number(std::min(low, 0.0)), " to ", number(std::max(high, 0.0)), after);
    return cat("<div class=\"ramp\" data-text=\"", words, "\">", minus, "0", plus, after, "</div>");
}

}  // namespace lab::page
