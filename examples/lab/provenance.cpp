// SPDX-License-Identifier: BSD-3-Clause
#include "provenance.hpp"

#include <array>
#include <ctime>
#include <fstream>
#include <string_view>

#include "commit.hpp"  // written by the build

namespace lab {
namespace {

std::string& command() {
    static std::string words;
    return words;
}

// As a shell takes it.
std::string quoted(const std::string& word) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%";
    if (!word.empty() && word.find_first_not_of(plain) == word.npos) return word;
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string compiler() {
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "g++ " __VERSION__;
#else
    return "";
#endif
}

std::string processor() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name") && line.find(": ") != line.npos) return line.substr(line.find(": ") + 2);
    return "";
}

std::string now() {
    const std::time_t time = std::time(nullptr);
    std::tm utc{};
    std::array<char, 32> text{};
    if (!gmtime_r(&time, &utc)) return "";
    return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace

void tell_command(int argc, char** argv) {
    command() = "tessera-lab";
    for (int i = 1; i < argc; ++i) command() += " " + quoted(argv[i]);
}

std::vector<std::pair<std::string, std::string>> provenance() {
    std::vector<std::pair<std::string, std::string>> all{{"command", command()},
                                                         {"commit", TESSERA_COMMIT},
                                                         {"compiler", compiler()},
                                                         {"processor", processor()},
                                                         {"date", now()}};
    std::erase_if(all, [](const auto& told) { return told.second.empty(); });
    return all;
}

}  // namespace lab
