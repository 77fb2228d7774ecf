// SPDX-License-Identifier: BSD-3-Clause
// A method that does not say what it releases.
// expect: tessera::Private: this method does not say which rules are behind what it releases
#include <tessera/method/apfl.hpp>
#include <tessera/method/fedavg.hpp>
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
using Method = Apfl<Noisy>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Private<Method>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
