// SPDX-License-Identifier: BSD-3-Clause
// A divergence at work: one client with f(x) = a/2 |x - c|^2 in two parameters, under pFedBreD.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <tessera/method/pfedbred.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/quadratic.hpp>

namespace tessera::support {

template <class Divergence, class Prior = prior::Identity>
using GeometryRun = Federation<FedBreD<Prior, Divergence>, Quadratic<double, 2>>;

template <class Prior, class Divergence>
GeometryRun<Divergence, Prior> geometry_run(FedBreD<Prior, Divergence> method, Vec<double> from, Parabola f = {2, 3}) {
    return {Quadratic<double, 2>{}, quadratic_data({{f}}), std::move(method), {.batch = 0}, std::move(from)};
}

struct GeometryStep {
    double theta, w;
};

// The first parameter after one local step from w = mu = 0.4 on f = (x - 3)^2: alpha 0.01, lambda 2, K 2, alpha_m 0.05.
template <class Divergence>
GeometryStep geometry_step(Divergence divergence) {
    const FedBreD<prior::Identity, Divergence> method{.divergence = std::move(divergence), .local = {.rate = 0.01},
                                                      .alpha_m = 0.05, .lambda = 2, .steps = 1, .inner_steps = 2};
    auto run = geometry_run(method, {0.4, 0.4});
    run.round(sample::Everyone{});
    return {run.client(0).theta[0], run.server().w[0]};
}
// The same by the formulas, from phi' and phi''.
inline GeometryStep geometry_step_by_hand(auto slope, auto curvature) {
    double theta = 0.4;
    for (int k = 0; k < 2; ++k) theta -= 0.01 * (2 * (theta - 3) + 2 * (slope(theta) - slope(0.4)));
    return {theta, 0.4 - 0.05 * 2 * curvature(0.4) * (0.4 - theta)};
}
inline double apart(GeometryStep a, GeometryStep b) {
    return std::max(std::fabs(a.theta - b.theta), std::fabs(a.w - b.w));
}

// Whether theta and w stay strictly inside (low, high) for 20 rounds that count, with a target anywhere and a server
// that extrapolates (beta = 2); and where theta ends.
struct Confined {
    bool inside = true;
    double end = 0;
};
template <class Divergence>
Confined confined(Divergence divergence, double low, double high, double target) {
    FedBreD<prior::Identity, Divergence> method{.divergence = std::move(divergence), .fold = {.beta = 2},
                                                .local = {.rate = 0.05}, .alpha_m = 0.05, .lambda = 0.5,
                                                .eval_model = EvalModel::w_local};
    auto run = geometry_run(method, {0.3, 0.6}, {2, target});
    Confined result;
    for (int r = 0; r < 20; ++r) {
        const auto report = run.round(sample::Everyone{});
        const auto me = run.client(0);
        result.inside = result.inside && report.outcome.counted && report.diverged == 0;
        for (std::size_t j = 0; j < 2; ++j)
            result.inside = result.inside && me.theta[j] > low && me.theta[j] < high && me.w_last[j] > low &&
                            me.w_last[j] < high;
        result.end = me.theta[0];
    }
    return result;
}

}  // namespace tessera::support
