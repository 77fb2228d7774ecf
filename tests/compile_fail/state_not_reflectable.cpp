// SPDX-License-Identifier: BSD-3-Clause
// State is saved, sent and hashed by its declaration; a map cannot be.
// expect: tessera::Method: Client<R> must be a plain struct of numbers, vectors, masks and such structs
// expect: seen
#include <map>

#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Mine {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};

    template <class R>
    struct Client {
#ifdef TESSERA_GOOD
        Vec<R> seen;
#else
        std::map<Id, R> seen;
#endif
    };
    auto visit(const auto& at, auto w, auto&) const {
        descend(at, w, at.epochs(1), local);
        return up(at, std::move(w));
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
