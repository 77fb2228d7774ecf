// SPDX-License-Identifier: BSD-3-Clause
// Every method the lab knows, by name. A new one is a line in `catalogue()` (and a file that instantiates it).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

namespace lab {

struct Entry {
    std::string name, what;
    std::vector<std::pair<std::string, std::string>> settings;  // and their defaults
    std::function<int(const Options&)> run;
};

const std::vector<Entry>& catalogue();

}  // namespace lab
