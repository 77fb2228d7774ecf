// SPDX-License-Identifier: BSD-3-Clause
// Flow's released gradient reads a local branch that is trained without noise.
// expect: tessera::Private: this method's local branch is trained without noise
#include <tessera/method/fedavg.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/private.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;
using Noisy = rule::DpSgd<privacy::Noise>;

#ifdef TESSERA_GOOD
using Method = FedAvg<Noisy>;
#else
using Method = Flow<>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Private<Method>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
