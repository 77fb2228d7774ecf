// SPDX-License-Identifier: BSD-3-Clause
// An order that takes one scope instead of two.
// expect: tessera::Partial: an order is callable as order(context, w, own, common) const
#include <tessera/method/partial.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct OwnOnly {
    static constexpr Offers offers{};
    rule::Sgd local{};
#ifdef TESSERA_GOOD
    void operator()(const auto& at, auto& w, const Coordinates& own, const Coordinates&) const {
#else
    void operator()(const auto& at, auto& w, const Coordinates& own) const {
#endif
        descend(at, w, at.epochs(1), local, {.on = own});
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<Partial<scope::Head, OwnOnly>, nn::Dnn<60, 20, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
