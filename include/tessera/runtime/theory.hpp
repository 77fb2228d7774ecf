// SPDX-License-Identifier: BSD-3-Clause
// The constants of FedAlt's and FedSim's convergence theorems (Pillutla et al., ICML 2022, Assumptions 1 to 3),
// estimated where a run stands: at (u, v_1, .., v_n), not over all of space.
//
//   sigma_u^2  E |grad_u f(b) - grad_u F_i|^2 over the minibatches b of one pass; sigma_v likewise
//   delta^2    (1/n) sum_i |grad_u F_i - grad_u F|^2,   F = (1/n) sum_i F_i
//   L_u, L_v   norms of the Hessian's blocks uu and vv, L_uv of the block uv (= L_vu): the largest over clients
//   chi        L_uv / sqrt(L_u L_v)                                                                    Eq. 5
//
// Norms come from power iterations whose products with the Hessian are central differences of full-batch gradients, so
// they approach the true ones from below. Dropout is off: the noise is that of the minibatches alone. Costs about
// 12 power_steps + 2 passes over each client's training data; nothing of the run changes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <tessera/contracts/executor.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/exec/serial.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/runtime/at_home.hpp>
#include <tessera/runtime/federation.hpp>

namespace tessera {

struct TheorySettings {
    std::size_t power_steps = 20;
    std::uint64_t seed = 1;  // of the first directions; the batches are the run's own of its next round

    void validate() const { detail::require(power_steps > 0, "power_steps must be at least 1"); }
};

struct TheoryConstants {
    double sigma_u = 0, sigma_v = 0;                // root of the mean over clients
    double sigma_u_bound = 0, sigma_v_bound = 0;    // the largest client, which is what the theorems ask for
    double delta = 0;
    double l_u = 0, l_v = 0, l_uv = 0;
    std::size_t clients = 0;

    double chi() const { return l_uv / std::sqrt(l_u * l_v); }
    // Effective variances in the leading term of Theorems 1 and 2, m of the n clients in a round: the smaller, the
    // faster; with the bounds of the noise.
    double leading_variance_alt(std::size_t m) const {
        const double left = 1 - share(m), sv = sigma_v_bound * sigma_v_bound / l_v;
        return shared_noise(left) + sv * (share(m) + chi() * chi() * left);
    }
    double leading_variance_sim(std::size_t m) const {
        const double sv = sigma_v_bound * sigma_v_bound / l_v;
        return (1 + chi() * chi()) * (shared_noise(1 - share(m)) + sv * share(m));
    }
    // The same of the second term, which falls as T^(-2/3): of tau_u and tau_v local steps, or tau of both at once.
    double second_variance_alt(std::size_t m, std::size_t tau_u, std::size_t tau_v) const {
        const double sv = sigma_v_bound * sigma_v_bound / l_v;
        return shared_noise(1) * beyond_one(tau_u) + sv * share(m) * beyond_one(tau_v) + chi() * chi() * sv;
    }
    double second_variance_sim(std::size_t tau) const {
        const double sv = sigma_v_bound * sigma_v_bound / l_v;
        return (1 + chi() * chi()) * (shared_noise(1) + sv) * beyond_one(tau);
    }

private:
    static double beyond_one(std::size_t tau) { return 1 - 1 / static_cast<double>(tau); }
    double share(std::size_t m) const { return static_cast<double>(m) / static_cast<double>(clients); }
    double shared_noise(double left) const {
        return (delta * delta * left + sigma_u_bound * sigma_u_bound) / l_u;
    }
};

// A client's parameters w with u at `common` and v at `own`.
template <class R>
struct SplitPoint {
    Vec<R> w;
    Coordinates own = Coordinates::none(), common = Coordinates::none();
};

namespace detail {

template <class R>
double squared_norm(const Vec<R>& x, const Coordinates& where) {
    double sum = 0;
    where.each(x.size(), [&](Range r) {
        for (std::size_t j = r.begin; j < r.end; ++j) sum += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    });
    return sum;
}
template <class R>
double squared_distance(const Vec<R>& x, const Vec<R>& y, const Coordinates& where) {
    double sum = 0;
    where.each(x.size(), [&](Range r) {
        for (std::size_t j = r.begin; j < r.end; ++j) {
            const double gap = static_cast<double>(x[j]) - static_cast<double>(y[j]);
            sum += gap * gap;
        }
    });
    return sum;
}

// Norms of the blocks of one client's Hessian.
template <class M>
class HessianBlocks {
    using R = real<M>;

public:
    HessianBlocks(const Context<M>& at, const SplitPoint<R>& point) : at_(at), point_(point), all_(at.everything()) {
        // The cube root of the rounding unit balances the two errors of a central difference.
        const double size = std::sqrt(squared_norm(point.w, Coordinates{}));
        step_ = std::cbrt(static_cast<double>(std::numeric_limits<R>::epsilon())) * std::max(1.0, size);
    }

