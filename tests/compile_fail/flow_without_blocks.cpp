// SPDX-License-Identifier: BSD-3-Clause
// Flow on a model that cannot be routed.
// expect: tessera::RoutableModel: the method routes examples through blocks, so the model needs `routes`
#include <tessera/method/flow.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Bare {
    using Real = float;
    static constexpr Offers offers{};
    Layout layout() const { return {}; }
    std::size_t outputs() const { return 1; }
    double gradient(In<float>, const Batch<float>&, Out<float>) const { return 0; }
    void predict(In<float>, const Batch<float>&, Out<float>) const {}
};
#ifdef TESSERA_GOOD
using Mine = nn::Mclr<60, 10>;
#else
using Mine = Bare;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<Flow<>, Mine> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
