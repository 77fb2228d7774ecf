// SPDX-License-Identifier: BSD-3-Clause
#include "page.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/report/analysis/runs.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/seeds.hpp>

#include "assets.hpp"
#include "clients.hpp"
#include "cost.hpp"
#include "data.hpp"
#include "extras.hpp"
#include "figures.hpp"
#include "text.hpp"

namespace lab::page {
namespace {

// Curves of what is only there where --metrics asks for it.
struct Asked {
    std::string_view id, title;
    Metric metric;
    Axis axis;
    double scale;
};

class Page {
public:
    Page(const std::vector<RunRecord>& runs, std::string_view title, const std::vector<Extra>& across)
        : runs_{runs}, title_(title), across_(across) {}

    std::string write() {
        put(out_,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
            "content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
            "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: "
            "blob:\">\n<title>",
            escape_html(title_), "</title>\n<style>", style, "</style>\n</head>\n<body>\n<main>\n<header><h1>",
            escape_html(title_), "</h1>");
        subtitle();
        stopped();
        out_ += "</header>\n";
        std::vector<std::string> taken;  // ids of extras
        out_ += leading_tables(across_, taken);
        if (runs_.many()) overview();
        else if (!runs_.all.empty()) cards(runs_.all[0]);
        out_ += "<h2>Learning</h2>\n<div class=\"grid\">\n";
        const auto real = [](const RunRecord& run) { return quality_of(run) == Metric::r2; };
        if (runs_.all.empty() || !std::ranges::all_of(runs_.all, real))
            out_ += curves(runs_, "accuracy", "Accuracy over rounds", Metric::accuracy, {"accuracy", "%"}, 100);
        if (std::ranges::any_of(runs_.all, real))
            out_ += curves(runs_, "r2", "R2 over rounds", Metric::r2, {"R2"}, 1);
        out_ += curves(runs_, "loss", "Loss over rounds", Metric::loss, {"loss"}, 1);
        if (std::ranges::any_of(runs_.all, [](const RunRecord& run) { return has(run, Metric::perplexity); })) {
            out_ += curves(runs_, "perplexity", "Perplexity over rounds", Metric::perplexity, {"perplexity"}, 1);
            out_ += curves(runs_, "in-vocabulary", "Accuracy in the vocabulary over rounds", Metric::in_vocabulary,
                           {"accuracy", "%"}, 100);
        }
        for (const auto& [id, title, metric, axis, scale] :
             {Asked{"auc", "Area under the ROC curve over rounds", Metric::auc, {"AUC", "%"}, 100},
              Asked{"ece", "Calibration error over rounds", Metric::ece, {"ECE", "%"}, 100},
              Asked{"word-error-rate", "Word error rate over rounds", Metric::word_error_rate, {"errors", "%"}, 100},
              Asked{"gradient", "Length of the gradient over rounds", Metric::gradient_norm, {"length"}, 1}})
            if (std::ranges::any_of(runs_.all, [&, what = metric](const RunRecord& run) { return has(run, what); }))
                out_ += curves(runs_, id, title, metric, axis, scale);
        out_ += training_loss(runs_);
        const bool gains = std::ranges::any_of(runs_.all, [](const RunRecord& run) { return !gains_of(run).empty(); });
        put(out_, "</div>\n<h2>What personalization does to each client</h2>\n");
        if (!gains) put(out_, "<p class=\"soft\" id=\"no-gain\">", no_gain, "</p>\n");
        put(out_, "<div class=\"grid\">\n", gains ? gain_against_size(runs_) + gain_sorted(runs_) : "",
            accuracy_histogram(runs_), accuracy_violins(runs_), "</div>\n");
        spread_table();
        out_ += extra_figures(runs_, across_, taken);
        put(out_, "<h2>Cost</h2>\n<div class=\"grid\">\n", accuracy_against_bytes(runs_),
            accuracy_against_seconds(runs_), bytes_figure(runs_), seconds_figure(runs_), phases_figure(runs_));
        if (std::ranges::find(taken, "rounds-to-reach") == taken.end()) out_ += rounds_to_reach_table(runs_);
        out_ += "</div>\n";
        data();
        evaluations_table();
        config_table();
        identity_table();
        notes();
        if (runs_.many()) contents();
        put(out_, "</main>\n<script>", script, "</script>\n</body>\n</html>\n");
        return std::move(out_);
    }

private:
    // A page of several runs is long: its sections, as links below the title.
    void contents() {
        constexpr std::string_view open = "<h2>", close = "</h2>", header = "</header>\n";
        std::string links;
        for (auto at = out_.find(open); at != out_.npos; at = out_.find(open, at)) {
            const auto title = out_.substr(at + open.size(), out_.find(close, at) - at - open.size());
            std::string id = "section-";
            for (const char c : title)
                if (c >= 'A' && c <= 'Z') id += static_cast<char>(c - 'A' + 'a');
                else id += c == ' ' ? '-' : c;
            const auto anchor = cat("<a id=\"", id, "\"></a>");
            out_.insert(at, anchor);
            at += anchor.size() + open.size();
            put(links, links.empty() ? "" : " \xC2\xB7 ", "<a href=\"#", id, "\">", title, "</a>");
        }
        out_.insert(out_.find(header) + header.size(), cat("<nav class=\"contents\">", links, "</nav>\n"));
    }
    void subtitle() {
        if (runs_.all.empty()) {
            out_ += "<p class=\"sub\">No run in this report.</p>";
            return;
        }
        std::string text = runs_.many() ? plural(runs_.all.size(), "run") : runs_.names[0];
        for (const std::string_view key : {"data", "partition", "model", "clients"})
            if (const Setting* value = runs_.all[0].find(key); value && common(key))
                text += cat(" \xC2\xB7 ", shown(*value), key == "clients" ? " clients" : "");
        if (!runs_.many()) text += cat(" \xC2\xB7 ", plural(runs_.all[0].rounds.size(), "round"));
        put(out_, "<p class=\"sub\">", escape_html(text), "</p>");
    }
    // Above everything else, for all that follows is of the rounds until then.
    void stopped() {
        for (std::size_t i = 0; i < runs_.all.size(); ++i)
            if (const auto& why = runs_.all[i].stopped; !why.empty())
                put(out_, "<p class=\"stopped\"><b>", runs_.many() ? escape_html(runs_.names[i]) + ": " : "",
                    "This run did not come to its end: ", escape_html(why), "</b></p>");
    }
    bool common(std::string_view key) const {
        const Setting* first = runs_.all[0].find(key);
        return std::ranges::all_of(runs_.all, [&](const RunRecord& run) {
            const Setting* other = run.find(key);
            return first && other ? *first == *other : first == other;
        });
    }

