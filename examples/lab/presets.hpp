// SPDX-License-Identifier: BSD-3-Clause
// Published experiments by name, and a user's own by file. Flags given on the command line win.
//
// A preset is a text file: KEY = VALUE for flags of `run`, then [set] with settings of methods. The files of presets/
// are compiled in; a folder of files wins over them: $TESSERA_PRESETS, or presets or ../share/tessera/presets beside
// the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options.hpp"

namespace lab {

struct PresetFile {
    std::string name;  // "pfedbred/fmnist-dnn"; of a variant "variants/am"; of a user's file its path
    std::string path;  // empty: compiled in
    std::string text;
    std::string called() const { return path.empty() ? "preset " + name : path; }
};

struct Preset {
    PresetFile file;
    std::string what, before;  // a line about it; stages that come first
    NamedValues flags;         // by the names of flags
    std::vector<Offer> set;
};

// Throws ConfigError with the file and the line of the first thing that is wrong.
Preset read_preset(PresetFile file);

const std::vector<PresetFile>& built_in_presets();  // written by the build, from presets/

std::vector<Preset> presets();
std::vector<Preset> preset_variants();  // tails of a preset's name: "+am"
std::string variant_name(const Preset& variant);

// What a preset with its variants says, piece by piece: "clients=100", "lambda=15 (pfedme, pfedbred-)".
struct PresetInWords {
    std::vector<std::string> pieces;
    std::string hash;  // of the pieces: a changed setting changes it, a changed comment does not
    std::string path;  // empty: compiled in
    std::string text;  // of the file, without variants
};
PresetInWords preset_in_words(const std::string& name);

// Fills what the command line left open and returns what was said. What the options hold already wins, and is marked.
std::vector<std::string> apply_preset(Options& options);
void apply_defaults(Options& options);

}  // namespace lab
