// SPDX-License-Identifier: BSD-3-Clause
#include "runs.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/report/seeds.hpp>
#include <tessera/runtime/checkpoint.hpp>

#include "presets.hpp"
#include "stages.hpp"
#include "tasks.hpp"

namespace lab {
namespace {

using tessera::ConfigError;

std::vector<std::uint64_t> seeds_of(const Options& o) { return o.seeds.empty() ? std::vector{o.seed} : o.seeds; }

std::string with_seed(const std::string& path, std::uint64_t seed) {
    if (path.empty()) return path;
    const std::string tail = "-seed-" + std::to_string(seed);
    const auto name = path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1;
    const auto dot = path.rfind('.');
    if (dot == path.npos || dot <= name) return path + tail;
    return path.substr(0, dot) + tail + path.substr(dot);
}

template <class T, class InWords>
void refuse_twice(const std::string& flag, const std::vector<T>& values, InWords&& in_words) {
    for (auto at = values.begin(); at != values.end(); ++at)
        if (std::find(values.begin(), at, *at) != at) throw ConfigError(flag + ": " + in_words(*at) + " stands twice");
}

// A flag that acts through another one.
void check_companions(const Options& o) {
    const auto needs = [](bool given, bool has, const char* sentence) {
        if (given && !has) throw ConfigError(sentence);
    };
    needs(o.resume, !o.checkpoint.empty(), "--resume needs --checkpoint DIR");
    needs(o.store == "log", !o.checkpoint.empty(), "--store log needs --checkpoint DIR, where the log is kept");
    needs(o.trace_kernels, !o.trace.empty(), "--trace-kernels needs --trace FILE");
    needs(o.hits, !o.json.empty(), "--hits needs --json FILE, where they are kept");
    needs(!o.analyse.empty(), !o.json.empty() || !o.report.empty(),
          "--analyse needs --json FILE or --report FILE, where its figures go");
    needs(!o.shift_dir.empty(), !o.shifts.empty(), "--shift-dir needs --shifts, as in fog:3,snow:1 or all");
}

// What the library refuses too, without knowing the flags.
void check_ranges(const Options& o) {
    const auto within = [](const std::string& flag, const auto& value, bool holds, const std::string& what) {
        if (!holds) throw ConfigError(flag + " " + tessera::detail::text_of(value) + ": " + what);
    };
    within("--clients", *o.clients, *o.clients <= std::numeric_limits<tessera::Id>::max(),
           "a client's number has 32 bits; use fewer");
    within("--unseen", *o.unseen, *o.unseen < *o.clients,
           "it must be less than --clients, which is " + std::to_string(*o.clients));
    within("--validation", *o.validation, *o.validation >= 0 && *o.validation < 1, "it must be a share in [0, 1)");
    within("--quorum", o.quorum, o.quorum >= 0 && o.quorum <= 1, "it must be a share in [0, 1]");
    within("--threads", o.threads, o.threads >= 1 && o.threads <= 1024, "it must be in 1..1024");
}

}  // namespace

std::vector<std::string> complete(Options& o) {
    const char* chosen = o.per_round ? "--per-round" : o.trains ? "--trains" : nullptr;
    const auto as_it_is = [](const std::string& text) { return text; };
    refuse_twice("--seeds", o.seeds, [](std::uint64_t seed) { return std::to_string(seed); });
    refuse_twice("--shifts", o.shifts, as_it_is);
    refuse_twice("--augment", o.augment, as_it_is);
    Options as_preset = o;
    apply_preset(as_preset);
    for (const auto seed : seeds_of(o)) {
        auto one = for_seed(as_preset, seed);
        one.checkpoint = o.checkpoint;
        check_places(one);
    }
    if (!o.seeds.empty()) o.seed = o.seeds.front();  // whose split all share
    adopt_split_file(o, as_preset.data.value_or(""));
    auto said = apply_preset(o);  // after the file, which a preset does not contradict as a flag does
    if (as_preset.partition && look_in(*o.partition).empty()) *o.partition += look_in(*as_preset.partition);
    if (!o.validation) o.validation = 0;
    if (!o.unseen) o.unseen = 0;
    apply_defaults(o);
    if (chosen) refuse_choice_of_clients(o.algorithm, chosen);
    const auto positive = [](const char* flag, std::size_t value) {
        if (value == 0) throw ConfigError(std::string(flag) + " must be at least 1");
    };
    positive("--rounds", *o.rounds);
    positive("--clients", *o.clients);
    positive("--per-round", *o.per_round);
    positive("--eval-every", o.evaluate_every);
    positive("--checkpoint-every", o.checkpoint_every);
    check_ranges(o);
    if (o.normalise && std::ranges::find(normalise_names, *o.normalise) == normalise_names.end())
        throw ConfigError("--normalise is one of standard, unit, each, none, not '" + *o.normalise + "'");
    if (o.store != "memory" && o.store != "log")
        throw ConfigError("--store is one of memory, log, not '" + o.store + "'");
    check_companions(o);
    return said;
}

bool check_checkpoints(const Options& o) {
    if (o.checkpoint.empty()) return false;
    for (const auto seed : seeds_of(o))
        for (const auto& stage : stages_of(for_seed(o, seed))) {
            if (tessera::checkpoints_in(stage.options.checkpoint).empty()) continue;
            if (o.resume) return true;
            throw ConfigError("--checkpoint " + stage.options.checkpoint +
                              ": checkpoints of an earlier run are there; go on from them with --resume, name "
                              "another directory, or remove this one");
        }
    return false;
}

Options for_seed(const Options& options, std::uint64_t seed) {
    Options o = options;
    o.seed = seed;
    if (o.seeds.empty()) return o;
    if (!o.checkpoint.empty()) o.checkpoint += "/seed-" + std::to_string(seed);
    for (auto* path : {&o.csv, &o.jsonl, &o.tensorboard, &o.models, &o.save_weights, &o.trace})
        *path = with_seed(*path, seed);
    return o;
}

Runs run_seeds(const Options& o, const Task& task, FailedOutputs& failed) {
    const auto seeds = seeds_of(o);
    for (const auto seed : seeds) {
        const auto one = for_seed(o, seed);
        open_stages(stages_of(one), task);
        check_outputs(one);
        keep_vocabulary(one);
    }
    Runs runs;
    for (const auto seed : seeds) {
        const auto one = for_seed(o, seed);
        auto stages = stages_of(one);
        const auto trace = std::make_shared<Trace>(one.trace.empty() ? 0 : one.threads, one.trace_kernels);
        for (auto& stage : stages) stage.trace = trace;
        RoundFiles files(one);
        auto ran = run_stages(stages, task, files, failed);
        files.finish(failed);
        runs.all.push_back(std::move(ran.record));
        if (!one.trace.empty()) failed.unless_written([&] { write_text(one.trace, trace->to_json()); });
        runs.stopped = ran.stopped;
        if (runs.stopped) break;
    }
    return runs;
}

void tell(const Runs& runs, const Options& o, FailedOutputs& failed) {
    if (!o.quiet && !runs.stopped) print_summary(runs.all);
    write_together(runs.all, o, failed);
    if (runs.stopped) {
        if (const auto unwritten = failed.in_words(); !unwritten.empty())
            std::fprintf(stderr, "tessera-lab: %s\n", unwritten.c_str());
        std::rethrow_exception(runs.stopped);
    }
    failed.tell();
    check_learnt(runs.all);
}

void check_learnt(const std::vector<tessera::report::RunRecord>& runs) {
    for (const auto& run : runs) {
        const auto* rounds = run.find("rounds");  // of the last stage
        const std::size_t last = std::min<std::size_t>(std::get<std::uint64_t>(rounds->value()), run.rounds.size());
        std::size_t visits = 0, diverged = 0;
        for (std::size_t i = run.rounds.size() - last; i < run.rounds.size(); ++i)
            visits += run.rounds[i].trained, diverged += run.rounds[i].diverged;
        if (visits > 0 && diverged == visits)
            throw tessera::Error("all " + std::to_string(visits) + " visits of seed " +
                                 std::to_string(tessera::report::seed_of(run)) + " diverged" +
                                 (last < run.rounds.size() ? " in the last stage" : "") +
                                 ": nothing was learnt, its numbers are those of the model it began with; a "
                                 "smaller rate may help");
    }
}

}  // namespace lab
