// SPDX-License-Identifier: BSD-3-Clause
// A fold that says it adds up three neighbours at once: they are no node of the cohort's tree.
// expect: tessera::Fold: `lift_width` must be a power of two
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Threes : fold::Mean {
    static constexpr std::size_t lift_width = 3;
};
#ifdef TESSERA_GOOD
using Fold = fold::Mean;
#else
using Fold = Threes;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<FedAvg<rule::Sgd, ::Fold>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
