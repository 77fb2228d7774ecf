// SPDX-License-Identifier: BSD-3-Clause
// Copies between rows and blocks as plain loops: the specification, and the oracle of the kernel test. The next block
// has width(examples left) of them; a kernel set has widths of its own.
#pragma once

#include <cstddef>

namespace tessera::kernels::reference {

// f(example, number), in the order in which blocks hold them
template <class Width, class F>
void each_of_blocks(std::size_t numbers, std::size_t examples, const Width& width, const F& f) {
    for (std::size_t begin = 0, wide = 0; begin < examples; begin += wide) {
        wide = width(examples - begin);
        for (std::size_t j = 0; j < numbers; ++j)
            for (std::size_t e = begin; e < begin + wide; ++e) f(e, j);
    }
}

// Padding is 0.
template <class R, class Width>
void to_blocks(const R* const* rows, R* blocks, std::size_t batch, std::size_t numbers, std::size_t examples,
               const Width& width) {
    each_of_blocks(numbers, examples, width, [&](std::size_t e, std::size_t j) {
        *blocks++ = e < batch ? rows[e][j] : R(0);
    });
}
template <class R, class Width>
void from_blocks(const R* blocks, R* rows, std::size_t batch, std::size_t numbers, std::size_t examples,
                 const Width& width) {
    each_of_blocks(numbers, examples, width, [&](std::size_t e, std::size_t j) {
        const R here = *blocks++;
        if (e < batch) rows[e * numbers + j] = here;
    });
}
// sums[j] = sum over the examples of number j
template <class R, class Width>
void block_sums(const R* blocks, R* sums, std::size_t numbers, std::size_t examples, const Width& width) {
    for (std::size_t j = 0; j < numbers; ++j) sums[j] = 0;
    each_of_blocks(numbers, examples, width, [&](std::size_t, std::size_t j) { sums[j] += *blocks++; });
}

}  // namespace tessera::kernels::reference
