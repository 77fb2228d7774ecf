// SPDX-License-Identifier: BSD-3-Clause
// The same, noticed where server and clients agree on it.
// expect: tessera::Model: a model needs `void predict(x, batch, out) const`
#include <array>

#include <tessera/method/fedavg.hpp>
#include <tessera/runtime/setup.hpp>

using namespace tessera;

struct Constant {
    using Real = float;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 1> segments{Segment{.name = "bias", .shape = {10, 1, 1, 1}}};

    Layout layout() const { return segments; }
    std::size_t outputs() const { return 10; }
    double gradient(In<float>, const Batch<float>&, Out<float>) const { return 0; }
#ifdef TESSERA_GOOD
    void predict(In<float>, const Batch<float>&, Out<float>) const {}
#endif
};

Setup<FedAvg<>, Constant> agree() { return {{}, {}, {}}; }
