// SPDX-License-Identifier: BSD-3-Clause
// Client 0 of the toy data to stand on, for visits that are called directly.
#pragma once

#include <tessera/contracts/context.hpp>

#include <support/toy_data.hpp>

namespace tessera::support {

template <class M>
struct ToyPlace {
    using R = real<M>;
    M model{};
    data::FederatedDataset data = toy_data();
    Vec<R> initial = initial_parameters(model, Key{1});
    Workspace<R> workspace{};

    ToyPlace() = default;
    ToyPlace(const ToyPlace&) = delete;
    ToyPlace& operator=(const ToyPlace&) = delete;

    Context<M> context() {  // 17 examples: batches of 5, 5, 5, 2
        const auto share = data[0];
        return {.model = &model, .examples = share.examples, .ids = share.train, .key = Key{2}, .batch = 5,
                .initial = &initial, .workspace = &workspace};
    }
};

}  // namespace tessera::support
