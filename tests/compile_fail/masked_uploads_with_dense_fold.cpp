// SPDX-License-Identifier: BSD-3-Clause
// Uploads of single coordinates, given to an aggregator that reads whole vectors.
// expect: tessera::Method: these uploads have masks, but this aggregator does not understand rows with masks
#include <tessera/method/fedavg.hpp>
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
template <class Fold>
struct OneNumber {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    Fold fold{};
    template <class R>
    struct Upload {
        Vec<R> x;
        double weight = 1;
        Mask mask;
    };
    template <class M, class R = real<M>>
    Upload<R> visit(const Context<M>&, Vec<R> w, Nothing&) const {
        Mask first(w.size());
        first.set(0, true);
        return {{w[0]}, 1, first};
    }
};
#ifdef TESSERA_GOOD
using Me = OneNumber<fold::Mean>;
#else
using Me = OneNumber<First>;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Me, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
