// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>
#include <tessera/report/analysis/ranking.hpp>
#include <tessera/report/analysis/runs.hpp>
#include <tessera/report/compare.hpp>
#include <tessera/report/compare_figures.hpp>
#include <tessera/report/json.hpp>

#include "commands.hpp"
#include "outputs.hpp"
#include "page/page.hpp"
#include "page/run_reader.hpp"

namespace lab {
namespace {

using namespace tessera::report;

std::string in_words(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words) text.append(text.empty() ? "" : " and ").append(word);
    return text;
}

void print(const Comparison& c, double confidence) {
    const std::string title = c.b + " against " + c.a;
    std::printf("%-70s %7s  %7s  second - first\n", title.c_str(), "first", "second");
    const double level = 100 * confidence;
    for (const auto& number : c.numbers) {
        const double scale = scale_of(number.of);
        const std::string what = std::string(word(number.of.metric)) + ", " + in_words(number.of.pick) + ", " +
                                 std::string(in_words(number.of.average));
        std::printf("  %-68s %7.2f  %7.2f  %s", what.c_str(), scale * number.mean_a, scale * number.mean_b,
                    in_words(number.over_seeds, scale).c_str());
        if (!number.over_seeds.known()) std::printf("  too few seeds for a claim\n");
        else if (number.paired)
            std::printf("  %zu pairs of seeds, %g %%: %s\n", number.seeds_b, level,
                        number.claims() ? "differ" : "no difference shown");
        else
            std::printf("  %zu and %zu seeds, %g %%: %s\n", number.seeds_a, number.seeds_b, level,
                        number.claims() ? "differ" : "no difference shown");
    }
    if (!c.by_client.empty())
        std::printf("  these models over %zu clients: %s points of accuracy, better for %zu, worse for %zu\n",
                    c.clients.size(), in_words(c.over_clients, 100).c_str(), c.better, c.worse);
    if (c.overlap)
        std::printf(
            "  right of the test examples: both %.2f %%, first only %.2f %%, second only %.2f %%, neither %.2f %%\n",
            100 * c.overlap->both, 100 * c.overlap->only_a, 100 * c.overlap->only_b, 100 * c.overlap->neither);
}

// What is of luck, of speed or of the result, and no setting that somebody would change to see what it does.
const std::vector<std::string> no_ablation{
    "file",      "seed",         "split_seed",          "split_file",        "threads",           "preset",
    "preset_hash", "eval_also", "final_tuning", "personal_parameters", "data_fingerprint",
    "dealt_fingerprint", "split_fingerprint", "aux_fingerprint", "ensemble_distance", "personal_distance",
    "distillation_lesson", "drawing_seed"};

// Figures over runs of personal models: what their size gains, and what a changed setting does.
void add_figures_of_runs(const std::vector<RunRecord>& runs, std::vector<Extra>& figures) {
    const bool personal = std::ranges::all_of(runs, [](const auto& run) { return !analysis::changes(run).empty(); });
    if (!personal) return;
    if (!analysis::changed_settings(runs, no_ablation).empty())
        figures.push_back(analysis::ablation(runs, analysis::changed_settings(runs, no_ablation)));
    auto gains = analysis::gain_against_parameters(runs);
    const auto sizes_differ = [&](const auto& series) { return series.x != gains.series[0].x; };
    if (std::ranges::any_of(gains.series, sizes_differ)) figures.push_back(std::move(gains));
}

// What files are called: without their folders and .json, where that tells them apart.
std::vector<std::string> names_of(const std::vector<std::string>& files) {
    std::vector<std::string> names;
    for (const auto& file : files) {
        auto name = std::filesystem::path(file).filename().string();
        if (name.ends_with(".json")) name.resize(name.size() - 5);
        if (std::ranges::find(names, name) != names.end()) return files;
        names.push_back(std::move(name));
    }
    return names;
}

// The one that --baseline names, by its file or what it is called; else Local, else the first.
std::size_t baseline_in(const CompareOptions& o, const std::vector<std::string>& names,
                        const std::vector<std::vector<RunRecord>>& sets) {
    if (o.baseline.empty()) return analysis::baseline_of(sets);
    for (std::size_t i = 0; i < names.size(); ++i)
        if (names[i] == o.baseline || o.files[i] == o.baseline) return i;
    throw tessera::ConfigError("--baseline " + o.baseline + ": it is none of the files that are compared");
}

void print_ranking(const Extra& table, const std::string& baseline) {
    std::printf("ranking by what is served, mean over clients, %%; gains against %s in points\n", baseline.c_str());
    for (std::size_t i = 0; i < table.categories.size(); ++i) {
        std::printf("  %2zu. %-24s %-24s", i + 1, table.categories[i].c_str(), table.series[0].texts[i].c_str());
        std::printf("  gain %-24s  worst tenth %6s", table.series[1].texts[i].c_str(),
                    table.series[2].texts[i].c_str());
        const auto& worse = table.series[4].texts[i];
        std::printf("%s%s\n", worse.empty() ? "" : "  worse off ", worse.c_str());
    }
}

}  // namespace

