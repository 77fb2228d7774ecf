// SPDX-License-Identifier: BSD-3-Clause
// Several models for one population: where they start, and which of them suits a client.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include <tessera/contracts/method.hpp>
#include <tessera/core/error.hpp>
#include <tessera/report/score.hpp>

namespace tessera::detail {

// w0 for the first; for the others w0 + spread (fresh_j - w0), fresh_j drawn as initial parameters are.
template <class M>
Vec<real<M>> away_from(const Vec<real<M>>& w0, const Context<M>& context, std::size_t j, double spread) {
    using R = real<M>;
    if (j == 0) return w0;
    auto w = initial_parameters(*context.model, context.key(purpose::init)(j));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = w0[i] + static_cast<R>(spread) * (w[i] - w0[i]);
    return w;
}

// All of them, with a fold's memory each.
template <class Fold, class M>
auto first_models(const Vec<real<M>>& w0, const Context<M>& context, std::size_t count, double spread) {
    Vec<Shared<Fold, real<M>>> all;
    for (std::size_t j = 0; j < count; ++j) all.push_back({away_from(w0, context, j, spread)});
    return all;
}
template <class Fold, class R>
Vec<Vec<R>> models_of(const Vec<Shared<Fold, R>>& held) {
    Vec<Vec<R>> all;
    for (const auto& one : held) all.push_back(one.w);
    return all;
}

// The model with the least loss on the client's training data, the first of several; one alone is not asked.
template <class M>
std::size_t least_loss(const Context<M>& at, const Vec<Vec<real<M>>>& models) {
    using R = real<M>;
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; models.size() > 1 && j < models.size(); ++j) {
        const auto predict = [&](const Batch<R>& b, Out<R> out) { at.model->predict(models[j], b, out); };
        const double loss = score(*at.model, at.id, predict, *at.examples, at.ids).loss_sum;
        if (loss < least) least = loss, best = j;
    }
    return best;
}

template <class S, class Upload>
bool fits_cluster(const S& server, const Upload& up) {
    return up.cluster < server.clusters.size() && up.x.size() == server.clusters[up.cluster].w.size() &&
           up.weight >= 0;
}

template <class S, class Upload>
bool fits_models(const S& server, const Upload& up) {
    const auto& held = server.components;
    bool fits = up.models.size() == held.size() && up.weight >= 0;
    for (std::size_t m = 0; fits && m < held.size(); ++m) fits = up.models[m].size() == held[m].w.size();
    return fits;
}

template <class Fold>
consteval bool averages_clusters() {
    static_assert(!hides_clients<Fold>,
                  "tessera::HypCluster: this fold hides clients, but which model each of them chose would still show");
    return true;
}

inline void require_models(std::size_t count, const std::string& name, double spread) {
    require(count > 0, name + " must be at least 1");
    require(count <= 4096, name + " may be at most 4096 models, not " + std::to_string(count));
    require(spread >= 0 && spread <= 1, "spread must lie in [0, 1], not " + std::to_string(spread));
}

}  // namespace tessera::detail
