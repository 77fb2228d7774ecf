// SPDX-License-Identifier: BSD-3-Clause
// Logistic regression has no adapter to train.
// expect: tessera: this scope selects nothing in this model (is there no such layer?)
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

#ifdef TESSERA_GOOD
using Own = scope::Head;
#else
using Own = scope::Adapter;
#endif

struct Mine {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};

    auto visit(const auto& at, auto w, Nothing&) const {
        descend(at, w, at.epochs(1), local, {.on = on<Own>(*at.model)});
        return up(at, std::move(w));
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
