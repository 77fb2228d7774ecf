// SPDX-License-Identifier: BSD-3-Clause
// Local has no common model to take features from.
// expect: tessera::KnnPer: the inner method has no global model
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/knn_per.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Method = KnnPer<FedAvgFt<>>;
#else
using Method = KnnPer<Local<>>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Method, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
