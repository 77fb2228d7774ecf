// SPDX-License-Identifier: BSD-3-Clause
// A gate whose call forgets `saved`.
// expect: tessera::Gate: a gate needs `void operator()(routes, psi, batch, q0, saved) const`
#include <tessera/method/flow.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Mine {
    static constexpr Offers offers{};
    Vec<Segment> segments(const Routes&) const { return {}; }
    template <class R>
#ifdef TESSERA_GOOD
    void operator()(const Routes&, In<R>, const Batch<R>&, Out<R> q0, Out<R>) const {
#else
    void operator()(const Routes&, In<R>, const Batch<R>&, Out<R> q0) const {
#endif
        for (R& q : q0) q = 1;
    }
    template <class R>
    void pull_back(const Routes&, In<R>, const Batch<R>&, In<R>, In<R>, In<R>, Out<R>) const {}
};

void run(const data::FederatedDataset& clients) {
    Federation<Flow<Mine>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
