// SPDX-License-Identifier: BSD-3-Clause
// Published experiments by name. Flags given on the command line win; a method setting of a preset applies
// to the methods that have it.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <tessera/core/error.hpp>

#include "options.hpp"

namespace lab {

struct Preset {
    std::string_view name, what, data, partition, model;
    std::size_t clients, per_round, rounds, batch;
    std::array<std::pair<std::string_view, std::string_view>, 6> set;
};

// pFedBreD: alpha = alpha_m = 0.01, R = 20 batches of 20, 20 of 100 clients aggregated.
inline constexpr std::array<Preset, 2> presets{
    Preset{"pfedbred/fmnist-mclr", "pFedBreD, Table 1: Fashion-MNIST, 2 labels a client, logistic regression",
           "fashion-mnist", "lognormal:2", "mclr", 100, 20, 200, 20,
           {{{"rate", "0.01"}, {"steps", "20"}, {"lambda", "15"}, {"eta", "0.05"}, {"eta_a", "0.01"}, {"beta", "1"}}}},
    Preset{"pfedbred/fmnist-dnn", "pFedBreD, Table 1: Fashion-MNIST, 2 labels a client, 784-100-10 network",
           "fashion-mnist", "lognormal:2", "dnn", 100, 20, 200, 20,
           {{{"rate", "0.01"}, {"steps", "20"}, {"lambda", "30"}, {"eta", "0.05"}, {"eta_a", "0.01"}, {"beta", "1"}}}},
};

inline void apply_preset(Options& options) {
    if (options.preset.empty()) return;
    std::string known;
    for (const auto& p : presets) {
        if (p.name != options.preset) {
            known.append(known.empty() ? "" : ", ").append(p.name);
            continue;
        }
        const auto fill = [](auto& field, auto value) {
            if (!field) field = value;
        };
        fill(options.data, std::string(p.data));
        fill(options.partition, std::string(p.partition));
        fill(options.model, std::string(p.model));
        fill(options.clients, p.clients);
        fill(options.per_round, p.per_round);
        fill(options.rounds, p.rounds);
        fill(options.batch, p.batch);
        for (const auto& [name, value] : p.set) options.preset_set.emplace_back(name, value);
        return;
    }
    throw tessera::ConfigError("--preset " + options.preset + ": there is no such preset; known are " + known);
}

inline void apply_defaults(Options& options) {
    const auto fill = [](auto& field, auto value) {
        if (!field) field = value;
    };
    fill(options.data, std::string("fashion-mnist"));
    const bool synthetic = options.data->starts_with("synthetic");
    fill(options.partition, std::string(synthetic ? "natural" : "dirichlet:0.3"));
    fill(options.model, std::string("mclr"));
    fill(options.normalise, std::string(synthetic ? "none" : "standard"));
    fill(options.clients, std::size_t{synthetic ? 30u : 100u});
    fill(options.per_round, std::size_t{10});
    fill(options.rounds, std::size_t{100});
    fill(options.batch, std::size_t{20});
    fill(options.split_seed, options.seed);
}

}  // namespace lab
