// SPDX-License-Identifier: BSD-3-Clause
// A divergence that is only a convex function of one number: General was forgotten.
// expect: tessera::Divergence: a divergence needs `value`, `gradient`, `envelope`, `mean`, `project` and `admit`
#include <tessera/divergence/general.hpp>
#include <tessera/method/pfedbred.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <cmath>
#include <limits>
#include <string_view>

using namespace tessera;

struct Quartic {
    static constexpr Offers offers{};
    static constexpr std::string_view name = "Quartic";
    static constexpr double low = -std::numeric_limits<double>::infinity(), high = -low;
    template <class R> static R value(R x) { return x * x * x * x / 4; }
    template <class R> static R slope(R x) { return x * x * x; }
    template <class R> static R curvature(R x) { return 3 * x * x; }
    template <class R> static R mean(R s) { return std::cbrt(s); }
};
#ifdef TESSERA_GOOD
using Mine = divergence::General<Quartic>;
#else
using Mine = Quartic;
#endif

void run(const data::FederatedDataset& clients) {
    Federation<FedBreD<prior::Identity, Mine>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
