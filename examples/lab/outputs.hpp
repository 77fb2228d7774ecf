// SPDX-License-Identifier: BSD-3-Clause
// What a run leaves for people: lines on the terminal, JSON, CSV, a report.
#pragma once

#include <string>

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

void print_summary(const tessera::report::RunRecord& record);
void write_outputs(const tessera::report::RunRecord& record, const Options& options);

}  // namespace lab
