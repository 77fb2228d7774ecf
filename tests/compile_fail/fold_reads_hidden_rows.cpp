// SPDX-License-Identifier: BSD-3-Clause
// A decorator that keeps an upload, around a fold that is to hide every single one.
// expect: tessera::Fold: a decorator that reads the rows cannot go around a fold that hides clients
#include <tessera/fold/private_mean.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

template <class Inner>
struct Peek {
    static constexpr Offers offers{};
    Inner inner{};
    template <class R>
    struct Memory {
        memory_t<Inner, R> inner;
        Vec<R> kept;
    };
    template <class M>
    void around(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, auto& memory, auto&& fold_inner) const {
        fold_inner(w);
        if (!rows.empty()) memory.kept.assign(rows[0].x.begin(), rows[0].x.end());
    }
};
#ifdef TESSERA_GOOD
using Around = fold::ServerMomentum<Peek<fold::Mean>>;
#else
using Around = fold::ServerMomentum<Peek<fold::PrivateMean<privacy::Noise>>>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<FedAvg<rule::Sgd, Around>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
