// SPDX-License-Identifier: BSD-3-Clause
// A fold that asks its scope of a whole model, and is given a part of one.
// expect: tessera::fold::Grouped: a fold that asks for the whole model (it offers `check`) cannot fold a part
#include <tessera/core/scope.hpp>
#include <tessera/fold/grouped.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Aggregator = fold::Grouped<scope::Head, fold::ServerMomentum<>>;
#else
using Aggregator = fold::Grouped<scope::Head, fold::Mean, fold::Grouped<scope::Input, fold::ServerMomentum<>>>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<FedAvg<rule::Sgd, Aggregator>, nn::Dnn<60, 8, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
