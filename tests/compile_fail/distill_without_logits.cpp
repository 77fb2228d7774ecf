// SPDX-License-Identifier: BSD-3-Clause
// A model without logits has nothing to teach.
// expect: tessera::Distill: this model has no `logits` and `pullback`; only models with logits can be taught
#include <tessera/method/feddf.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Mine {
    using Real = float;
#ifdef TESSERA_GOOD
    static constexpr auto offers = offer::logits;
#else
    static constexpr Offers offers{};
#endif
    static constexpr std::array<Segment, 1> segments{Segment{.name = "w"}};
    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<float>, const Batch<float>&, Out<float>) const { return 0; }
    void predict(In<float>, const Batch<float>&, Out<float>) const {}
#ifdef TESSERA_GOOD
    void logits(In<float>, const Batch<float>&, Out<float>) const {}
    void pullback(In<float>, const Batch<float>&, In<float>, Out<float>) const {}
#endif
};

void run(const data::FederatedDataset& clients) {
    Federation<FedDf<>, Mine> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