    // Of the block that maps a move of `from` to a change of the gradient on `to`, along the power iteration of its
    // transpose times itself; for a diagonal block the two are the same.
    double norm(const Coordinates& from, const Coordinates& to, Key start, std::size_t steps) const {
        if (from.empty() || to.empty()) return 0;
        Vec<R> x(point_.w.size(), R(0)), y(point_.w.size(), R(0));
        Stream stream(start);
        from.each(x.size(), [&](Range r) {
            for (std::size_t j = r.begin; j < r.end; ++j) x[j] = static_cast<R>(stream.normal());
        });
        double gain = 0;
        for (std::size_t s = 0; s < steps; ++s) {
            if (!rescale(x)) return 0;
            gain = times(x, to, y);
            if (!rescale(y)) return 0;
            times(y, from, x);
        }
        return gain;
    }

private:
    static bool rescale(Vec<R>& x) {
        const double length = std::sqrt(squared_norm(x, Coordinates{}));
        if (!(length > 0)) return false;
        for (R& each : x) each = static_cast<R>(static_cast<double>(each) / length);
        return true;
    }
    // out = the rows `to` of H x, zero elsewhere; its length.
    double times(const Vec<R>& x, const Coordinates& to, Vec<R>& out) const {
        Vec<R> ahead = moved(x, step_), behind = moved(x, -step_);
        std::ranges::fill(out, R(0));
        to.each(out.size(), [&](Range r) {
            for (std::size_t j = r.begin; j < r.end; ++j)
                out[j] = static_cast<R>((static_cast<double>(ahead[j]) - static_cast<double>(behind[j])) / (2 * step_));
        });
        return std::sqrt(squared_norm(out, to));
    }
    Vec<R> moved(const Vec<R>& x, double by) const {  // the gradient at w + by x
        Vec<R> w = point_.w, gradient(w.size());
        for (std::size_t j = 0; j < w.size(); ++j) w[j] += static_cast<R>(by * static_cast<double>(x[j]));
        at_.gradient(w, all_, gradient);
        return gradient;
    }

    const Context<M>& at_;
    const SplitPoint<R>& point_;
    Batch<R> all_;
    double step_;
};

template <class R>
struct ClientConstants {
    double variance_u = 0, variance_v = 0, l_u = 0, l_v = 0, l_uv = 0;
    Vec<R> gradient;
};

template <class M>
ClientConstants<real<M>> constants_at(const Context<M>& at, const SplitPoint<real<M>>& point, Key start,
                                      std::size_t steps) {
    using R = real<M>;
    ClientConstants<R> out;
    out.gradient.resize(point.w.size());
    at.gradient(point.w, at.everything(), out.gradient);
    const auto batches = at.epochs(1);
    Vec<R> gradient(point.w.size());
    for (const auto batch : batches) {
        at.gradient(point.w, batch.evaluated(), gradient);
        out.variance_u += squared_distance(gradient, out.gradient, point.common) / static_cast<double>(batches.size());
        out.variance_v += squared_distance(gradient, out.gradient, point.own) / static_cast<double>(batches.size());
    }
    const HessianBlocks<M> hessian(at, point);
    out.l_u = hessian.norm(point.common, point.common, start(0), steps);
    out.l_v = hessian.norm(point.own, point.own, start(1), steps);
    out.l_uv = hessian.norm(point.own, point.common, start(2), steps);
    return out;
}

}  // namespace detail

// Where client k of a run of a split method stands; what a client never visited has is the run's initial part.
template <class Me, class M>
    requires requires(const Federation<Me, M>& run, const Me& me) { me.own, run.server().w, run.client(0).v; }
SplitPoint<real<M>> split_point(const Federation<Me, M>& run, Id k) {
    const auto& model = run.setup().model;
    const auto& own = run.setup().method.own;
    SplitPoint<real<M>> point{run.setup().initial, on(own, model, k), off(own, model)};
    scatter(run.server().w, point.common, point.w);
    lacking(own, model, k).each(point.w.size(), [&](Range r) {
        std::fill(point.w.data() + r.begin, point.w.data() + r.end, real<M>(0));
    });
    if (const auto state = run.client(k); !state.v.empty()) scatter(state.v, point.own, point.w);
    return point;
}

// points[k] is where client k stands, where it lives; clients without training data are skipped.
template <class Me, class M, Executor E = exec::Serial>
TheoryConstants theory_constants(const Federation<Me, M>& run, std::span<const SplitPoint<real<M>>> points,
                                 const TheorySettings& settings = {}, const E& executor = {}) {
    using R = real<M>;
    settings.validate();
    detail::require(points.size() == run.size(), "theory_constants: one point for each client");
    std::vector<detail::ClientConstants<R>> all(run.size());
    detail::validate_all(executor);
    std::vector<Workspace<R>> workspaces(executor.concurrency());
    detail::for_each_at_home(run, executor, [&](std::size_t k, std::size_t worker) {
        const FlushDenormals flush;
        const auto data = run.data()[k];
        if (data.train.empty()) return;
        const auto at = run.setup().context(data, static_cast<Id>(k), run.rounds_done(), workspaces[worker]);
        const Key start = Key{settings.seed}(purpose::noise)(data.key);
        all[k] = detail::constants_at(at, points[k], start, settings.power_steps);
    });
    detail::know_everywhere(run, all);
    TheoryConstants out;
    Vec<double> mean(run.setup().initial.size(), 0.0);
    for (const auto& one : all) {
        if (one.gradient.empty()) continue;
        ++out.clients;
        out.sigma_u += one.variance_u;
        out.sigma_v += one.variance_v;
        out.sigma_u_bound = std::max(out.sigma_u_bound, std::sqrt(one.variance_u));
        out.sigma_v_bound = std::max(out.sigma_v_bound, std::sqrt(one.variance_v));
        out.l_u = std::max(out.l_u, one.l_u);
        out.l_v = std::max(out.l_v, one.l_v);
        out.l_uv = std::max(out.l_uv, one.l_uv);
        for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += static_cast<double>(one.gradient[j]);
    }
    const auto n = static_cast<double>(out.clients);
    for (double& each : mean) each /= n;
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (all[k].gradient.empty()) continue;
        const Vec<double> gradient(all[k].gradient.begin(), all[k].gradient.end());
        out.delta += detail::squared_distance(gradient, mean, points[k].common);
    }
    out.sigma_u = std::sqrt(out.sigma_u / n);
    out.sigma_v = std::sqrt(out.sigma_v / n);
    out.delta = std::sqrt(out.delta / n);
    return out;
}

