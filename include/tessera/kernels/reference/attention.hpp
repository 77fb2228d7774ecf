// SPDX-License-Identifier: BSD-3-Clause
// The kernels of one head of attention as plain loops. Rows of q, k, v and what belongs to them lie `apart` numbers
// apart, `width` numbers long; scores and chances are [positions][positions].
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tessera::kernels {

struct Head {
    std::size_t positions = 0, width = 0, apart = 0;
    bool causal = true;  // a position reads itself and those before it

    std::size_t seen(std::size_t t) const { return causal ? t + 1 : positions; }
};

namespace reference {

// chances = softmax(q k^T / sqrt(width)), 0 where nothing is seen.
template <class R>
void attention_chances(const R* q, const R* k, R* chances, const Head& h) {
    const R scale = R(1) / std::sqrt(static_cast<R>(h.width));
    for (std::size_t t = 0; t < h.positions; ++t) {
        R *c = chances + t * h.positions, sum = 0;
        const std::size_t seen = h.seen(t);
        for (std::size_t s = 0; s < seen; ++s) {
            c[s] = 0;
            for (std::size_t j = 0; j < h.width; ++j) c[s] += q[t * h.apart + j] * k[s * h.apart + j];
            c[s] *= scale;
        }
        const R most = *std::max_element(c, c + seen);
        for (std::size_t s = 0; s < seen; ++s) sum += c[s] = std::exp(c[s] - most);
        for (std::size_t s = 0; s < h.positions; ++s) c[s] = s < seen ? c[s] / sum : R(0);
    }
}
// context = chances v, rows of it `to` apart.
template <class R>
void attention_context(const R* chances, const R* v, R* context, std::size_t to, const Head& h) {
    for (std::size_t t = 0; t < h.positions; ++t)
        for (std::size_t j = 0; j < h.width; ++j) {
            R sum = 0;
            for (std::size_t s = 0; s < h.seen(t); ++s) sum += chances[t * h.positions + s] * v[s * h.apart + j];
            context[t * to + j] = sum;
        }
}
// Slopes in q, k and v, from those in the context, whose rows lie `from` apart. Those of q, k and v lie `apart` apart.
template <class R>
void attention_back(const R* q, const R* k, const R* v, const R* chances, const R* dcontext, std::size_t from, R* dq,
                    R* dk, R* dv, const Head& h) {
    const R scale = R(1) / std::sqrt(static_cast<R>(h.width));
    for (std::size_t t = 0; t < h.positions; ++t)
        for (R* d : {dq, dk, dv}) std::fill_n(d + t * h.apart, h.width, R(0));
    const auto dot = [&](const R* a, const R* b) {
        R sum = 0;
        for (std::size_t j = 0; j < h.width; ++j) sum += a[j] * b[j];
        return sum;
    };
    for (std::size_t t = 0; t < h.positions; ++t) {
        const R *c = chances + t * h.positions, *dc = dcontext + t * from;
        R along = 0;
        for (std::size_t s = 0; s < h.seen(t); ++s) along += c[s] * dot(dc, v + s * h.apart);
        for (std::size_t s = 0; s < h.seen(t); ++s) {
            const R dscore = c[s] * (dot(dc, v + s * h.apart) - along) * scale;
            for (std::size_t j = 0; j < h.width; ++j) {
                dq[t * h.apart + j] += dscore * k[s * h.apart + j];
                dk[s * h.apart + j] += dscore * q[t * h.apart + j];
                dv[s * h.apart + j] += c[s] * dc[j];
            }
        }
    }
}

}  // namespace reference
}  // namespace tessera::kernels
