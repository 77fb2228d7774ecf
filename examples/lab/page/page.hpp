// SPDX-License-Identifier: BSD-3-Clause
// One or many runs as one HTML page: no network request, light, dark and print, readable without script.
//
// Runs are laid over each other where that makes sense (curves, gains, costs) and set side by side elsewhere. A figure
// whose data a run does not have says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>

namespace lab::page {

// `across` are figures that compare the runs; those of one run are in its record.
std::string to_html(const std::vector<tessera::report::RunRecord>& runs, std::string_view title,
                    const std::vector<tessera::report::Extra>& across = {});

// The page of one method: its run, or its runs over seeds with how clients vary over these. Without a title it is called as its settings say.
std::string page_of(const std::vector<tessera::report::RunRecord>& runs, std::string title = {},
                    std::vector<tessera::report::Extra> across = {});

}  // namespace lab::page