    void card(std::string_view label, const std::string& value, std::string_view words) {
        put(out_, "<div class=\"card\"><h3 class=\"soft\">", label, "</h3><b>", escape_html(value), "</b><span>",
            escape_html(words), "</span></div>\n");
    }
    void cards(const RunRecord& run) {
        out_ += "<section class=\"cards\" id=\"headline\">\n";
        for (const Which model : {Which::personal, Which::global}) {
            const auto* e = final_result(run, model, quality_of(run));
            const std::string label =
                cat(model == Which::personal ? "Personal " : "Global ", in_words(quality_of(run)));
            const std::string_view lacking = has(run, model) ? " model in the last stage" : " model in this run";
            card(label, e ? in_unit(*e) : "none", e ? in_words(*e) : cat("no ", word(model), lacking));
        }
        if (const auto gains = gains_of(run); !gains.empty()) {
            const std::size_t better = count_above(gains, 1);
            card("Clients that gain", percent(static_cast<double>(better) / static_cast<double>(gains.size())),
                 cat(digits(better), " of ", digits(gains.size()),
                     " have personal above global accuracy on own test "
                     "data, ",
                     digits(count_above(gains, -1)), " have it below"));
        }
        const Totals sum(run);
        card("Communication", with_prefix(sum.up + sum.down, "B"),
             cat("measured on the wire: ", with_prefix(sum.up, "B"), " up, ", with_prefix(sum.down, "B"), " down"));
        std::string rounds = plural(run.rounds.size(), "round");
        if (!run.rounds.empty())
            rounds += cat(", ", seconds_text(sum.seconds / static_cast<double>(run.rounds.size())), " each");
        card("Time", seconds_text(sum.seconds), rounds);
        out_ += "</section>\n";
    }
    void overview() {
        // Tags that all runs share stand once, in the head of the column.
        const auto tags = [&](std::size_t i, Which model) {
            const auto* e = final_result(runs_.all[i], model, quality_of(runs_.all[i]));
            return e ? in_words(*e) : std::string();
        };
        const auto shared = [&](Which model) {
            std::string only;
            for (std::size_t i = 0; i < runs_.all.size(); ++i)
                if (const std::string words = tags(i, model); !words.empty()) {
                    if (!only.empty() && only != words) return std::string();
                    only = words;
                }
            return only;
        };
        out_ += "<h2>Results</h2>\n<div class=\"scroll\" id=\"headline\"><table><thead><tr><th>run</th>";
        for (const Which model : {Which::personal, Which::global})
            put(out_, "<th>", word(model), " ", in_words(quality_of(runs_.all[0])), "<small>",
                escape_html(shared(model)), "</small></th>");
        for (const std::string_view name : {"clients that gain", "that lose", "up", "down", "time"})
            put(out_, "<th class=\"n\">", name, "</th>");
        out_ += "</tr></thead><tbody>\n";
        for (const auto& group : runs_.groups) {
            if (group.runs.size() > 1) mean_row(group);
            for (const auto* run : group.runs) run_row(runs_.place_of(run), tags, shared);
        }
        out_ += "</tbody></table></div>\n";
    }
    template <class Tags, class Shared>
    void run_row(std::size_t i, const Tags& tags, const Shared& shared) {
        put(out_, "<tr><th>", escape_html(runs_.names[i]), "</th>");
        for (const Which model : {Which::personal, Which::global}) {
            const auto* e = final_result(runs_.all[i], model, quality_of(runs_.all[i]));
            put(out_, "<td>", e ? in_unit(*e) : "none", "<small>",
                shared(model).empty() ? escape_html(tags(i, model)) : "", "</small></td>");
        }
        const auto gains = gains_of(runs_.all[i]);
        const Totals sum(runs_.all[i]);
        for (const double sign : {1.0, -1.0})
            cell(gains.empty() ? "n/a" : cat(digits(count_above(gains, sign)), " of ", digits(gains.size())));
        cell(with_prefix(sum.up, "B"));
        cell(with_prefix(sum.down, "B"));
        cell(seconds_text(sum.seconds));
        out_ += "</tr>\n";
    }
    void mean_row(const SeedGroup& group) {
        put(out_, "<tr class=\"mean\"><th>", escape_html(group.name), "<small>mean \xC2\xB1 deviation, ",
            plural(group.runs.size(), "seed"), "</small></th>");
        for (const Which model : {Which::personal, Which::global}) {
            std::vector<double> values;
            const Metric quality = quality_of(*group.runs[0]);
            for (const auto* run : group.runs)
                if (const auto* e = final_result(*run, model, quality)) values.push_back(e->value);
            const bool all = values.size() == group.runs.size();
            put(out_, "<td>",
                !all                ? "none"
                : is_share(quality) ? percent(values, 2)
                                    : cat(rounded(spread(values).mean, 4), " \xC2\xB1 ",
                                          rounded(sample_deviation(values), 2)),
                "</td>");
        }
        const auto n = static_cast<double>(group.runs.size());
        double gain = 0, lose = 0, up = 0, down = 0, seconds = 0, clients = 0;
        for (const auto* run : group.runs) {
            const auto gains = gains_of(*run);
            const Totals sum(*run);
            gain += static_cast<double>(count_above(gains, 1)) / n;
            lose += static_cast<double>(count_above(gains, -1)) / n;
            clients += static_cast<double>(gains.size()) / n;
            up += sum.up / n, down += sum.down / n, seconds += sum.seconds / n;
        }
        for (const double count : {gain, lose})
            cell(clients == 0 ? "n/a" : cat(rounded(count, 3), " of ", rounded(clients, 3)));
        cell(with_prefix(up, "B"));
        cell(with_prefix(down, "B"));
        cell(seconds_text(seconds));
        out_ += "</tr>\n";
    }
    void cell(std::string_view text) { put(out_, "<td class=\"n\">", escape_html(text), "</td>"); }

