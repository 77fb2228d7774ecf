// SPDX-License-Identifier: BSD-3-Clause
// What a fuzz target and the driver that feeds it owe each other.
//
// A target defines LLVMFuzzerTestOneInput, which returns 0, aborts when its oracle is broken, and sets
// `fuzz_accepted` to whether the input was decoded; and fuzz_seeds, valid inputs to mutate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

extern bool fuzz_accepted;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
std::vector<std::vector<std::uint8_t>> fuzz_seeds();
