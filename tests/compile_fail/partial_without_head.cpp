// SPDX-License-Identifier: BSD-3-Clause
// A model of one body has no head to keep at home.
// expect: tessera: this scope selects nothing in this model (is there no such layer?)
#include <tessera/method/fedalt.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Mine {
    using Real = float;
    static constexpr Offers offers{};
#ifdef TESSERA_GOOD
    static constexpr Part last = Part::head;
#else
    static constexpr Part last = Part::body;
#endif
    static constexpr std::array<Segment, 2> segments{Segment{.name = "first", .part = Part::body, .offset = 0},
                                                     Segment{.name = "last", .part = last, .offset = 1}};
    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }
    double gradient(In<float>, const Batch<float>&, Out<float>) const { return 0; }
    void predict(In<float>, const Batch<float>&, Out<float>) const {}
};

void run(const data::FederatedDataset& clients) {
    Federation<FedAlt<scope::Head>, Mine> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
