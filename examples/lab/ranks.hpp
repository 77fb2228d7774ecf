// SPDX-License-Identifier: BSD-3-Clause
// The lab on several ranks, as mpirun or srun starts it. Every rank runs the same command; rank 0 alone speaks and writes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <tessera/contracts/place.hpp>

#include "options.hpp"

namespace lab {

// Joins the ranks that were started with this one, if there are others. ConfigError where the launcher has started
// several, and this program cannot find them.
void join_ranks(int& argc, char**& argv);

std::shared_ptr<tessera::Place> ranks();  // null: alone
std::size_t rank();
bool speaks();  // rank 0, and whoever is alone

// What a rank that does not speak writes: nothing but its part of what all of them write together.
Options as_rank(Options options);

// Waits for the others, ends this rank's part in the launcher and gives the exit code. A rank that fails on its own says
// `why` and ends all.
int leave_ranks(int code, const std::string& why);

}  // namespace lab
