// SPDX-License-Identifier: BSD-3-Clause
// HypCluster (Mansour et al., 2020), also IFCA (Ghosh et al., NeurIPS 2020).
//
//   down:   all K models;   up: (j, w_j)
//   client: j = argmin_j F_k(w_j) on its training data, before training; E epochs from w_j alone
//   server: w_j = fold of what came for j; a model nobody chose stays as it was
//
// Model 0 starts at w_0, the others `spread` of the way to fresh draws. K = 1 is FedAvg.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/method/detail/clusters.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::Mean>
struct HypCluster {
    static_assert(detail::averages_clusters<Fold>());
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::validate | offer::admits | offer::no_global;
    Local local{};
    Fold fold{};
    std::size_t clusters = 2;           // K
    double spread = 1;
    std::size_t epochs = 1, steps = 0;  // E, or batches of the client's stream
    Weigh weights = Weigh::samples;
    template <class R> struct Server { Vec<Shared<Fold, R>> clusters; };
    template <class R> struct Client { Cursor cursor; };
    template <class R> struct Upload { Vec<R> x; double weight = 1; std::uint32_t cluster = 0; };

    template <class M, class R = real<M>>
    Server<R> open(const Context<M>& context, const Vec<R>& w0, std::size_t) const {
        return {detail::first_models<Fold>(w0, context, clusters, spread)};
    }
    template <class R>
    Vec<Vec<R>> send(const Server<R>& server, Id) const {
        return detail::models_of(server.clusters);
    }
    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>& at, Vec<Vec<R>> models, Client<R>& me) const {
        const auto j = detail::least_loss(at, models);
        descend(at, models[j], at.work(epochs, steps, me.cursor), local);
        return {std::move(models[j]), at.weight(weights), static_cast<std::uint32_t>(j)};
    }
    template <class M, class R = real<M>>
    void merge(const Context<M>& context, Server<R>& server, std::span<const Upload<R>> ups) const {
        for (std::size_t j = 0; j < server.clusters.size(); ++j) {
            Vec<Row<R>> rows;
            for (const auto& up : ups)
                if (up.cluster == j) rows.push_back(row_of(up));
            auto& [w, memory] = server.clusters[j];
            if (!rows.empty()) fold_rows(fold, context, w, Rows<R>(rows), memory);
        }
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<Vec<R>> models, const Client<R>&) const {
        return plain(at, std::move(models[detail::least_loss(at, models)]));
    }
    bool admits(const auto& s, Id, const auto& up) const { return detail::fits_cluster(s, up); }
    void validate() const { detail::require_models(clusters, "clusters", spread); }
};

}  // namespace tessera
