// SPDX-License-Identifier: BSD-3-Clause
// merge gets all uploads of the round at once.
// expect: tessera::Method: merge must be callable as merge(context, Server&, span<const Upload>) const
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Mine {
    static constexpr auto by_default = verb::open | verb::send | verb::serve;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};

    auto visit(const auto& at, auto w, Nothing&) const {
        descend(at, w, at.epochs(1), local);
        return up(at, std::move(w));
    }

#ifdef TESSERA_GOOD
    void merge(const auto&, auto& server, std::span<const Up<float>> uploads) const { server.w = uploads[0].x; }
#else
    void merge(const auto&, auto& server, const Up<float>& upload) const { server.w = upload.x; }
#endif
};

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
