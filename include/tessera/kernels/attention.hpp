// SPDX-License-Identifier: BSD-3-Clause
// One head of attention in both directions: what reference/attention.hpp says, by products over panels and a softmax
// that passes each row while it lies in L1. What is not seen has the chance 0, so it adds nothing to any sum: the bits
// of a position do not depend on what stands at those it does not see. In double it is the plain loops.
#pragma once

#include <cmath>
#include <cstddef>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/exponential.hpp>
#include <tessera/kernels/norm.hpp>
#include <tessera/kernels/panels.hpp>
#include <tessera/kernels/reference/attention.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera::kernels {
namespace detail {

// Rows of scores become softmax(scale * scores) over what is seen.
template <class, std::size_t Bytes>
TESSERA_INLINE void seen_softmax_body(float* scores, float scale, const Head& h) {
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    using Vec = V<float, Bytes>;
    for (std::size_t t = 0; t < h.positions; ++t) {
        float* row = scores + t * h.positions;
        const std::size_t seen = h.seen(t), whole = seen - seen % lanes;
        float most = row[0], total = 0;
        for (std::size_t s = 1; s < seen; ++s) most = row[s] > most ? row[s] : most;
        Held<float, Bytes> sum{};
        for (std::size_t s = 0; s < whole; s += lanes) {
            Vec& at = *reinterpret_cast<Vec*>(row + s);
            Held<float, Bytes> e = (at - most) * scale;
            exponential<Bytes>(e);
            at = e;
            sum += e;
        }
        if (whole < seen) {
            float rest[lanes] = {};
            for (std::size_t s = whole; s < seen; ++s) rest[s - whole] = (row[s] - most) * scale;
            exponential<Bytes>(rest);
            for (std::size_t s = whole; s < seen; ++s) total += row[s] = rest[s - whole];
        }
        total += sum_of_lanes<float, Bytes>(sum);
        const float part = 1.0f / total;
        for (std::size_t s = 0; s < whole; s += lanes) *reinterpret_cast<Vec*>(row + s) *= part;
        for (std::size_t s = whole; s < seen; ++s) row[s] *= part;
        for (std::size_t s = seen; s < h.positions; ++s) row[s] = 0;
    }
}
// Slopes in the chances become those in the scores: scale * chances * (slopes - sum of chances * slopes).
template <class, std::size_t Bytes>
TESSERA_INLINE void seen_softmax_gradient_body(const float* chances, float* slopes, float scale, const Head& h) {
    constexpr std::size_t lanes = VectorOf<float, Bytes>::lanes;
    using Vec = V<float, Bytes>;
    for (std::size_t t = 0; t < h.positions; ++t) {
        const float* c = chances + t * h.positions;
        float *d = slopes + t * h.positions, total = 0;
        const std::size_t seen = h.seen(t), whole = seen - seen % lanes;
        Held<float, Bytes> sum{};
        for (std::size_t s = 0; s < whole; s += lanes)
            sum += *reinterpret_cast<const Vec*>(c + s) * *reinterpret_cast<const Vec*>(d + s);
        for (std::size_t s = whole; s < seen; ++s) total += c[s] * d[s];
        total += sum_of_lanes<float, Bytes>(sum);
        for (std::size_t s = 0; s < whole; s += lanes) {
            Vec& at = *reinterpret_cast<Vec*>(d + s);
            at = *reinterpret_cast<const Vec*>(c + s) * (at - total) * scale;
        }
        for (std::size_t s = whole; s < seen; ++s) d[s] = c[s] * (d[s] - total) * scale;
        for (std::size_t s = seen; s < h.positions; ++s) d[s] = 0;
    }
}

}  // namespace detail

TESSERA_DISPATCH(seen_softmax, float, (float* scores, float scale, const Head& h), (scores, scale, h))
TESSERA_DISPATCH(seen_softmax_gradient, float, (const float* chances, float* slopes, float scale, const Head& h),
                 (chances, slopes, scale, h))

namespace detail {
// f(first, rows, seen) for blocks of positions, of which none sees more than the first `seen`: half of a causal product
// is not there.
template <class F>
void by_seen(const Head& h, const F& f) {
    constexpr std::size_t block = 32;
    if (!h.causal || h.positions < 2 * block) return f(std::size_t{0}, h.positions, h.positions);
    for (std::size_t t = 0; t < h.positions; t += block) {
        const std::size_t rows = h.positions - t < block ? h.positions - t : block;
        f(t, rows, t + rows);
    }
}
}  // namespace detail

// What is not seen is not written, and not read.
inline void seen_products(const float* a, std::size_t am, const float* b, float* c, const Head& h) {
    const Scratch<float> room(h.width * ((h.positions + widest_panel - 1) / widest_panel * widest_panel));
    pack_panels({.b = b, .bk = 1, .bj = h.apart}, h.width, h.positions, room.data());
    detail::by_seen(h, [&](std::size_t t, std::size_t rows, std::size_t seen) {
        panel_products(a + t * am, am, {}, room.data(), nullptr, c + t * h.positions, h.positions, rows, h.width, seen);
    });
}
inline void seen_sums(const float* chances, const float* b, float* c, std::size_t cm, const Head& h) {
    const Scratch<float> room(h.positions * widest_panel);
    detail::by_seen(h, [&](std::size_t t, std::size_t rows, std::size_t seen) {
        panel_products(chances + t * h.positions, h.positions, {.b = b, .bk = h.apart}, room.data(), nullptr,
                       c + t * cm, cm, rows, seen, h.width);
    });
}

inline void attention_chances(const float* q, const float* k, float* chances, const Head& h) {
    seen_products(q, h.apart, k, chances, h);
    seen_softmax(chances, 1 / std::sqrt(static_cast<float>(h.width)), h);
}
inline void attention_context(const float* chances, const float* v, float* context, std::size_t to, const Head& h) {
    seen_sums(chances, v, context, to, h);
}
inline void attention_back(const float* q, const float* k, const float* v, const float* chances, const float* dcontext,
                           std::size_t from, float* dq, float* dk, float* dv, const Head& h) {
    const std::size_t n = h.positions;
    const Scratch<float> slopes(n * n);
    panel_outer_products(chances, n, {.b = dcontext, .bk = from}, dv, h.apart, n, n, h.width);
    seen_products(dcontext, from, v, slopes.data(), h);
    seen_softmax_gradient(chances, slopes.data(), 1 / std::sqrt(static_cast<float>(h.width)), h);
    seen_sums(slopes.data(), k, dq, h.apart, h);
    panel_outer_products(slopes.data(), n, {.b = q, .bk = h.apart}, dk, h.apart, n, n, h.width);
}

inline void attention_chances(const double* q, const double* k, double* chances, const Head& h) {
    reference::attention_chances(q, k, chances, h);
}
inline void attention_context(const double* chances, const double* v, double* context, std::size_t to, const Head& h) {
    reference::attention_context(chances, v, context, to, h);
}
inline void attention_back(const double* q, const double* k, const double* v, const double* chances,
                           const double* dcontext, std::size_t from, double* dq, double* dk, double* dv,
                           const Head& h) {
    reference::attention_back(q, k, v, chances, dcontext, from, dq, dk, dv, h);
}

}  // namespace tessera::kernels
