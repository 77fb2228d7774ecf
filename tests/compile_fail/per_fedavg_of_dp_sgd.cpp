// SPDX-License-Identifier: BSD-3-Clause
// The step ahead reads the data without noise, whatever the rule behind it does.
// expect: tessera::PerFedAvg: the step ahead reads the data without noise
#include <tessera/method/per_fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/rule/sam.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

using Noisy = rule::DpSgd<privacy::Noise>;
#ifdef TESSERA_GOOD
using Mine = PerFedAvg<fold::Mean, rule::Sgd>;
#else
using Mine = PerFedAvg<fold::Mean, Noisy>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
