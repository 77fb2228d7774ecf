// SPDX-License-Identifier: BSD-3-Clause
// std::nth_element on a copy of the magnitudes, then a pass that compares with the threshold it found.
#include <algorithm>
#include <cmath>
#include <vector>

#include "select/problem.hpp"

namespace {

void compare(const bench::SelectTask& task, float threshold, std::uint64_t* mask) {
    for (std::size_t word = 0; word < task.size / 64; ++word) {
        std::uint64_t bits = 0;
        for (std::size_t i = 0; i < 64; ++i) bits |= std::uint64_t{std::fabs(task.x[64 * word + i]) >= threshold} << i;
        mask[word] = bits;
    }
}

void select(const bench::SelectTask& task, std::uint64_t* mask) {
    static std::vector<float> copy;
    copy.resize(task.size);
    for (std::size_t j = 0; j < task.size; ++j) copy[j] = std::fabs(task.x[j]);
    const auto kth = copy.begin() + static_cast<std::ptrdiff_t>(task.size - task.keep);
    std::nth_element(copy.begin(), kth, copy.end());
    compare(task, *kth, mask);
}

}  // namespace

BENCH_PEER(all) { all.add("nth_element", select); }
