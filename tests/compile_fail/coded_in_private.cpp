// SPDX-License-Identifier: BSD-3-Clause
// Noise comes before the codec.
// expect: tessera::Private: what encodes messages goes around a private method, not into it
#include <tessera/method/coded.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/private.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;
using Average = FedAvg<rule::DpSgd<privacy::Noise>>;

#ifdef TESSERA_GOOD
using Method = Coded<Private<Average>>;
#else
using Method = Private<Coded<Average>>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Method, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
