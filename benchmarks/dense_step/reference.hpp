// SPDX-License-Identifier: BSD-3-Clause
// The definition of the step, in double and in plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "dense_step/problem.hpp"

namespace bench {

inline void reference_step(const StepTask& t, std::vector<double>& w, std::size_t batch) {
    const std::size_t I = t.inputs, H = t.hidden, C = t.classes, B = t.batch, last = H ? H : I;
    const float* x = t.rows + batch * B * I;
    const std::int32_t* labels = t.labels + batch * B;
    double* w1 = w.data();
    double* b1 = w1 + H * I;
    double* w2 = H ? b1 + H : w1;
    double* b2 = w2 + C * last;
    std::vector<double> pre(B * H), act(B * last), dz(B * C), back(B * H);
    for (std::size_t b = 0; b < B; ++b) {
        for (std::size_t h = 0; h < H; ++h) {
            double sum = b1[h];
            for (std::size_t i = 0; i < I; ++i) sum += w1[h * I + i] * static_cast<double>(x[b * I + i]);
            pre[b * H + h] = sum;
            act[b * H + h] = sum > 0 ? sum : static_cast<double>(leak) * sum;
        }
        if (H == 0) std::copy_n(x + b * I, I, act.begin() + static_cast<std::ptrdiff_t>(b * I));
        double* z = dz.data() + b * C;
        for (std::size_t c = 0; c < C; ++c) {
            z[c] = b2[c];
            for (std::size_t h = 0; h < last; ++h) z[c] += w2[c * last + h] * act[b * last + h];
        }
        const double top = *std::max_element(z, z + C);
        double total = 0;
        for (std::size_t c = 0; c < C; ++c) total += z[c] = std::exp(z[c] - top);
        for (std::size_t c = 0; c < C; ++c)
            z[c] = (z[c] / total - (static_cast<std::size_t>(labels[b]) == c)) / static_cast<double>(B);
        for (std::size_t h = 0; h < H; ++h) {
            double sum = 0;
            for (std::size_t c = 0; c < C; ++c) sum += z[c] * w2[c * H + h];
            back[b * H + h] = sum * (pre[b * H + h] > 0 ? 1 : static_cast<double>(leak));
        }
    }
    const double rate = static_cast<double>(t.rate);
    for (std::size_t b = 0; b < B; ++b) {
        for (std::size_t c = 0; c < C; ++c) {
            b2[c] -= rate * dz[b * C + c];
            for (std::size_t h = 0; h < last; ++h) w2[c * last + h] -= rate * dz[b * C + c] * act[b * last + h];
        }
        for (std::size_t h = 0; h < H; ++h) {
            b1[h] -= rate * back[b * H + h];
            for (std::size_t i = 0; i < I; ++i)
                w1[h * I + i] -= rate * back[b * H + h] * static_cast<double>(x[b * I + i]);
        }
    }
}

}  // namespace bench
