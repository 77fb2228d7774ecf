// SPDX-License-Identifier: BSD-3-Clause
#include "outputs.hpp"

#include <cstdio>
#include <span>

#include <tessera/io/file.hpp>
#include <tessera/report/csv.hpp>
#include <tessera/report/html.hpp>
#include <tessera/report/json.hpp>

namespace lab {

void print_summary(const tessera::report::RunRecord& record) {
    using namespace tessera::report;
    for (const auto& e : record.final_evaluations)
        if (e.metric == Metric::accuracy && e.split == SplitOf::test)
            std::printf("%6.2f %%  %s\n", 100 * e.value.get(), in_words(e).c_str());
    for (const auto& note : record.notes) std::printf("%s\n", note.c_str());
    std::printf("state %s, kernels %s\n", record.state_hash.c_str(), record.kernel_set.c_str());
}

void write_outputs(const tessera::report::RunRecord& record, const Options& options) {
    using namespace tessera::report;
    const auto write = [](const std::string& path, const std::string& text) {
        writing([&] { tessera::io::write_file_atomically(path, std::as_bytes(std::span(text))); });
    };
    if (!options.json.empty()) write(options.json, to_json(record));
    if (!options.csv.empty()) write(options.csv, rounds_csv(record));
    const auto& what = options.stages.empty() ? options.algorithm : options.stages;
    if (!options.report.empty()) write(options.report, to_html({record}, "Tessera: " + what));
}

}  // namespace lab
