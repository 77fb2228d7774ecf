// SPDX-License-Identifier: BSD-3-Clause
// What a setting of a method means, for `list NAME`.
#pragma once

#include <string>

#include "methods.hpp"

namespace lab {

// One sentence without its end; empty where nobody wrote one, which a test forbids.
std::string meaning_of(const std::string& algorithm, const std::string& setting);

// What it takes, as the method itself says when it is asked for what it cannot: "one of mean, momentum", "in [0, 1)".
std::string range_of(const Entry& entry, const std::string& setting);

}  // namespace lab
