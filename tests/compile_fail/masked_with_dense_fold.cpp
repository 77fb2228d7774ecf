// SPDX-License-Identifier: BSD-3-Clause
// Distillation asks whole models, so PerAda's own fold cannot read what masked clients send.
// expect: tessera::Masked: this aggregator does not understand rows with masks
#include <tessera/fold/mean.hpp>
#include <tessera/method/masked.hpp>
#include <tessera/method/perada.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Method = Masked<PerAda<rule::Sgd, fold::Mean>>;
#else
using Method = Masked<PerAda<>>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Method, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
