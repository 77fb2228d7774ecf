// SPDX-License-Identifier: BSD-3-Clause
// What run and sweep share: options made whole, and a run for each seed.
#pragma once

#include <exception>
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

// The runs of all seeds, up to the one that was stopped.
struct Runs {
    std::vector<tessera::report::RunRecord> all{};
    std::exception_ptr stopped{};
};
// All on the same task. Every stage is opened once before the first begins, so that a mistake in the last is known at
// once.
Runs run_seeds(const Options& options, const Task& task, FailedOutputs& failed);

// Tells of the runs on the terminal and writes the files that hold all of them. Of runs that were stopped it writes
// what there is, and throws what stopped them.
void tell(const Runs& runs, const Options& options, FailedOutputs& failed);

// Throws where every visit of a run's last stage diverged: its numbers are those of the model the stage began with.
void check_learnt(const std::vector<tessera::report::RunRecord>& runs);

}  // namespace lab
