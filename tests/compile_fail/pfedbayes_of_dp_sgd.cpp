// SPDX-License-Identifier: BSD-3-Clause
// A model drawn for a batch leaves no example a gradient of its own.
// expect: tessera::PFedBayes: a model is drawn for a whole batch
#include <tessera/method/pfedbayes.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/rule/sam.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

using Noisy = rule::DpSgd<privacy::Noise>;
#ifdef TESSERA_GOOD
using Mine = PFedBayes<>;
#else
using Mine = PFedBayes<Noisy>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