    // Clients once and clients by their test examples, as FedAlt's tables have it.
    void spread_table() {
        const auto has_quantiles = [](const RunRecord& run) {
            return std::ranges::find(run.extras, "quantiles", &Extra::id) != run.extras.end();
        };
        if (std::ranges::all_of(runs_.all, has_quantiles)) return;  // they stand once
        struct Column {
            std::string name;
            double ClientRecord::*accuracy;
            const SeedGroup* group;
        };
        std::vector<Column> columns;
        for (std::size_t g = 0; g < runs_.groups.size(); ++g)
            for (const bool personal : {true, false}) {
                const auto accuracy = personal ? &ClientRecord::accuracy_personal : &ClientRecord::accuracy_global;
                const auto known = [&](const ClientRecord& client) { return std::isfinite(client.*accuracy); };
                if (std::ranges::all_of(runs_.groups[g].runs, [&](const RunRecord* run) {
                        return std::ranges::any_of(run->per_client, known);
                    }))
                    columns.push_back(
                        {runs_.group_called(g, personal ? "personal" : "global"), accuracy, &runs_.groups[g]});
            }
        if (columns.empty()) return;
        put(out_,
            "<h2>Accuracy over clients</h2>\n<p class=\"soft\">Own test data, at the end of the run. Each client "
            "counts once; in brackets, by its number of test examples.",
            runs_.over_seeds() ? " Mean \xC2\xB1 deviation over seeds." : "",
            "</p>\n<div class=\"scroll\" id=\"spread\"><table><thead><tr><th></th>");
        for (const auto& column : columns) put(out_, "<th class=\"n\">", escape_html(column.name), "</th>");
        out_ += "</tr></thead><tbody>\n";
        const auto row = [&](const std::string& name, auto value) {
            put(out_, "<tr><th>", name, "</th>");
            for (const auto& column : columns) {
                std::vector<double> of_once, of_sizes;
                for (const auto* run : column.group->runs) {
                    std::vector<Weighted> once, by_size;
                    for (const auto& client : run->per_client)
                        if (const double a = client.*column.accuracy; std::isfinite(a)) {
                            once.push_back({a, 1});
                            by_size.push_back({a, static_cast<double>(client.n_test)});
                        }
                    of_once.push_back(value(once));
                    of_sizes.push_back(value(by_size));
                }
                cell(cat(percent(of_once, 1), " (", percent(of_sizes, 1), ")"));
            }
            out_ += "</tr>\n";
        };
        row("mean", [](const std::vector<Weighted>& all) { return spread(all).mean; });
        row("standard deviation", [](const std::vector<Weighted>& all) { return spread(all).stddev; });
        for (const double q : quantile_levels)
            row(cat(fixed(100 * q, 0), " % quantile"), [q](const auto& all) { return quantile(all, q); });
        out_ += "</tbody></table></div>\n";
    }

