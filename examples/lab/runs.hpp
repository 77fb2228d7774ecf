// SPDX-License-Identifier: BSD-3-Clause
// What run and sweep share: options made whole, and a run for each seed.
#pragma once

#include <string>
#include <vector>

#include <tessera/report/record.hpp>

#include "options.hpp"
#include "outputs.hpp"
#include "session.hpp"

namespace lab {

// Fills what the command line left open and refuses what can be known to be wrong; what a preset said, in words.
std::vector<std::string> complete(Options& options);

// Refuses places where another run has left checkpoints, unless it is to go on; whether there is one to go on from.
bool check_checkpoints(const Options& options);

// The same run for one of the seeds: its own checkpoints, and its own files where a file holds one run.
Options for_seed(const Options& options, std::uint64_t seed);

// All on the same task. Every stage is opened once before the first begins, so that a mistake in the last is known at
// once.
std::vector<tessera::report::RunRecord> run_seeds(const Options& options, const Task& task, FailedOutputs& failed);

// Throws where every visit of a run's last stage diverged: its numbers are those of the model the stage began with.
void check_learnt(const std::vector<tessera::report::RunRecord>& runs);

}  // namespace lab
