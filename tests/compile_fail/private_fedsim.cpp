// SPDX-License-Identifier: BSD-3-Clause
// FedSim takes both gradients at once, so no example is clipped by itself.
// expect: tessera::Private: this order takes the gradients of both parts at once
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedsim.hpp>
#include <tessera/method/private.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;
using Noisy = rule::DpSgd<privacy::Noise>;

#ifdef TESSERA_GOOD
using Method = FedAlt<scope::Named<"0.bias">, Noisy>;
#else
using Method = FedSim<scope::Named<"0.bias">, Noisy>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Private<Method>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