    void data() {
        out_ += "<h2>Data</h2>\n<div class=\"grid\">\n";
        // Methods are usually compared on one split; it is drawn once.
        for (std::size_t i = 0; i < runs_.all.size(); ++i)
            if (i == 0 || !same_data(runs_.all[0], runs_.all[i])) out_ += data_figures(runs_, i);
        out_ += "</div>\n";
    }

    void evaluations_table() {
        if (std::ranges::all_of(runs_.all, [](const RunRecord& run) { return run.final_evaluations.empty(); })) return;
        const bool staged = std::ranges::any_of(runs_.all, [](const RunRecord& run) {
            return std::ranges::any_of(run.final_evaluations,
                                       [](const Evaluation& e) { return !e.stage.get().empty(); });
        });
        put(out_, "<h2>Final evaluations</h2>\n<div class=\"scroll\" id=\"evaluations\"><table><thead><tr>",
            runs_.many_groups() ? "<th>run</th>" : "", "<th>metric</th><th class=\"n\">value</th>",
            runs_.over_seeds() ? "<th class=\"n\">seed by seed</th>" : "");
        for (const std::string_view tag : {"model", "when", "on", "split", "clients", "pick", "average"})
            put(out_, "<th>", tag, "</th>");
        put(out_, staged ? "<th>stage</th>" : "", "</tr></thead><tbody>\n");
        for (const auto& group : runs_.groups)
            for (const auto& all : over_seeds(group.runs)) {
                const auto& e = all.mean;
                out_ += "<tr>";
                if (runs_.many_groups()) put(out_, "<th>", escape_html(group.name), "</th>");
                put(out_, "<td>", word(e.metric), "</td>");
                cell(in_unit(all));
                if (runs_.over_seeds()) cell(seed_by_seed(all));
                for (const std::string_view tag :
                     {word(e.model), word(e.when), std::string_view(e.on.word()), word(e.split), word(e.clients)})
                    put(out_, "<td>", escape_html(tag), "</td>");
                put(out_, "<td>", in_words(e.pick), "</td><td>", in_words(e.average), "</td>");
                if (staged) put(out_, "<td>", escape_html(e.stage.get()), "</td>");
                out_ += "</tr>\n";
            }
        out_ += "</tbody></table></div>\n";
    }
    static std::string seed_by_seed(const OverSeeds& all) {
        std::string out;
        for (const double value : all.values)
            put(out, out.empty() ? "" : " \xC2\xB7 ",
                is_share(all.mean.metric) ? fixed(100 * value, 2) : rounded(value, 4));
        return out;
    }

