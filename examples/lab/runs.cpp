// SPDX-License-Identifier: BSD-3-Clause
#include "runs.hpp"

#include <algorithm>
#include <memory>

#include <tessera/core/error.hpp>
#include <tessera/runtime/checkpoint.hpp>

#include "outputs.hpp"
#include "presets.hpp"
#include "stages.hpp"

namespace lab {
namespace {

using tessera::ConfigError;

std::string with_seed(const std::string& path, std::uint64_t seed) {
    if (path.empty()) return path;
    const std::string tail = "-seed-" + std::to_string(seed);
    const auto name = path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1;
    const auto dot = path.rfind('.');
    if (dot == path.npos || dot <= name) return path + tail;
    return path.substr(0, dot) + tail + path.substr(dot);
}

}  // namespace

std::vector<std::string> complete(Options& o) {
    auto said = apply_preset(o);
    for (std::size_t i = 0; i < o.seeds.size(); ++i)
        if (std::find(o.seeds.begin(), o.seeds.begin() + static_cast<std::ptrdiff_t>(i), o.seeds[i]) !=
            o.seeds.begin() + static_cast<std::ptrdiff_t>(i))
            throw ConfigError("--seeds: " + std::to_string(o.seeds[i]) + " stands twice");
    if (!o.seeds.empty()) o.seed = o.seeds.front();  // whose split all share
    apply_defaults(o);
    const auto positive = [](const char* flag, std::size_t value) {
        if (value == 0) throw ConfigError(std::string(flag) + " must be at least 1");
    };
    positive("--rounds", *o.rounds);
    positive("--clients", *o.clients);
    positive("--per-round", *o.per_round);
    positive("--eval-every", o.evaluate_every);
    positive("--checkpoint-every", o.checkpoint_every);
    if (*o.normalise != "standard" && *o.normalise != "unit" && *o.normalise != "none")
        throw ConfigError("--normalise is one of standard, unit, none, not '" + *o.normalise + "'");
    if (o.resume && o.checkpoint.empty()) throw ConfigError("--resume needs --checkpoint DIR");
    if (o.trace_kernels && o.trace.empty()) throw ConfigError("--trace-kernels needs --trace FILE");
    return said;
}

void check_checkpoints(const Options& o) {
    if (o.resume || o.checkpoint.empty()) return;
    for (const auto seed : o.seeds.empty() ? std::vector{o.seed} : o.seeds)
        for (const auto& stage : stages_of(for_seed(o, seed)))
            if (!tessera::checkpoints_in(stage.options.checkpoint).empty())
                throw ConfigError("--checkpoint " + stage.options.checkpoint +
                                  ": checkpoints of an earlier run are there; go on from them with --resume, name "
                                  "another directory, or remove this one");
}

Options for_seed(const Options& options, std::uint64_t seed) {
    Options o = options;
    o.seed = seed;
    if (o.seeds.empty()) return o;
    if (!o.checkpoint.empty()) o.checkpoint += "/seed-" + std::to_string(seed);
    for (auto* path : {&o.csv, &o.jsonl, &o.models, &o.trace}) *path = with_seed(*path, seed);
    return o;
}

std::vector<tessera::report::RunRecord> run_seeds(const Options& o, const Task& task) {
    const auto seeds = o.seeds.empty() ? std::vector{o.seed} : o.seeds;
    for (const auto seed : seeds) {
        const auto one = for_seed(o, seed);
        open_stages(stages_of(one), task);
        check_outputs(one);
    }
    std::vector<tessera::report::RunRecord> all;
    for (const auto seed : seeds) {
        const auto one = for_seed(o, seed);
        auto stages = stages_of(one);
        const auto trace = std::make_shared<Trace>(one.trace.empty() ? 0 : one.threads, one.trace_kernels);
        for (auto& stage : stages) stage.trace = trace;
        all.push_back(run_stages(stages, task));
        write_run(all.back(), one);
        if (!one.trace.empty()) write_text(one.trace, trace->to_json());
    }
    return all;
}

}  // namespace lab
