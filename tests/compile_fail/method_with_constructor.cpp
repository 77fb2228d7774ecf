// SPDX-License-Identifier: BSD-3-Clause
// What a method with a constructor holds cannot be looked into, so nobody would check it.
// expect: tessera::Method: a method with constructors or private members must check its settings
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Mine {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
#ifdef TESSERA_GOOD
    static constexpr auto offers = offer::validate;
#else
    static constexpr Offers offers{};
#endif
    rule::Sgd local{};
    fold::Mean fold{};

    explicit Mine(double rate) : local{.rate = rate} {}
    auto visit(const auto& at, auto w, Nothing&) const {
        descend(at, w, at.epochs(1), local);
        return up(at, std::move(w));
    }
#ifdef TESSERA_GOOD
    void validate() const { local.validate(); }
#endif
};

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, Mine(0.1)};
    federation.round(sample::Everyone{});
}
