// SPDX-License-Identifier: BSD-3-Clause
// A local rule that wants to change itself instead of its memory.
// expect: tessera::Rule: `step` must be const
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

struct Still {
    static constexpr Offers offers{};
    template <class M>
    double step(const Context<M>&, Vec<real<M>>&, const Batch<real<M>>&, const Terms<real<M>>&, Nothing&) PROMISE {
        return 0;
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<FedAvg<Still>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
