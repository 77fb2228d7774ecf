// SPDX-License-Identifier: BSD-3-Clause
// visit must take the client's state, even when there is none.
// expect: tessera::Method: visit must be callable as visit(context, received, Client&) const and return what goes up
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

#ifdef TESSERA_GOOD
    auto visit(const auto& at, auto w, Nothing&) const { return up(at, std::move(w)); }
#else
    auto visit(const auto& at, auto w) const { return up(at, std::move(w)); }
#endif
};

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
