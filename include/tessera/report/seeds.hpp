// SPDX-License-Identifier: BSD-3-Clause
// Runs that differ in their seed alone: each number with its mean and spread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/core/view.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/record.hpp>

namespace tessera::report {

// Of a sample: it divides by n - 1, and one value has none.
inline double sample_deviation(In<double> values) {
    if (values.size() < 2) return absent;
    const auto n = static_cast<double>(values.size());
    return spread(values).stddev * std::sqrt(n / (n - 1));
}

struct OverSeeds {
    Evaluation mean;             // the tags, and the mean of the values
    std::vector<double> values;  // in the order of the runs
    double deviation() const { return sample_deviation(values); }
};

namespace detail {

inline std::vector<OverSeeds> over_seeds(const std::vector<const RunRecord*>& runs) {
    std::vector<OverSeeds> out;
    if (runs.empty()) return out;
    for (const auto& first : runs[0]->final_evaluations) {
        OverSeeds all{first, {}};
        for (const auto* run : runs)
            for (const auto& e : run->final_evaluations)
                if (comparable(e, first) && e.stage == first.stage) {
                    all.values.push_back(e.value);
                    break;
                }
        if (all.values.size() < runs.size()) continue;
        all.mean.value = spread(all.values).mean;
        out.push_back(std::move(all));
    }
    return out;
}

}  // namespace detail

// Each final evaluation that every run has, in the order of the first run.
inline std::vector<OverSeeds> over_seeds(const std::vector<RunRecord>& runs) {
    std::vector<const RunRecord*> all;
    for (const auto& run : runs) all.push_back(&run);
    return detail::over_seeds(all);
}

inline std::uint64_t seed_of(const RunRecord& run) {
    const Setting* seed = run.find("seed");
    const auto* value = seed ? std::get_if<std::uint64_t>(&seed->value()) : nullptr;
    return value ? *value : 0;
}

// One object: what the runs share, the seeds, each final number over them, and the runs whole under `runs`.
inline std::string seeds_to_json(const std::vector<RunRecord>& runs) {
    std::string out;
    JsonWriter json(out);
    json.object([&] {
        json.key("config").object([&] {
            for (const auto& [name, setting] : runs.at(0).config) {
                const bool shared = std::ranges::all_of(runs, [&, &key = name, &value = setting](const RunRecord& run) {
                    return run.find(key) && *run.find(key) == value;
                });
                if (shared)
                    std::visit([&json, &key = name](const auto& value) { json.member(key, value); }, setting.value());
            }
        });
        json.line();
        json.key("seeds").array([&] {
            for (const auto& run : runs) json.value(seed_of(run));
        });
        json.line();
        json.key("final").object([&] {
            json.key("evaluations").array([&] {
                for (const auto& each : over_seeds(runs)) {
                    json.line();
                    json.object([&] {
                        write_members(json, each.mean);
                        json.member("deviation", each.deviation());
                        json.key("values").array([&] {
                            for (const double value : each.values) json.value(value);
                        });
                    });
                }
            });
        });
        json.line();
        json.key("runs").array([&] {
            for (const auto& run : runs) {
                std::string text = to_json(run);
                text.pop_back();  // its end of line
                json.line();
                json.raw(text);
            }
        });
    });
    out += '\n';
    return out;
}

}  // namespace tessera::report
