// SPDX-License-Identifier: BSD-3-Clause
// An aggregator whose one function is misspelt.
// expect: tessera::Fold: an aggregator needs `void fold(context, w, rows, memory) const`
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct First {
    static constexpr Offers offers{};
    template <class M>
#ifdef TESSERA_GOOD
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
#else
    void fald(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
#endif
        w.assign(rows[0].x.begin(), rows[0].x.end());
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<FedAvg<rule::Sgd, First>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