int compare(const CompareOptions& o) {
    if (o.files.size() < 2) throw tessera::ConfigError("compare: at least two JSON files of runs are needed");
    if (!(o.confidence > 0 && o.confidence < 1))
        throw tessera::ConfigError("--confidence " + tessera::detail::text_of(o.confidence) +
                                   ": it must lie between 0 and 1, as in 0.95");
    CompareSettings settings{.confidence = o.confidence, .unpaired = o.unpaired};
    tessera::set_by_name(settings, "model", o.model);
    settings.validate();
    std::vector<Place> written, read;
    if (!o.report.empty()) written.push_back({"--report", o.report});
    if (!o.json.empty()) written.push_back({"--json", o.json});
    for (const auto& file : o.files) read.push_back({"a run", file});
    check_places(written, read);
    for (const auto& place : written) {
        tessera::io::check_writable(place.path);
        tessera::io::sweep_beside(place.path);
    }
    std::vector<std::vector<RunRecord>> sets;
    std::vector<RunRecord> all;
    for (const auto& path : o.files) {
        sets.push_back(runs_in(path));
        for (auto run : sets.back()) {
            run.set("file", path);
            all.push_back(std::move(run));
        }
    }
    const auto names = names_of(o.files);
    std::vector<Comparison> comparisons;
    for (std::size_t i = 1; i < sets.size(); ++i) {
        comparisons.push_back(tessera::report::compare(sets[0], sets[i], names[0], names[i], settings));
        print(comparisons.back(), o.confidence);
        const auto stopped = [&](std::size_t set) {
            for (const auto& run : sets[set])
                if (!run.stopped.empty())
                    std::printf("  note: a run of %s did not come to its end: %s\n", names[set].c_str(),
                                run.stopped.c_str());
        };
        stopped(0);
        stopped(i);
        if (const auto& differing = comparisons.back().differing; !differing.empty())
            std::printf("  note: %s and %s differ in %s\n", names[0].c_str(), names[i].c_str(),
                        in_words(differing).c_str());
        const std::size_t first = sets[0].front().rounds.size(), other = sets[i].front().rounds.size();
        if (first != other)
            std::printf("  note: %s trained for %zu rounds, %s for %zu\n", names[0].c_str(), first, names[i].c_str(),
                        other);
    }
    const std::size_t baseline = baseline_in(o, names, sets);
    std::vector<Extra> figures{analysis::ranking(sets, names, baseline, {.confidence = o.confidence})};
    print_ranking(figures[0], names[baseline]);
    for (auto& figure : comparison_figures(comparisons, o.confidence)) figures.push_back(std::move(figure));
    add_figures_of_runs(all, figures);
    FailedOutputs failed;
    if (!o.json.empty()) failed.unless_written([&] { write_text(o.json, to_json(figures)); });
    if (!o.report.empty())
        failed.unless_written([&] { write_text(o.report, page::to_html(all, "Tessera: comparison", figures)); });
    failed.tell();
    return 0;
}

}  // namespace lab
