// SPDX-License-Identifier: BSD-3-Clause
// Neighbours are found by what the last layer reads; a model that does not show it has none.
// expect: tessera::KnnPer: this model has no `features`, by which neighbours are found
#include <tessera/method/knn_per.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Mine {
    using Real = float;
#ifdef TESSERA_GOOD
    static constexpr auto offers = offer::features;
#else
    static constexpr Offers offers{};
#endif
    static constexpr std::array<Segment, 1> segments{Segment{.name = "w"}};
    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<float>, const Batch<float>&, Out<float>) const { return 0; }
    void predict(In<float>, const Batch<float>&, Out<float>) const {}
#ifdef TESSERA_GOOD
    std::size_t feature_width() const { return 1; }
    void features(In<float>, const Batch<float>&, Out<float>) const {}
#endif
};

void run(const data::FederatedDataset& clients) {
    Federation<KnnPer<>, Mine> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
