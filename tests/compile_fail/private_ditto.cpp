// SPDX-License-Identifier: BSD-3-Clause
// Ditto whose shared model is trained without noise.
// expect: tessera::Private: what this method releases reads state that is trained without noise
#include <tessera/method/ditto.hpp>
#include <tessera/method/private.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;
using Noisy = rule::DpSgd<privacy::Noise>;

#ifdef TESSERA_GOOD
using Method = Ditto<Noisy, fold::Mean, rule::Sgd>;
#else
using Method = Ditto<rule::Sgd, fold::Mean, Noisy>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Private<Method>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
