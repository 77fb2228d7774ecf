// SPDX-License-Identifier: BSD-3-Clause
// A step up the slope would read the data without noise.
// expect: tessera::rule::Sam: a step up the slope reads the data without noise
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/rule/sam.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

using Noisy = rule::DpSgd<privacy::Noise>;
#ifdef TESSERA_GOOD
using Mine = FedAvg<rule::Sam<>>;
#else
using Mine = FedAvg<rule::Sam<Noisy>>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
