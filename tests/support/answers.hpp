// SPDX-License-Identifier: BSD-3-Clause
// What client k is served, on its own test data: the raw outputs.
#pragma once

#include <utility>

#include <tessera/runtime/federation.hpp>

namespace tessera::support {

template <class Me, class M>
Vec<real<M>> answers(const Federation<Me, M>& run, Id k = 0) {
    using R = real<M>;
    Workspace<R> workspace;
    const auto share = run.data()[k];
    Vec<R> out(share.test.size() * run.setup().model.outputs());
    run.at_client(k, workspace, [&](const auto& client, auto received, auto& space) {
        client.serve(std::move(received), run.rounds_done(), space)(Batch<R>(*share.examples, share.test), Out<R>(out));
        return 0;
    });
    return out;
}

}  // namespace tessera::support
