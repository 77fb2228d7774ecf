// SPDX-License-Identifier: BSD-3-Clause
// Noise that is sized for a mean, around a fold that is none.
// expect: tessera::fold::PrivateMean: noise is sized for a sum of clipped updates
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Aggregator = fold::Relax<fold::PrivateMean<privacy::Noise>>;  // beta mixing around it is post-processing
#else
using Aggregator = fold::PrivateMean<privacy::Noise, fold::Relax<>>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<FedAvg<rule::Sgd, Aggregator>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
