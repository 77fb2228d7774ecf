// SPDX-License-Identifier: BSD-3-Clause
// A private method may wear masks that were drawn, and none that its clients' data chose.
// expect: tessera::Masked: a mask that data chose leaves the client without noise
#include <tessera/mask/dynamic_sparse.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/masked.hpp>
#include <tessera/method/private.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;
using Hidden = Private<FedAvg<rule::DpSgd<privacy::Noise>>>;

#ifdef TESSERA_GOOD
using Method = Masked<Hidden, mask::RandomStatic>;
#else
using Method = Masked<Hidden, mask::DynamicSparse>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Method, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
