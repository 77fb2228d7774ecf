// SPDX-License-Identifier: BSD-3-Clause
// The lab's commands. Each returns the exit code, or throws what main turns into one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "options.hpp"

namespace lab {

struct SweepOptions {
    std::vector<std::string> grid;  // NAME=VALUE,VALUE,...
    std::string select = "validation";
};

struct CompareOptions {
    std::vector<std::string> files;
    std::string report, json, model = "served";
    std::string baseline;  // what gains are held against; empty: Local, else the first
    double confidence = 0.95;
    bool unpaired = false;
};

struct ReportOptions {
    std::string file, figures;
    std::string out, title;  // empty: beside the file, with its name; as the settings say
};

struct GenerateOptions {
    std::string run, client, prompt;
    std::size_t tokens = 200;
    std::uint64_t seed = 1;
    double temperature = 0.7;
};

int list(bool as_json, const std::string& name);  // of one algorithm or preset all it sets
int list_presets(const std::string& name, bool as_text = false);  // no name: all; as text: its file
int run(Options options);
int sweep(Options options, const SweepOptions& sweep);
int compare(const CompareOptions& options);
// The page of a run that stands in a file, whoever wrote it.
int report(const ReportOptions& options);
// Text from the models that the run of these options keeps in its checkpoints.
int generate(Options options, const GenerateOptions& asked);
// The words of the command that made a run, by its JSON.
std::vector<std::string> command_of(const std::string& path);
int check_store(const std::string& run);  // the logs below a run's directory of checkpoints; 1 if one is damaged
// Tells the command of a run's JSON; or, to check it, has it obeyed again and holds the states against each other.
int reproduce(const std::string& path, bool check, const std::function<int(const std::vector<std::string>&)>& obey);
// Tells the rounds of a file that grows, as they come, or those that are there.
int watch(const std::string& path, bool once);

}  // namespace lab
