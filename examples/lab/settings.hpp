// SPDX-License-Identifier: BSD-3-Clause
// The settings of a method, whichever it is: from the command line into it, and out of it into the report.
#pragma once

#include <string>
#include <vector>

#include <tessera/core/by_name.hpp>

#include "options.hpp"
#include "session.hpp"

namespace lab {

using MethodSettings = std::vector<tessera::detail::PlacedSetting>;

// `flag` is named in the sentence that is thrown where the method has no such setting or cannot take the value.
void set_all(const MethodSettings& of_method, const std::string& algorithm, const std::string& flag,
             const NamedValues& settings);
// What the presets offer this algorithm and what the user asks for. The more qualified name wins, whoever gives it; of
// equally qualified ones the user's.
void set_all(const MethodSettings& of_method, const Options& options);
// What presets and user ask for a setting, called by its full name; empty: nothing.
std::string asked_for(const std::string& setting, const Options& options);

// What a setting of another library's name is called here: rate for lr; empty where it is no such name.
std::string usual_name(const std::string& name);

Configuration in_report(const MethodSettings& of_method);

}  // namespace lab
