// SPDX-License-Identifier: BSD-3-Clause
// FedSpa's masks are searched on data and sent.
// expect: tessera::Private: this method's masks are chosen by data without noise
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedspa.hpp>
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
using Method = FedSpa<mask::DynamicSparse, Noisy>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Private<Method>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
