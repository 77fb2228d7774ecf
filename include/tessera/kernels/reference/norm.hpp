// SPDX-License-Identifier: BSD-3-Clause
// Normalisation as plain loops: the specification, and the oracle of the kernel test. Shape is kernels/norm.hpp's.
#pragma once

#include <cmath>
#include <cstddef>

namespace tessera::kernels::reference {

// f(number, its pair) for the numbers of group i
template <class Shape, class F>
void each_of_group(const Shape& s, std::size_t i, const F& f) {
    const std::size_t begin = i / s.groups * s.outer + i % s.groups * s.inner;
    for (std::size_t r = 0; r < s.rows; ++r)
        for (std::size_t j = 0; j < s.size; ++j)
            f(begin + r * s.apart + j, i % s.groups * s.pairs + r * s.pair_step + (s.each ? j : 0));
}

template <class R, class Shape>
void norm(const R* x, const R* scale, const R* shift, R* y, R* saved, const Shape& s, R eps, bool relu, bool known) {
    for (std::size_t i = 0; i < s.count; ++i) {
        if (!known) {
            R sum = 0, squares = 0;
            each_of_group(s, i, [&](std::size_t j, std::size_t) { sum += x[j]; });
            const R mean = sum / R(s.rows * s.size);
            each_of_group(s, i, [&](std::size_t j, std::size_t) { squares += (x[j] - mean) * (x[j] - mean); });
            saved[2 * i] = mean;
            saved[2 * i + 1] = R(1) / std::sqrt(squares / R(s.rows * s.size) + eps);
        }
        each_of_group(s, i, [&](std::size_t j, std::size_t c) {
            y[j] = scale[c] * ((x[j] - saved[2 * i]) * saved[2 * i + 1]) + shift[c];
            if (relu && !(y[j] > 0)) y[j] = 0;
        });
    }
}
// Adds to dscale and dshift.
template <class R, class Shape>
void norm_gradient(const R* x, const R* dy, const R* scale, const R* shift, const R* saved, R* dx, R* dscale, R* dshift,
                   const Shape& s, bool relu, bool known) {
    for (std::size_t i = 0; i < s.count; ++i) {
        const R mean = saved[2 * i], inverse = saved[2 * i + 1], n = R(s.rows * s.size);
        const auto each = [&](const auto& f) {
            each_of_group(s, i, [&](std::size_t j, std::size_t c) {
                const R h = (x[j] - mean) * inverse;
                f(j, c, h, relu && !(scale[c] * h + shift[c] > 0) ? R(0) : dy[j]);
            });
        };
        R sum = 0, along = 0;
        each([&](std::size_t, std::size_t c, R h, R d) {
            dscale[c] += d * h;
            dshift[c] += d;
            sum += d * scale[c];
            along += d * scale[c] * h;
        });
        each([&](std::size_t j, std::size_t c, R h, R d) {
            dx[j] = inverse * (d * scale[c] - (known ? R(0) : sum / n + h * along / n));
        });
    }
}

}  // namespace tessera::kernels::reference
