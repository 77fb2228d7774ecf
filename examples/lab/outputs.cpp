// SPDX-License-Identifier: BSD-3-Clause
#include "outputs.hpp"

#include <cstdio>
#include <span>
#include <utility>

#include <tessera/io/file.hpp>
#include <tessera/report/analysis/runs.hpp>
#include <tessera/report/csv.hpp>
#include <tessera/report/html.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/seeds.hpp>

namespace lab {

using namespace tessera::report;

void write_text(const std::string& path, const std::string& text) {
    writing([&] { tessera::io::write_file_atomically(path, std::as_bytes(std::span(text))); });
}

void check_outputs(const Options& o) {
    if (!o.models.empty() && !o.models.ends_with(".npz") && !o.models.ends_with(".safetensors"))
        throw tessera::ConfigError("--models " + o.models + ": a file of models ends in .npz or .safetensors");
    for (const auto* path : {&o.json, &o.jsonl, &o.csv, &o.report, &o.models, &o.trace})
        if (!path->empty()) tessera::io::check_writable(*path);
}

void write_run(const RunRecord& record, const Options& o) {
    if (!o.csv.empty()) write_text(o.csv, rounds_csv(record));
    if (o.jsonl.empty()) return;
    std::string lines;
    for (const auto& round : record.rounds) lines += to_json(round) + "\n";
    write_text(o.jsonl, lines);
}

void write_together(const std::vector<RunRecord>& runs, const Options& o) {
    if (!o.json.empty()) write_text(o.json, o.seeds.empty() ? to_json(runs.at(0)) : seeds_to_json(runs));
    const auto& what = o.stages.empty() ? o.algorithm : o.stages;
    std::vector<Extra> across;
    if (runs.size() > 1)
        if (auto changes = analysis::spread_over_seeds(runs); !changes.series[0].y.empty())
            across.push_back(std::move(changes));
    if (!o.report.empty()) write_text(o.report, to_html(runs, "Tessera: " + what, across));
}

void print_summary(const std::vector<RunRecord>& runs) {
    for (const auto& each : over_seeds(runs)) {
        const auto& e = each.mean;
        if (e.metric != Metric::accuracy || e.split != SplitOf::test) continue;
        if (e.pick == Pick::mean_last(1)) continue;  // the last round, which has its line
        std::printf("%6.2f %%", 100 * e.value.get());
        if (runs.size() > 1) std::printf(" \xC2\xB1 %.2f", 100 * each.deviation());
        std::printf("  %s\n", in_words(e).c_str());
    }
    for (const auto& run : runs) {
        if (runs.size() > 1) std::printf("seed %llu\n", static_cast<unsigned long long>(seed_of(run)));
        for (const auto& note : run.notes) std::printf("%s\n", note.c_str());
        std::printf("state %s, kernels %s\n", run.state_hash.c_str(), run.kernel_set.c_str());
    }
}

}  // namespace lab