    // A row for each name, a column for each value; rows in which they differ are marked.
    void row(std::string_view name, bool differs, const std::vector<std::string>& values) {
        put(out_, differs ? "<tr class=\"differs\"><th>" : "<tr><th>", escape_html(name), "</th>");
        for (const auto& value : values) put(out_, "<td class=\"v\"><code>", escape_html(value), "</code></td>");
        out_ += "</tr>\n";
    }
    void open_table(std::string_view id, std::string_view title, const std::vector<std::string>& columns) {
        put(out_, "<h2>", title, "</h2>\n<div class=\"scroll\" id=\"", id, "\"><table>");
        if (columns.size() > 1) {
            out_ += "<thead><tr><th></th>";
            for (const auto& name : columns) put(out_, "<th>", escape_html(name), "</th>");
            out_ += "</tr></thead>";
        }
        out_ += "<tbody>\n";
    }
    // What the runs of a group have set: one value, or that of each seed.
    static std::string set_in(const SeedGroup& group, std::string_view key) {
        std::vector<std::string> values;
        for (const auto* run : group.runs)
            if (const Setting* value = run->find(key))
                if (std::string text = shown(*value); std::ranges::find(values, text) == values.end())
                    values.push_back(std::move(text));
        std::string out;
        for (const auto& value : values) put(out, out.empty() ? "" : ", ", value);
        return out;
    }

