// SPDX-License-Identifier: BSD-3-Clause
// A run once more, from the JSON that it left.
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>
#include <tessera/kernels/dispatch.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/seeds.hpp>
#include <tessera/version.hpp>

#include "commands.hpp"
#include "page/run_reader.hpp"

namespace lab {
namespace {

using tessera::ConfigError;
using tessera::report::RunRecord;

// As a shell reads what provenance() writes: words, and words in single quotes.
std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    bool inside = false, begun = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!inside && text[i] == ' ') {
            begun = false;
            continue;
        }
        if (!std::exchange(begun, true)) words.emplace_back();
        if (text[i] == '\'') inside = !inside;
        else if (!inside && text[i] == '\\' && i + 1 < text.size()) words.back() += text[++i];
        else words.back() += text[i];
    }
    return words;
}

// Without what only says where outputs go.
std::vector<std::string> without_outputs(const std::vector<std::string>& words) {
    constexpr std::array<std::string_view, 10> named{"--json",   "--jsonl", "--csv", "--tensorboard",        "--report",
                                                    "--models", "--trace", "--checkpoint", "--checkpoint-every",
                                                    "--threads"};
    constexpr std::array<std::string_view, 4> bare{"--resume", "--quiet", "--trace-kernels", "--hits"};
    std::vector<std::string> kept;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const auto name = std::string_view(words[i]).substr(0, words[i].find('='));
        if (std::ranges::find(bare, name) != bare.end()) continue;
        if (std::ranges::find(named, name) == named.end()) kept.push_back(words[i]);
        else if (name.size() == words[i].size()) ++i;  // its value is the next word
    }
    return kept;
}

std::string command_in(const RunRecord& run) {
    for (const auto& [name, value] : run.provenance)
        if (name == "command") return value;
    return "";
}

// What was not the same when it was made, as far as it is known.
std::string circumstances(const RunRecord& then, const RunRecord& now) {
    std::string text;
    const auto differs = [&](const std::string& what, const std::string& was, const std::string& is) {
        if (was != is) text += "; " + what + " was " + was + " and is " + is;
    };
    differs("the version", then.version, now.version);
    differs("the kernel set", then.kernel_set, now.kernel_set);
    for (const auto* print : {"data_fingerprint", "split_fingerprint", "aux_fingerprint"})
        if (then.find(print) && now.find(print) && !(*then.find(print) == *now.find(print)))
            text += std::string("; the ") + print + " differs";
    return text;
}

std::vector<std::string> said_by(const std::vector<RunRecord>& runs, const std::string& path) {
    auto words = words_of(command_in(runs.at(0)));
    if (words.size() < 2) throw ConfigError(path + ": it does not say with which command it was made");
    if (words[1] != "run") throw ConfigError(path + ": it was made by `" + words[1] + "`, and a run can be made again");
    return words;
}

}  // namespace

std::vector<std::string> command_of(const std::string& path) { return said_by(runs_in(path), path); }

int reproduce(const std::string& path, bool check, const std::function<int(const std::vector<std::string>&)>& obey) {
    const auto then = runs_in(path);
    auto words = without_outputs(said_by(then, path));
    if (!check) {
        std::printf("%s\n", command_in(then[0]).c_str());
        return 0;
    }
    for (const auto& run : then)
        if (!run.stopped.empty()) throw ConfigError(path + ": that run did not come to its end; " + run.stopped);
    const std::string made =
        (std::filesystem::temp_directory_path() / ("tessera-reproduce-" + std::to_string(::getpid()) + ".json"))
            .string();
    words.insert(words.end(), {"--quiet", "--json", made});
    if (const int code = obey(words); code != 0) return code;
    const auto now = runs_in(made);
    ::unlink(made.c_str());
    if (then.size() != now.size()) throw tessera::Error(path + ": another number of runs came out");
    for (std::size_t i = 0; i < then.size(); ++i) {
        if (then[i].state_hash != now[i].state_hash)
            throw tessera::Error(path + ": another state came out, " + now[i].state_hash + " and not " +
                                 then[i].state_hash + circumstances(then[i], now[i]));
        std::printf("seed %llu: the same state, %s\n",
                    static_cast<unsigned long long>(tessera::report::seed_of(then[i])), now[i].state_hash.c_str());
    }
    return 0;
}

}  // namespace lab
