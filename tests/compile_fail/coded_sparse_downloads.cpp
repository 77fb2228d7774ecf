// SPDX-License-Identifier: BSD-3-Clause
// What goes down is a step from nothing.
// expect: tessera::Coded: what goes down is a step from nothing that a client knows
#include <tessera/codec.hpp>
#include <tessera/method/coded.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Method = Coded<FedAvg<>, codec::TopK<>, codec::Quantised<8>>;
#else
using Method = Coded<FedAvg<>, codec::TopK<>, codec::TopK<>>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Method, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
