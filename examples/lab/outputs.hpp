// SPDX-License-Identifier: BSD-3-Clause
// What a run leaves for people: lines on the terminal, JSON, CSV, a report.
#pragma once

#include <string>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/report/record.hpp>

#include "options.hpp"

namespace lab {

// Writing a result failed after the run began; what was there before is still there.
struct OutputError : tessera::Error {
    using tessera::Error::Error;
};

// Runs f, which writes a file.
template <class F>
void writing(F&& f) {
    try {
        f();
    } catch (const tessera::IoError& e) {
        throw OutputError(std::string("could not write ") + e.what());
    }
}

void write_text(const std::string& path, const std::string& text);

// Throws unless every file that is asked for could be written.
void check_outputs(const Options& options);
// Files that hold one run.
void write_run(const tessera::report::RunRecord& record, const Options& options);
// Files that hold the runs of all seeds.
void write_together(const std::vector<tessera::report::RunRecord>& runs, const Options& options);
void print_summary(const std::vector<tessera::report::RunRecord>& runs);

}  // namespace lab
