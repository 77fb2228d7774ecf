// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/store/detail/log_parts.hpp>
#include <tessera/store/log_check.hpp>

#include "commands.hpp"
#include "session.hpp"

namespace lab {

namespace {

namespace fs = std::filesystem;

// A run of several seeds or stages has one in a folder of each, and one of several ranks a part a rank.
std::vector<std::string> logs_below(const std::string& run) {
    std::error_code error;
    std::vector<std::string> all;
    for (fs::recursive_directory_iterator at(run, error), end; !error && at != end; at.increment(error))
        if (at->is_directory(error) && at->path().filename() == states_folder)
            for (auto& log : tessera::store::detail::logs_below(at->path().string()))
                if (!tessera::store::detail::log_files(log).empty()) all.push_back(std::move(log));
    if (error) throw tessera::IoError(run, "cannot be listed: " + error.message());
    std::ranges::sort(all);
    return all;
}

double megabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

int check_store(const std::string& run) {
    const auto logs = logs_below(run);
    if (logs.empty())
        throw tessera::IoError(run, "there is no log below it; --store log keeps one beside its checkpoints");
    bool well = true;
    for (const auto& directory : logs) {
        const auto found = tessera::store::read_log(directory);
        std::printf("%s\n  clients     %zu\n  rounds      %llu\n  files       %zu, %.1f MB\n", directory.c_str(),
                    found.clients, static_cast<unsigned long long>(found.rounds), found.files, megabytes(found.bytes));
        std::printf("  up to date  %.1f MB\n  garbage     %.1f MB, %zu states of %zu\n", megabytes(found.alive),
                    megabytes(found.garbage), found.states - found.clients, found.states);
        if (found.torn > 0)
            std::printf(
                "  torn        %llu bytes behind the last whole round, of a run under way or one that was killed\n",
                static_cast<unsigned long long>(found.torn));
        std::printf("  states      %s\n", found.print.hex().c_str());
        for (const auto& fault : found.faults) std::printf("  damaged     %s\n", fault.c_str());
        if (found.faults.empty()) std::printf("  check       every checksum matches\n");
        well = well && found.faults.empty();
    }
    return well ? 0 : 1;
}

}  // namespace lab
