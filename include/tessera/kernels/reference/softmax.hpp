// SPDX-License-Identifier: BSD-3-Clause
// The softmax and activation kernels as plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tessera::kernels::reference {

// z[b][.] <- exp(z[b][.] - top[b]) with top[b] the largest of the row, sum[b] what they add up to.
template <class R>
void softmax_rows(R* z, std::size_t batch, std::size_t classes, R* top, R* sum) {
    for (std::size_t b = 0; b < batch; ++b) {
        R* row = z + b * classes;
        top[b] = *std::max_element(row, row + classes);
        sum[b] = 0;
        for (std::size_t c = 0; c < classes; ++c) sum[b] += row[c] = std::exp(row[c] - top[b]);
    }
}

template <class R>
void leaky_relu(const R* x, R* y, std::size_t n, R slope) {
    for (std::size_t j = 0; j < n; ++j) y[j] = x[j] > 0 ? x[j] : slope != 0 ? slope * x[j] : R(0);
}
template <class R>
void leaky_relu_gradient(const R* x, const R* dy, R* dx, std::size_t n, R slope) {
    for (std::size_t j = 0; j < n; ++j) dx[j] = x[j] > 0 ? dy[j] : slope != 0 ? slope * dy[j] : R(0);
}

}  // namespace tessera::kernels::reference
