// SPDX-License-Identifier: BSD-3-Clause
// Where the logs of several ranks lie: beside each other below the directory of the run.
//
//   states-00000001.log ...                            of one process
//   from-00000000-on-3/rank-1/states-00000001.log ...  of rank 1 of 3, from the beginning of the run
//   from-00000013-on-2/rank-0/states-00000001.log ...  of rank 0 of 2 that went on from a checkpoint after 12 rounds
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <tessera/contracts/store.hpp>
#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>
#include <tessera/store/detail/log_format.hpp>

namespace tessera::store::detail {

inline std::string folder_of(const StorePart& part) {  // empty: the directory itself
    if (part.began == 0 && part.ranks == 1) return {};
    char text[64];
    std::snprintf(text, sizeof text, "from-%08llu-on-%llu", static_cast<unsigned long long>(part.began),
                  static_cast<unsigned long long>(part.ranks));
    return text;
}
inline std::string path_of_part(const std::string& directory, const StorePart& part) {
    const auto folder = folder_of(part);
    return folder.empty() ? directory : directory + "/" + folder + "/rank-" + std::to_string(part.rank);
}

// All logs below the directory, itself among them, as paths.
inline std::vector<std::string> logs_below(const std::string& directory) {
    std::vector<std::string> all{directory};
    for (const auto& folder : io::list_directories(directory))
        if (folder.starts_with("from-"))
            for (const auto& rank : io::list_directories(directory + "/" + folder))
                all.push_back(directory + "/" + folder + "/" + rank);
    return all;
}
inline std::vector<std::string> log_files(const std::string& directory) {
    std::vector<std::string> all;
    for (const auto& name : io::list_files(directory))
        if (number_in(name) > 0) all.push_back(directory + "/" + name);
    return all;
}

inline bool is_of(const std::string& log, const std::string& directory, const StorePart& part) {
    const auto folder = folder_of(part);
    return folder.empty() ? log == directory : log.starts_with(directory + "/" + folder + "/");
}
// Of others than the ranks that share this one's states.
inline bool other_logs_hold_states(const std::string& directory, const StorePart& ours) {
    return std::ranges::any_of(logs_below(directory), [&](const std::string& log) {
        return !is_of(log, directory, ours) && !log_files(log).empty();
    });
}

// Removes all logs but those of `needed`. One that is in use stays, and so does what cannot be removed.
inline void let_go_of_logs(const std::string& directory, std::span<const StorePart> needed) {
    std::vector<std::string> all;
    try {
        all = logs_below(directory);
    } catch (const IoError&) {  // nothing can be removed, then
    }
    for (const auto& log : all) {
        if (std::ranges::any_of(needed, [&](const StorePart& part) { return is_of(log, directory, part); })) continue;
        try {
            const io::DirectoryLock held(log);
            for (const auto& file : log_files(log)) ::unlink(file.c_str());
        } catch (const IoError&) {
            continue;
        }
        if (log == directory) continue;
        ::unlink((log + "/.tessera-lock").c_str());
        ::rmdir(log.c_str());
        ::rmdir(log.substr(0, log.rfind('/')).c_str());  // if it was the last of its folder
    }
}

}  // namespace tessera::store::detail
