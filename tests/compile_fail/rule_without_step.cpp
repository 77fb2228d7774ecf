// SPDX-License-Identifier: BSD-3-Clause
// A local rule whose one function is misspelt.
// expect: tessera::Rule: a local rule needs `double step(context, x, batch, terms, memory) const`
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Still {
    static constexpr Offers offers{};
    template <class M>
#ifdef TESSERA_GOOD
    double step(const Context<M>&, Vec<real<M>>&, const Batch<real<M>>&, const Terms<real<M>>&, Nothing&) const {
#else
    double stepp(const Context<M>&, Vec<real<M>>&, const Batch<real<M>>&, const Terms<real<M>>&, Nothing&) const {
#endif
        return 0;
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<FedAvg<Still>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
