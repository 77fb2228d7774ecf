// SPDX-License-Identifier: BSD-3-Clause
// An aggregator that takes another memory than the one it declares.
// expect: tessera::Fold: an aggregator needs `void fold(context, w, rows, memory) const`
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Counting {
    static constexpr Offers offers{};
    template <class R>
    struct Memory {
        std::uint64_t rounds = 0;
    };
#ifdef TESSERA_GOOD
    void fold(const auto&, auto& w, auto rows, Memory<float>& memory) const {
#else
    void fold(const auto&, auto& w, auto rows, std::uint64_t& memory) const {
#endif
        (void)memory;
        w.assign(rows[0].x.begin(), rows[0].x.end());
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<FedAvg<rule::Sgd, Counting>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
