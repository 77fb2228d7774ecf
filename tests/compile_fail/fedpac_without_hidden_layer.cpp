// SPDX-License-Identifier: BSD-3-Clause
// Features are shared and aligned below the head; where the head is all there is, nothing can be.
// expect: tessera::FedPac: this model has no `aligned_gradient`; it needs layers below its head
#include <tessera/method/fedpac.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Net = nn::Dnn<8, 6, 4>;
#else
using Net = nn::Mclr<8, 4>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<FedPac<>, Net> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
