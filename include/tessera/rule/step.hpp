// SPDX-License-Identifier: BSD-3-Clause
// One step of a rule on a model: the only door to fused and sparse kernels.
//
//   d = clipped gradient + decay*x + prox_weight*(x - prox_center) + linear;   v = momentum*v + d;   x -= rate*v
//
// on the coordinates the terms select. A model that fuses does it in one pass; for any other the gradient
// is taken first. Clipping scales the gradient of the trainable, active group by min(1, clip/(norm + 1e-6)). Running
// statistics among them (Part::buffer) take x -= gradient, and count for no norm.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <tessera/contracts/context.hpp>
#include <tessera/kernels/vector.hpp>

namespace tessera {

namespace detail {

// f(range) for each run of neighbouring ones of the mask in r.
template <class F>
void each_run(const Mask& mask, Range r, F&& f) {
    // The first coordinate from j on whose bit in `words ^ flip` is set, or r.end.
    const auto next = [&](std::size_t j, std::uint64_t flip) {
        while (j < r.end) {
            const std::uint64_t rest = (mask.words()[j / 64] ^ flip) >> (j % 64);
            if (rest != 0) return std::min(r.end, j + static_cast<std::size_t>(std::countr_zero(rest)));
            j = (j / 64 + 1) * 64;
        }
        return r.end;
    };
    for (std::size_t begin = next(r.begin, 0); begin < r.end;) {
        const std::size_t end = next(begin, ~std::uint64_t{0});
        f(Range{begin, end});
        begin = next(end, 0);
    }
}

template <class R>
double squared_norm(In<R> g, const Terms<R>& terms, Layout layout) {
    double sum = 0;
    each_piece(terms.on, layout, g.size(), [&](Range r, bool of_buffers) {
        if (of_buffers) return;
        if (!terms.active) {
            double part = 0;
            kernels::dot(g.data() + r.begin, g.data() + r.begin, r.size(), &part);
            sum += part;
            return;
        }
        each_run(*terms.active, r, [&](Range run) {
            for (std::size_t j = run.begin; j < run.end; ++j)
                sum += static_cast<double>(g[j]) * static_cast<double>(g[j]);
        });
    });
    return sum;
}

template <class R>
void update_range(Out<R> x, In<R> g, const Step<R>& s, R scale, Range r) {
    const auto& t = s.terms;
    const kernels::detail::UpdateNumbers<R> numbers{R(s.rate), R(s.decay), R(t.prox_weight), R(s.momentum)};
    const R* prox_center = t.prox_weight != 0 ? t.prox_center.data() : nullptr;
    const R* linear = t.linear.empty() ? nullptr : t.linear.data();
    R* velocity = s.momentum != 0 ? s.velocity->data() : nullptr;
    const auto from = [&](auto* p, std::size_t j) { return p ? p + j : nullptr; };
    const auto move = [&](Range run) {
        const std::size_t j = run.begin;
        kernels::update(x.data() + j, g.data() + j, from(prox_center, j), from(linear, j), from(velocity, j),
                        run.size(), scale, numbers);
    };
    if (t.active) each_run(*t.active, r, move);
    else move(r);
}

// x -= g
template <class R>
void take_whole(Out<R> x, In<R> g, Range r) {
    for (std::size_t j = r.begin; j < r.end; ++j) x[j] -= g[j];
}

}  // namespace detail

template <class M>
double take_step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Step<real<M>>& s) {
    using R = real<M>;
    if constexpr (FusedModel<M>)
        if (at.model->fuses(s)) return at.model->fused_step(x, b, s);
    auto& g = at.workspace->gradient;
    g.resize(x.size());
    const double loss = at.gradient(x, b, g);
    const Layout layout = at.model->layout();
    R scale = 1;
    if (s.clip > 0) {
        const double norm = std::sqrt(detail::squared_norm<R>(g, s.terms, layout));
        scale = static_cast<R>(std::min(1.0, s.clip / (norm + 1e-6)));
    }
    each_piece(s.terms.on, layout, x.size(), [&](Range r, bool of_buffers) {
        if (of_buffers) detail::take_whole<R>(x, g, r);
        else detail::update_range<R>(x, g, s, scale, r);
    });
    return loss;
}

}  // namespace tessera
