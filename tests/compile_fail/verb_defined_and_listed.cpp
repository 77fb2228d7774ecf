// SPDX-License-Identifier: BSD-3-Clause
// A verb cannot be written and left to its default.
// expect: tessera::Method: `send` must be a member or be listed in `by_default`, not both
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Mine {
    static constexpr auto by_default = 
#ifdef TESSERA_GOOD
        verb::open | verb::merge | verb::serve
#else
        verb::open | verb::merge | verb::serve | verb::send
#endif
        ;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};

    auto send(const auto& server, Id) const { return server.w; }

    auto visit(const auto& at, auto w, Nothing&) const {
        descend(at, w, at.epochs(1), local);
        return up(at, std::move(w));
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
