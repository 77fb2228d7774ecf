// SPDX-License-Identifier: BSD-3-Clause
// The constants of Flow's convergence theorems (Panchal et al., NeurIPS 2023, Theorems 4.1 and 4.2), estimated where a
// run stands, and its first-epoch snapshot. Nothing here changes a run.
//
//   beta           the largest norm of a client's Hessian at w_g
//   sigma_l^2      E |grad f_m(b) - grad f_m|^2 over the minibatches of one pass
//   G^2            (1/M) sum_m |grad f_m|^2 - |grad F|^2: the least G that Assumption E.4 has with B = 1
//   delta_m        |grad f_m - grad F|^2, of w_g and of psi (Definition E.5, here instead of over all of space)
//   q0^2, q1^2     means over examples and blocks of the squared shares of the global and of the local branch
//
// Means over clients are unweighted. Gradients of psi are of f alone, without the regulariser, at the branches as
// served.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/nn/routed.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/theory.hpp>

namespace tessera {

struct RoutingTheory {
    TheoryConstants w_g;                     // l_u: beta; sigma_u: sigma_l; delta: G
    std::vector<double> delta_w, delta_psi;  // by client; absent without training data
    double q0_squared = 0, q1_squared = 0;

    double beta() const { return w_g.l_u; }
    double sigma_l() const { return w_g.sigma_u_bound; }
    double g() const { return w_g.delta; }
    // The terms of Theorem 4.1 after R rounds of K epochs, with B = 1, without the first, which holds F.
    double noise(std::size_t rounds, std::size_t epochs) const {
        const auto r = static_cast<double>(rounds), k = static_cast<double>(epochs);
        const double s = sigma_l() * sigma_l();
        return s / (2 * std::sqrt(5.0) * static_cast<double>(w_g.clients) * q0_squared * k * std::sqrt(r)) +
               s / (k * r);
    }
    double heterogeneity(std::size_t rounds) const {
        return 2 * q1_squared * g() * g() / (q0_squared * static_cast<double>(rounds));
    }
};

namespace detail {

// |g_m - mean|^2 of every client that has one.
inline std::vector<double> diversity(const std::vector<Vec<double>>& gradients) {
    Vec<double> mean;
    double n = 0;
    for (const auto& g : gradients) {
        if (g.empty()) continue;
        mean.resize(g.size());
        for (std::size_t j = 0; j < g.size(); ++j) mean[j] += g[j];
        n += 1;
    }
    for (double& each : mean) each /= n;
    std::vector<double> all;
    for (const auto& g : gradients)
        all.push_back(g.empty() ? report::absent : squared_distance(g, mean, Coordinates{}));
    return all;
}

}  // namespace detail

template <class Me, class M, Executor E = exec::Serial>
RoutingTheory routing_theory(const Federation<Me, M>& run, const TheorySettings& settings = {},
                             const E& executor = {}) {
    using R = real<M>;
    using Gate = std::remove_cvref_t<decltype(run.setup().method.gate)>;
    detail::validate_all(executor);
    const auto& method = run.setup().method;
    const auto& sent = run.server().w;
    const std::size_t d = run.setup().initial.size();
    const Vec<R> w_g(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(d));
    nn::RoutingTerms terms = method.routing;
    terms.gamma = 0;
    const nn::Routed<M, Gate> router(run.setup().model, method.gate, terms, nn::Moves::router);
    const std::size_t p = router.router_size();

    struct One {
        Vec<double> of_w, of_psi;
        double q0 = 0, q1 = 0, shares = 0;
    };
    std::vector<One> all(run.size());
    std::vector<Workspace<R>> workspaces(executor.concurrency());
    detail::for_each_at_home(run, executor, [&](std::size_t k, std::size_t worker) {
        const FlushDenormals flush;
        const auto data = run.data()[k];
        if (data.train.empty()) return;
        Vec<R> x(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(d + p)), g;
        run.at_client(static_cast<Id>(k), workspaces[worker], [&](const auto& client, auto received, auto& space) {
            const auto served = client.serve(std::move(received), run.rounds_done(), space);
            const auto& both = served.parameters();
            if (both.size() > d + p) x.insert(x.end(), both.begin() + static_cast<std::ptrdiff_t>(d + p), both.end());
        });
        const auto at = run.setup().context(data, static_cast<Id>(k), run.rounds_done(), workspaces[worker]);
        const auto batch = at.everything();
        g.resize(x.size());
        router.gradient(x, batch, g);
        all[k].of_psi.assign(g.begin() + static_cast<std::ptrdiff_t>(d),
                             g.begin() + static_cast<std::ptrdiff_t>(d + p));
        g.resize(d);
        at.gradient(w_g, batch, g);
        all[k].of_w.assign(g.begin(), g.end());
        Vec<R> q0(batch.size() * router.blocks());
        router.shares(x, batch, q0);
        for (const R q : q0) {
            const auto share = static_cast<double>(q);
            all[k].q0 += share * share, all[k].q1 += (1 - share) * (1 - share), all[k].shares += 1;
        }
    });
    detail::know_everywhere(run, all);
    const std::vector<SplitPoint<R>> points(run.size(), SplitPoint<R>{w_g, Coordinates::none(), Coordinates{}});
    RoutingTheory out;
    out.w_g = theory_constants(run, std::span<const SplitPoint<R>>(points), settings, executor);
    std::vector<Vec<double>> of_w, of_psi;
    double shares = 0;
    for (auto& one : all) {
        out.q0_squared += one.q0, out.q1_squared += one.q1, shares += one.shares;
        of_psi.push_back(p > 0 ? std::move(one.of_psi) : Vec<double>(one.of_w.empty() ? 0 : 1));
        of_w.push_back(std::move(one.of_w));
    }
    out.q0_squared /= shares, out.q1_squared /= shares;
    out.delta_w = detail::diversity(of_w);
    out.delta_psi = detail::diversity(of_psi);
    return out;
}

// As a table of the report, after so many more rounds of K epochs.
inline report::Extra routing_theory_table(const RoutingTheory& t, std::size_t rounds, std::size_t epochs) {
    detail::require(rounds > 0 && epochs > 0, "routing_theory_table: rounds and epochs are at least 1");
    const auto mean = [](const std::vector<double>& all) {
        double sum = 0, n = 0;
        for (const double each : all)
            if (std::isfinite(each)) sum += each, n += 1;
        return n > 0 ? sum / n : report::absent;
    };
    const auto most = [](const std::vector<double>& all) {
        double top = 0;
        for (const double each : all)
            if (std::isfinite(each)) top = std::max(top, each);
        return top;
    };
    return {
        .id = "routing-theory",
        .title = "Constants of the theory of Flow",
        .caption = "Estimated where the run stands, over " + std::to_string(t.w_g.clients) +
                   " clients, with B = 1; the last two are terms of Theorem 4.1 for " + std::to_string(rounds) +
                   " rounds of " + std::to_string(epochs) + " epochs.",
        .kind = report::Kind::table,
        .categories = {"beta", "sigma_l, noisiest client", "G", "q0^2", "q1^2", "delta of w_g, mean",
                       "delta of w_g, most", "delta of psi, mean", "delta of psi, most", "noise", "heterogeneity"},
        .series = {{.name = "value",
                    .y = {t.beta(), t.sigma_l(), t.g(), t.q0_squared, t.q1_squared, mean(t.delta_w), most(t.delta_w),
                          mean(t.delta_psi), most(t.delta_psi), t.noise(rounds, epochs), t.heterogeneity(rounds)}}}};
}

// What Flow's published Acc_g is of: each client's copy of w_g after the first epoch of its joint phase. It is a global
// model that has been trained locally, and tagged as such; `evaluate<Which::global>` is of w_g as it is sent.
template <SplitOf S = SplitOf::test, class Me, class M, Executor E = exec::Serial>
report::PerClient<Which::global, When::after, S, Whom::all> evaluate_first_epoch(const Federation<Me, M>& run,
                                                                                 const E& executor = {},
                                                                                 std::string stage = {}) {
    using R = real<M>;
    auto method = run.setup().method;
    method.joint_epochs = 1;
    method.eval_adapt_global = true;
    detail::validate_all(executor);
    std::vector<report::ClientCount> counts(run.size());
    std::vector<Workspace<R>> workspaces(executor.concurrency());
    detail::for_each_at_home(run, executor, [&](std::size_t k, std::size_t worker) {
        const FlushDenormals flush;
        const auto data = run.data()[k];
        auto at = run.setup().context(data, static_cast<Id>(k), run.rounds_done(), workspaces[worker]);
        at.serving = true;
        const auto served = method.serve(at, run.server().w, run.client(static_cast<Id>(k)));
        counts[k] = detail::score(run.setup().model, static_cast<Id>(k), served.by(nn::Along::global), *data.examples,
                                  detail::examples_of(data, S));
    });
    detail::know_everywhere(run, counts);
    return {report::On::local(), report::Pick::last(), std::move(stage), std::move(counts)};
}

}  // namespace tessera
