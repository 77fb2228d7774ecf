// SPDX-License-Identifier: BSD-3-Clause
#include "outputs.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <system_error>
#include <utility>

#include <tessera/io/file.hpp>
#include <tessera/io/tensorboard.hpp>
#include <tessera/report/csv.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/seeds.hpp>

#include "page/page.hpp"
#include "pools.hpp"
#include "ranks.hpp"
#include "tasks.hpp"

namespace lab {

using namespace tessera::report;

namespace {

namespace fs = std::filesystem;

// Where a path leads, also while nothing is there.
fs::path canonical(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    std::error_code failed;
    const auto whole = fs::absolute(path, failed);
    if (failed) return fs::path(path).lexically_normal();  // the working directory is gone, as whoever writes will say
    auto found = fs::weakly_canonical(whole, failed);
    return failed ? whole.lexically_normal() : found;
}

// Seconds since 1970, for TensorBoard's clock; no number of a run depends on it.
double now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

void write_text(const std::string& path, const std::string& text) {
    writing([&] { tessera::io::write_file_atomically(path, std::as_bytes(std::span(text))); });
}

std::string FailedOutputs::in_words() const {
    std::string all;
    for (const auto& each : what_) all.append(all.empty() ? "" : "; ").append(each);
    return all;
}

void FailedOutputs::tell() const {
    if (const auto all = in_words(); !all.empty()) throw OutputError(all);
}

void check_places(const std::vector<Place>& written, const std::vector<Place>& read) {
    for (std::size_t i = 0; i < written.size(); ++i) {
        const auto& one = written[i];
        const auto where = canonical(one.path);
        for (std::size_t j = 0; j < i; ++j)
            if (canonical(written[j].path) == where)
                throw tessera::ConfigError(written[j].flag + " and " + one.flag + " " + one.path +
                                           ": both would be written there; name two places");
        for (const auto& other : read) {
            const auto from = canonical(other.path);
            const bool among = !other.ending.empty() && one.path.ends_with(other.ending) && where.parent_path() == from;
            if (where == from || among)
                throw tessera::ConfigError(one.flag + " " + one.path + ": " + other.flag + " is read from there; name "
                                           "another place");
        }
    }
}

void check_places(const Options& o) {
    std::vector<Place> written, read;
    for (const auto& [flag, path] : std::initializer_list<std::pair<const char*, const std::string&>>{
             {"--json", o.json}, {"--jsonl", o.jsonl}, {"--csv", o.csv}, {"--tensorboard", o.tensorboard},
             {"--report", o.report}, {"--models", o.models}, {"--save-weights", o.save_weights},
             {"--trace", o.trace}, {"--checkpoint", o.checkpoint}, {"--split-file", o.split_file}})
        if (!path.empty()) written.push_back({flag, path});
    if (o.data)
        for (const auto& place : places_of(*o.data)) read.push_back({"--data", place.path, place.ending});
    if (o.aux)
        for (const auto& place : places_of(*o.aux)) read.push_back({"--aux", place.path, place.ending});
    if (!o.weights.empty()) read.push_back({"--weights", weights_file_of(o.weights)});
    if (!o.preset_path.empty()) read.push_back({"--preset", o.preset_path});
    if (!o.shift_dir.empty()) read.push_back({"--shift-dir", o.shift_dir, ".npy"});
    check_places(written, read);
}

void check_outputs(const Options& o) {
    for (const auto& [flag, path] : {std::pair{"--models ", &o.models}, {"--save-weights ", &o.save_weights}})
        if (!path->empty() && !path->ends_with(".npz") && !path->ends_with(".safetensors"))
            throw tessera::ConfigError(flag + *path + ": a file of models ends in .npz or .safetensors");
    if (!o.tensorboard.empty() && o.tensorboard.find("tfevents") == std::string::npos)
        throw tessera::ConfigError("--tensorboard " + o.tensorboard + ": TensorBoard reads only files whose name holds tfevents, "
                                   "as in runs/tfevents.fedavg");
    if (!speaks()) return;
    for (const auto* path :
         {&o.json, &o.jsonl, &o.csv, &o.tensorboard, &o.report, &o.models, &o.save_weights, &o.trace}) {
        if (path->empty()) continue;
        tessera::io::check_writable(*path);
        tessera::io::sweep_beside(*path);
    }
}

std::string vocabulary_in(const std::string& checkpoints) { return checkpoints + "/vocabulary"; }

void keep_vocabulary(const Options& o) {
    const auto* words = vocabulary_of(*o.data);
    if (!words || !speaks()) return;
    std::vector<std::string> places;
    if (!o.checkpoint.empty()) {
        places.push_back(vocabulary_in(o.checkpoint));
        if (o.resume && tessera::io::exists(places[0]) && tessera::io::read_vocabulary(places[0]) != *words)
            throw tessera::ConfigError("--resume: the run of " + o.checkpoint + " had another vocabulary than --data " +
                                       *o.data + " has now");
        std::error_code failed;  // whoever writes there says so
        fs::create_directories(o.checkpoint, failed);
    }
    for (const auto* path : {&o.json, &o.models, &o.save_weights})
        if (!path->empty()) places.push_back(fs::path(*path).replace_extension("vocabulary").string());
    for (const auto& place : places) writing([&] { tessera::io::write_vocabulary(place, *words); });
}

RoundFiles::RoundFiles(const Options& o) {
    if (!o.csv.empty()) csv_.emplace(Grown{tessera::io::GrowingFile(o.csv), std::string(rounds_csv_header)});
    if (!o.jsonl.empty()) jsonl_.emplace(Grown{tessera::io::GrowingFile(o.jsonl)});
    if (!o.tensorboard.empty())
        tensorboard_.emplace(Grown{tessera::io::GrowingFile(o.tensorboard), tessera::io::tensorboard_header(now())});
}

void RoundFiles::Grown::write() {
    file.append(unwritten);
    unwritten.clear();
}

void RoundFiles::add(const RoundRecord& round) { add(std::vector{round}); }

void RoundFiles::add(const std::vector<RoundRecord>& rounds) {
    if (rounds.empty()) return;
    for (const auto& round : rounds) {
        if (csv_) csv_->unwritten += to_csv(round);
        if (jsonl_) jsonl_->unwritten += to_json(round) + "\n";
        if (tensorboard_) tensorboard_->unwritten += tessera::io::tensorboard_events(round, now());
    }
    for (auto* grown : {&csv_, &jsonl_, &tensorboard_}) {
        if (!*grown) continue;
        try {
            (*grown)->write();
        } catch (const tessera::IoError&) {  // there may be room at the next round, and else finish() tells
        }
    }
}

void RoundFiles::finish(FailedOutputs& failed) {
    for (auto* grown : {&csv_, &jsonl_, &tensorboard_})
        if (*grown)
            failed.unless_written([&] {
                if (!(*grown)->unwritten.empty()) (*grown)->write();
                (*grown)->file.sync();
            });
}

void write_together(const std::vector<RunRecord>& runs, const Options& o, FailedOutputs& failed) {
    if (!o.json.empty())
        failed.unless_written(
            [&] { write_text(o.json, o.seeds.empty() ? to_json(runs.at(0)) : seeds_to_json(runs)); });
    if (!o.report.empty()) failed.unless_written([&] { write_text(o.report, page::page_of(runs)); });
}

namespace {
// Real targets have no accuracy; their loss stands beside R2.
bool tells_r2(const std::vector<RunRecord>& runs) {
    for (const auto& run : runs)
        for (const auto& e : run.final_evaluations)
            if (e.metric == Metric::r2) return true;
    return false;
}
}  // namespace

void print_summary(const std::vector<RunRecord>& runs) {
    for (const auto& each : over_seeds(runs)) {
        const auto& e = each.mean;
        const bool of_text = e.metric == Metric::perplexity || e.metric == Metric::in_vocabulary;
        const bool asked = e.metric == Metric::auc || e.metric == Metric::ece || e.metric == Metric::gradient_norm ||
                           e.metric == Metric::word_error_rate;
        const bool real = e.metric == Metric::r2 || e.metric == Metric::perplexity || e.metric == Metric::gradient_norm ||
                          (e.metric == Metric::loss && tells_r2(runs));
        if (e.metric != Metric::accuracy && !real && !of_text && !asked) continue;
        if (e.split != SplitOf::test && e.metric != Metric::gradient_norm) continue;
        if (e.pick == Pick::mean_last(1)) continue;  // the last round, which has its line
        const double scale = real ? 1 : 100;
        std::printf(real ? "%8.4f" : "%6.2f %%", scale * e.value.get());
        if (runs.size() > 1) std::printf(real ? " \xC2\xB1 %.4f" : " \xC2\xB1 %.2f", scale * each.deviation());
        const char* what = e.metric == Metric::in_vocabulary ? "in the vocabulary, "
                           : e.metric == Metric::perplexity  ? "perplexity, "
                           : e.metric == Metric::r2          ? "R2, "
                           : e.metric == Metric::auc         ? "AUC, "
                           : e.metric == Metric::ece         ? "calibration error, "
                           : e.metric == Metric::word_error_rate ? "word error rate, "
                           : e.metric == Metric::gradient_norm ? "length of the gradient, "
                           : real                            ? "loss, "
                                                             : "";
        std::printf("  %s%s\n", what, in_words(e).c_str());
    }
    for (const auto& run : runs) {
        if (runs.size() > 1) std::printf("seed %llu\n", static_cast<unsigned long long>(seed_of(run)));
        for (const auto& note : run.notes) std::printf("%s\n", note.c_str());
        std::printf("state %s, kernels %s\n", run.state_hash.c_str(), run.kernel_set.c_str());
    }
}

}  // namespace lab
