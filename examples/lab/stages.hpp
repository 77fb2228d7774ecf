// SPDX-License-Identifier: BSD-3-Clause
// A run as a list of stages, each starting from the model the one before left.
//
//   fedavg rounds=50 rate=0.1; fedalt rounds=50 rate=0.01; tune tune_epochs=5
//
// A stage is an algorithm and NAME=VALUE: rounds, per_round, batch, trains, scope, or a setting of the algorithm. What
// it does not say comes from the flags and presets; its own word wins over theirs. `tune` trains nothing: the stage
// before it is evaluated once more, served like this.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <tessera/report/record.hpp>

#include "options.hpp"
#include "outputs.hpp"
#include "session.hpp"

namespace lab {

// Everything that can be known to be wrong without the data is.
std::vector<Stage> stages_of(const Options& options);

// Of the stages that flags and settings are for.
std::vector<std::string> algorithms_of(const Options& options);

// The names the user sets that no stage reads, since its server optimizer passes over them.
std::vector<std::string> unread_settings(const Options& options);

// Whether a stage trains with noise for single examples.
bool hides_examples(const Options& options);

// A sentence where the split of a stage leaves nothing shared or nothing personal of the model; else empty.
std::string what_split_leaves(const Stage& stage, const Task& task);

// A sentence where a round will take more than ten times the gradients of one of FedAvg's on the same clients; else empty.
std::string what_it_costs(const Stage& stage, const Task& task);

// Each once, without a round; throws what opening throws. In words, all that decides their numbers.
std::string open_stages(const std::vector<Stage>& stages, const Task& task);

// The last of them that has a checkpoint, as that has it; nothing is trained.
std::unique_ptr<Session> restored(const std::vector<Stage>& stages, const Task& task);

// What came of them, and what stopped them, if something did after a round had begun.
struct Ran {
    tessera::report::RunRecord record;
    std::exception_ptr stopped{};
};

// Runs them and puts their records together.
Ran run_stages(const std::vector<Stage>& stages, const Task& task, RoundFiles& files, FailedOutputs& failed);

// centralised has one client, which trains in every round: throws where somebody chooses others.
void refuse_choice_of_clients(const std::string& algorithm, const std::string& flag);

// Puts a NAME=VALUE into the options: rounds, per_round, batch, trains, scope, or a setting of the algorithm. `where`
// begins the sentence that is thrown.
void put_setting(const std::string& where, const std::string& name, const std::string& value, Options& options);

NamedValues named_values(const std::string& flag, const std::vector<std::string>& texts);
// Throws where a name stands twice.
NamedValues each_once(const std::string& flag, const std::vector<std::string>& texts);

}  // namespace lab
