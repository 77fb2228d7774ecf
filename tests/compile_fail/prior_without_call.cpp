// SPDX-License-Identifier: BSD-3-Clause
// A prior whose one function is missing an argument.
// expect: tessera::Prior: a prior needs `void operator()(context, w, batches, me, mu) const`
#include <tessera/method/pfedbred.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Mine {
    static constexpr Offers offers{};
    template <class R>
#ifdef TESSERA_GOOD
    void operator()(const auto&, const Vec<R>& w, const Drawn<R>&, const Personal<R>&, Vec<R>& mu) const {
#else
    void operator()(const auto&, const Vec<R>& w, const Personal<R>&, Vec<R>& mu) const {
#endif
        mu = w;
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<FedBreD<Mine>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
