// SPDX-License-Identifier: BSD-3-Clause
// An initial vector is of the library's kind and the model's precision.
// expect: tessera::Federation: the initial vector is a tessera::Vec of the model's precision
#include <vector>

#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Start = Vec<float>;
#else
using Start = std::vector<float>;
#endif

void run(const data::FederatedDataset& clients, const Start& start) {
    Federation<FedAvg<>, nn::Mclr<60, 10>> federation{{}, clients, {}, {}, start};
}
