// SPDX-License-Identifier: BSD-3-Clause
// A sparse model is one list: there are no blocks to route between.
// expect: tessera::Masked: this method routes examples between two copies of each block
#include <tessera/method/fedavg.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/masked.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Inner = FedAvg<>;
#else
using Inner = Flow<>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Masked<Inner, mask::RandomStatic>, nn::Dnn<60, 8, 10>> federation{{}, clients, {}};
}
