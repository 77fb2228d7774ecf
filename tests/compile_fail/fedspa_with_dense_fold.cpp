// SPDX-License-Identifier: BSD-3-Clause
// An aggregator that reads whole vectors, given to a method whose rows have masks.
// expect: tessera::FedSpa: this aggregator does not understand rows with masks
#include <tessera/method/fedspa.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct First {
    static constexpr Offers offers{};
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        w.assign(rows[0].x.begin(), rows[0].x.end());
    }
};
#ifdef TESSERA_GOOD
using Me = FedSpa<>;
#else
using Me = FedSpa<mask::DynamicSparse, rule::Sgd, First>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Me, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