    void config_table() {
        std::vector<std::string_view> keys;
        for (const auto& run : runs_.all)
            for (const auto& setting : run.config)
                if (std::ranges::find(keys, setting.first) == keys.end()) keys.push_back(setting.first);
        if (keys.empty()) return;
        std::vector<std::string> names;
        for (const auto& group : runs_.groups) names.push_back(group.name);
        open_table("config", "Configuration", names);
        for (const auto key : keys) {
            std::vector<std::string> values;
            for (const auto& group : runs_.groups) values.push_back(set_in(group, key));
            const auto first = [&](const std::string& value) { return value == values[0]; };
            const bool differs = !std::ranges::all_of(values, first);
            if (differs || !values[0].empty()) row(key, differs, values);
        }
        out_ += "</tbody></table></div>\n";
    }

    void identity_table() {
        if (runs_.all.empty()) return;
        open_table("identity", "Identity", runs_.names);
        const auto plain = [&](std::string_view name, auto value) {
            std::vector<std::string> values;
            for (const auto& run : runs_.all) values.push_back(value(run));
            row(name, false, values);
        };
        plain("Tessera version", [](const RunRecord& run) { return run.version; });
        plain("kernel set", [](const RunRecord& run) { return run.kernel_set; });
        plain("state hash", [](const RunRecord& run) { return run.state_hash; });
        provenance(plain);
        plain("clients trained, merged, rejected, diverged", [](const RunRecord& run) {
            const Totals sum(run);
            return cat(digits(sum.trained), ", ", digits(sum.merged), ", ", digits(sum.rejected), ", ",
                       digits(sum.diverged));
        });
        plain("floating-point operations", [](const RunRecord& run) { return with_prefix(Totals(run).flops, "FLOP"); });
        out_ += "</tbody></table></div>\n";
    }

    // How the runs came about: a row for each thing that one of them says.
    template <class Plain>
    void provenance(const Plain& plain) {
        std::vector<std::string_view> names;
        for (const auto& run : runs_.all)
            for (const auto& told : run.provenance)
                if (std::ranges::find(names, told.first) == names.end()) names.push_back(told.first);
        for (const auto name : names)
            plain(name, [name](const RunRecord& run) {
                const auto found = std::ranges::find(run.provenance, name,
                                                     [](const auto& told) -> std::string_view { return told.first; });
                return found == run.provenance.end() ? std::string() : found->second;
            });
    }

    void notes() {
        if (std::ranges::all_of(runs_.all, [](const RunRecord& run) { return run.notes.empty(); })) return;
        out_ += "<h2>Notes</h2>\n<ul class=\"notes\" id=\"notes\">\n";
        for (std::size_t i = 0; i < runs_.all.size(); ++i)
            for (const auto& note : runs_.all[i].notes)
                put(out_, "<li>", runs_.many() ? escape_html(runs_.names[i]) + ": " : "", escape_html(note), "</li>\n");
        out_ += "</ul>\n";
    }

    Runs runs_;
    std::string_view title_;
    const std::vector<Extra>& across_;
    std::string out_;
};

// The stages of a method that has several, else its name.
std::string called(const std::vector<RunRecord>& runs) {
    std::vector<std::string> stages;
    std::string all;
    for (const auto& round : runs.at(0).rounds)
        for (const auto& e : round.evaluations)
            if (std::ranges::find(stages, e.stage.get()) == stages.end()) {
                stages.push_back(e.stage);
                all += cat(all.empty() ? "" : ", then ", e.stage.get());
            }
    const Setting* name = runs[0].find("algorithm");
    return stages.size() > 1 ? all : name ? shown(*name) : "a run";
}

}  // namespace

std::string to_html(const std::vector<RunRecord>& runs, std::string_view title, const std::vector<Extra>& across) {
    for (const auto& extra : across) extra.validate();
    return Page(runs, title, across).write();
}

std::string page_of(const std::vector<RunRecord>& runs, std::string title, std::vector<Extra> across) {
    if (runs.size() > 1)
        if (auto changes = analysis::spread_over_seeds(runs);
            !changes.series[0].y.empty() && std::ranges::find(across, changes.id, &Extra::id) == across.end())
            across.insert(across.begin(), std::move(changes));
    if (title.empty()) title = "Tessera: " + called(runs);
    return to_html(runs, title, across);
}

}  // namespace lab::page
