// SPDX-License-Identifier: BSD-3-Clause
// The floor, not a competitor: somebody who knows the threshold still reads the numbers, and whoever has to find it
// reads them once more. Both passes compare and write the bits.
#include <algorithm>
#include <cmath>
#include <vector>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "select/problem.hpp"

namespace {

// Found on the first call, before anything is timed.
float threshold_of(const bench::SelectTask& task) {
    static const float found = [&task] {
        std::vector<float> copy(task.size);
        for (std::size_t j = 0; j < task.size; ++j) copy[j] = std::fabs(task.x[j]);
        const auto kth = copy.begin() + static_cast<std::ptrdiff_t>(task.size - task.keep);
        std::nth_element(copy.begin(), kth, copy.end());
        return *kth;
    }();
    return found;
}

#if defined(__AVX512F__)
std::uint64_t word_of(const float* x, float threshold) {
    const __m512 t = _mm512_set1_ps(threshold);
    std::uint64_t bits = 0;
    for (int i = 0; i < 4; ++i) {
        const __m512 size = _mm512_abs_ps(_mm512_loadu_ps(x + 16 * i));
        bits |= std::uint64_t{_mm512_cmp_ps_mask(size, t, _CMP_GE_OQ)} << (16 * i);
    }
    return bits;
}
#else
std::uint64_t word_of(const float* x, float threshold) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 64; ++i) bits |= std::uint64_t{std::fabs(x[i]) >= threshold} << i;
    return bits;
}
#endif

void select(const bench::SelectTask& task, std::uint64_t* mask) {
    const float threshold = threshold_of(task);
    for (int pass = 0; pass < 2; ++pass) {
        for (std::size_t word = 0; word < task.size / 64; ++word) mask[word] = word_of(task.x + 64 * word, threshold);
        asm volatile("" : : "r"(mask) : "memory");  // else the first pass is left out
    }
}

}  // namespace

BENCH_PEER(all) { all.add("two_passes", select); }
