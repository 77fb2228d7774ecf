// SPDX-License-Identifier: BSD-3-Clause
// A method with a verb that nobody would ever call.
// expect: tessera::Method: `merge` must be a member or be listed in `by_default`, not both; is it misspelt?
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
    void merge(const auto& context, auto& server, auto uploads) const {
#else
    void mergee(const auto& context, auto& server, auto uploads) const {
#endif
        const auto rows = rows_of(uploads);
    fold_rows(fold, context, server.w, Rows<float>(rows), server.fold);
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<Mine, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
