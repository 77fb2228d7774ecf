// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/hyp_cluster.hpp>
#include <tessera/method/knn_per.hpp>
#include <tessera/method/partial_fed.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {

using tessera::rule::Sgd;

std::vector<Entry> neighbour_methods() {
    using Average = tessera::FedAvg<Sgd, ServerFold>;
    return {
        entry<tessera::KnnPer<Average>>(
            "knn-per", "kNN-Per (Marfoq et al. 2022): FedAvg, and the nearest of the client's own examples vote"),
        entry<tessera::HypCluster<Sgd, ServerFold>>(
            "hypcluster", "HypCluster (Mansour et al. 2020), IFCA: each client follows one of several models"),
        entry<tessera::PartialFed<Sgd, ServerFold>>(
            "partialfed", "PartialFed, adaptive (Sun et al. 2021): each layer common or own, as its client learns")};
}

}  // namespace lab
