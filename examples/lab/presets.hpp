// SPDX-License-Identifier: BSD-3-Clause
// Published experiments by name. Flags given on the command line win.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options.hpp"

namespace lab {

struct Preset {
    std::string_view name, what, data, partition, model;
    std::size_t clients, per_round, rounds, batch;
    std::string_view before;  // stages that come first
    std::vector<Offer> set;
    std::string_view aux{};  // public data of the server
};

// A tail of a preset's name: "pfedbred/fmnist-dnn+am".
struct PresetVariant {
    std::string_view name, what;
    std::vector<Offer> set;
};

const std::vector<Preset>& presets();
const std::vector<PresetVariant>& preset_variants();

// What a preset says, piece by piece: "clients=100", "lambda=15 (pfedme, pfedbred-)". What the options hold already
// wins, and is marked so.
std::vector<std::string> in_words(const Preset& preset, const Options& given = {});

// Of a name with its variants: what it says, and a hash of that. A changed default changes the hash.
std::vector<std::string> preset_in_words(const std::string& name);
std::string preset_hash(const std::string& name);

// Fills what the command line left open and returns what was said, in words.
std::vector<std::string> apply_preset(Options& options);
void apply_defaults(Options& options);

}  // namespace lab
