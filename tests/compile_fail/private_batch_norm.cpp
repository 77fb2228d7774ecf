// SPDX-License-Identifier: BSD-3-Clause
// Examples meet in a batch norm: none has a gradient of its own, which a private step would clip.
// expect: tessera: examples of a batch meet in this model (a batch norm is one such layer)
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/batch_norm.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Recipe {
    static constexpr nn::Shape in = 8;
#ifdef TESSERA_GOOD
    static constexpr auto layers = nn::chain(nn::Linear{4}, nn::GroupNorm{}, nn::Linear{2});
#else
    static constexpr auto layers = nn::chain(nn::Linear{4}, nn::BatchNorm{}, nn::Linear{2});
#endif
};

void run(const data::FederatedDataset& clients) {
    Federation<FedAvg<rule::DpSgd<privacy::Noise>>, nn::Fixed<Recipe>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
