// SPDX-License-Identifier: BSD-3-Clause
// What a fuzz target and the driver that feeds it owe each other.
//
// A target defines LLVMFuzzerTestOneInput, which returns 0, aborts when its oracle is broken, and sets
// `fuzz_accepted` to whether the input was decoded; and fuzz_seeds, valid inputs to mutate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <vector>

extern bool fuzz_accepted;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
std::vector<std::vector<std::uint8_t>> fuzz_seeds();

// A refusal is a sentence on one line that begins with the name of what was read: "input: the file ends after ...".
inline void fuzz_refused(const std::exception& e, std::string_view name) {
    const std::string_view said = e.what();
    bool sound = said.starts_with(name) && said.size() > name.size() + 10;
    for (const char c : said) sound = sound && static_cast<unsigned char>(c) >= 0x20;
    if (!sound) std::abort();
}
