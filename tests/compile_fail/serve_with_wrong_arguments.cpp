// SPDX-License-Identifier: BSD-3-Clause
// serve gets a copy of the client's state; asking for a reference to it is asking to disturb training.
// expect: tessera::Method: serve must be callable as serve(context, received, Client) const
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Mine {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};

    auto visit(const auto& at, auto w, Nothing&) const {
        descend(at, w, at.epochs(1), local);
        return up(at, std::move(w));
    }

#ifdef TESSERA_GOOD
    auto serve(const auto& at, auto w, Nothing) const { return plain(at, std::move(w)); }
#else
    auto serve(const auto& at, auto w, Nothing&) const { return plain(at, std::move(w)); }
#endif
};

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