template <class Me, class M, Executor E = exec::Serial>
TheoryConstants theory_constants(const Federation<Me, M>& run, const TheorySettings& settings = {},
                                 const E& executor = {}) {
    std::vector<SplitPoint<real<M>>> points;
    const auto& own = run.setup().method.own;
    for (Id k = 0; k < run.size(); ++k)  // of a client of another rank, only what is common is asked for here
        points.push_back(run.lives_here(k) ? split_point(run, k)
                                           : SplitPoint<real<M>>{{}, Coordinates::none(), off(own, run.setup().model)});
    return theory_constants(run, std::span<const SplitPoint<real<M>>>(points), settings, executor);
}

namespace detail {

inline std::string what_is_undefined(const TheoryConstants& c) {
    if (c.l_u > 0 && c.l_v > 0) return "";
    const std::string zero = c.l_v > 0   ? " L_u is 0, as where nothing is shared"
                             : c.l_u > 0 ? " L_v is 0, as where nothing is personal"
                                         : " L_u and L_v are 0";
    return zero +
           ": chi and the leading variances, which divide by it, are not defined.";
}

}  // namespace detail

// Local steps of a visit, as the second terms of the theorems count them.
struct LocalWork {
    std::size_t tau_u = 1, tau_v = 1;
};

// As a table of the report; `per_round` clients take part in a round.
inline report::Extra theory_table(const TheoryConstants& c, std::size_t per_round, LocalWork work = {}) {
    detail::require(work.tau_u > 0 && work.tau_v > 0, "theory_table: a visit has at least one step of each kind");
    return {.id = "theory",
            .title = "Constants of the theory of FedAlt and FedSim",
            .caption = "Estimated where the run stands, over " + std::to_string(c.clients) +
                       " clients. Noise is that of minibatches, as root mean square over clients and for the noisiest "
                       "client; smoothness and coupling are the largest over clients." +
                       detail::what_is_undefined(c),
            .kind = report::Kind::table,
            .categories = {"sigma_u", "sigma_u, noisiest client", "sigma_v", "sigma_v, noisiest client", "delta", "L_u",
                           "L_v", "L_uv", "chi", "leading variance, FedAlt", "leading variance, FedSim",
                           "second variance, FedAlt", "second variance, FedSim"},
            .series = {{.name = "value",
                        .y = {c.sigma_u, c.sigma_u_bound, c.sigma_v, c.sigma_v_bound, c.delta, c.l_u, c.l_v, c.l_uv,
                              c.chi(), c.leading_variance_alt(per_round), c.leading_variance_sim(per_round),
                              c.second_variance_alt(per_round, work.tau_u, work.tau_v),
                              c.second_variance_sim(std::max(work.tau_u, work.tau_v))}}}};
}

}  // namespace tessera
