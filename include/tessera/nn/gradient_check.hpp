// SPDX-License-Identifier: BSD-3-Clause
// The law of a model, of those that conformance.hpp asks: its gradient by differences, its fused step by its gradient.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/contracts/model.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/by_name.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/random.hpp>

namespace tessera::conformance {

using Complaints = std::vector<std::string>;

namespace detail {

// The largest |a - b| / max(1, |b|); infinite when sizes differ or a number is not finite.
template <class R>
double distance(const Vec<R>& a, const Vec<R>& b) {
    if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
    double most = 0;
    for (std::size_t j = 0; j < a.size(); ++j) {
        const double there = static_cast<double>(b[j]);
        const double d = std::fabs(static_cast<double>(a[j]) - there) / std::max(1.0, std::fabs(there));
        if (!std::isfinite(d)) return std::numeric_limits<double>::infinity();
        most = std::max(most, d);
    }
    return most;
}

}  // namespace detail

// On this batch, at random parameters: 40 coordinates or more of every segment by central differences, in double to
// `tolerance` relative to max(1, |slope|), in float to 1e-2. Smaller distances are tried where a kink may be near.
template <Model M>
[[nodiscard]] Complaints check_gradients(const M& model, const Batch<real<M>>& batch, double tolerance = 1e-6) {
    using R = real<M>;
    constexpr bool narrow = std::is_same_v<R, float>;
    const double most = narrow ? std::max(tolerance, 1e-2) : tolerance;
    Complaints complaints;
    const auto complain = [&](const std::string& sentence) { complaints.push_back("model: " + sentence); };
    Stream draw(Key{21});
    Vec<R> x(dimension(model));
    for (R& v : x) v = static_cast<R>(0.5 * draw.normal());
    Vec<R> g(x.size(), R(7)), other(x.size(), R(-3)), moved = x;
    const double loss = model.gradient(x, batch, g);
    if (!std::isfinite(loss) || !all_finite(g)) return {"model: the loss or its gradient is not finite"};
    if (model.gradient(x, batch, other) != loss || other != g)
        complain("gradient must overwrite `out` and depend on its arguments only");
    const auto loss_at = [&](std::size_t j, double step) {
        moved[j] = static_cast<R>(static_cast<double>(x[j]) + step);
        const std::pair result{model.gradient(moved, batch, other), static_cast<double>(moved[j])};
        moved[j] = x[j];
        return result;
    };
    for (const Segment& segment : model.layout()) {
        if (segment.part == Part::buffer) continue;  // has a step, not a slope
        std::size_t wrong = 0, tried = 0;
        std::string first;
        const std::size_t stride = std::max<std::size_t>(1, segment.size() / 40);
        for (std::size_t j = segment.offset; j < segment.end(); j += stride, ++tried) {
            double error = std::numeric_limits<double>::infinity(), slope = 0;
            for (const double step : narrow ? std::array{1e-2, 3e-3, 1e-3} : std::array{1e-5, 6e-7, 4e-8}) {
                const auto [right, to] = loss_at(j, step);
                const auto [left, from] = loss_at(j, -step);
                slope = (right - left) / (to - from);
                error = std::min(error, std::fabs(slope - static_cast<double>(g[j])) / std::max(1.0, std::fabs(slope)));
                if (error <= most) break;
            }
            if (error <= most) continue;
            if (++wrong == 1)
                first = "coordinate " + std::to_string(j - segment.offset) + " says " +
                        tessera::detail::shortest(static_cast<double>(g[j])) + ", differences say " +
                        tessera::detail::shortest(slope);
        }
        if (wrong > 0)
            complain("the gradient of " + std::string(segment.name.view()) + " is wrong in " + std::to_string(wrong) +
                     " of " + std::to_string(tried) + " coordinates tried; " + first);
    }
    if constexpr (FusedModel<M>) {
        const Step<R> step{.rate = 0.5};
        auto fused = x, plain = x;
        if (model.fuses(step)) {
            model.fused_step(fused, batch, step);
            each_piece({}, model.layout(), plain.size(), [&](Range r, bool of_buffers) {
                for (std::size_t j = r.begin; j < r.end; ++j) plain[j] -= of_buffers ? g[j] : R(0.5) * g[j];
            });
            if (const double d = detail::distance(fused, plain); d > (narrow ? 1e-5 : 1e-12))
                complain("a fused step is not a step along the gradient: off by " + tessera::detail::shortest(d));
        }
    }
    return complaints;
}

}  // namespace tessera::conformance
