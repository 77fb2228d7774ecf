// SPDX-License-Identifier: BSD-3-Clause
// An aggregator that wants to change itself instead of its memory.
// expect: tessera::Fold: `fold` must be const
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
#define PROMISE const
#else
#define PROMISE
#endif

struct First {
    static constexpr Offers offers{};
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) PROMISE {
        w.assign(rows[0].x.begin(), rows[0].x.end());
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<FedAvg<rule::Sgd, First>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
