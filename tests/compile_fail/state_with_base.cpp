// SPDX-License-Identifier: BSD-3-Clause
// State with a base cannot be taken apart.
// expect: tessera: a reflected struct has no base; make it the first field
#include <cstdint>

#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Seen {
    std::uint64_t visits = 0;
};
struct Mine {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};

    template <class R>
#ifdef TESSERA_GOOD
    struct Client {
        Seen seen;
#else
    struct Client : Seen {
#endif
        Vec<R> w;
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
