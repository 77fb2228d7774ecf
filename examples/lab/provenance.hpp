// SPDX-License-Identifier: BSD-3-Clause
// Where the outputs of this program come from.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lab {

// The words of the command line, once, before anything is run.
void tell_command(int argc, char** argv);

// Command, commit, compiler, processor and date. None of it decides a number.
std::vector<std::pair<std::string, std::string>> provenance();

}  // namespace lab
