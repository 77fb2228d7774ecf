// SPDX-License-Identifier: BSD-3-Clause
// SCAFFOLD sends more than parameters, so nobody knows what a mask would mean for it.
// expect: tessera::Masked: masks are worn by methods whose messages are parameters
#include <tessera/method/fedavg.hpp>
#include <tessera/method/masked.hpp>
#include <tessera/method/scaffold.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Method = Masked<FedAvg<>>;
#else
using Method = Masked<Scaffold<>>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Method, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
