// SPDX-License-Identifier: BSD-3-Clause
// What a reader finds: examples, which of them were the training file, and whose they were where the files say so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/natural.hpp>
#include <tessera/data/partition/settings.hpp>

namespace tessera::data {

struct Pool {
    Dataset examples;
    std::size_t train_size = 0;          // the first so many were the training file; 0: there was one file only
    std::vector<std::string> clients{};  // names of the owners, sorted; empty where nobody owns anything
    std::vector<Id> client_of{};         // whose each example is, a place in `clients`

    // What a client must have to take part.
    struct Least {
        std::size_t train = 1, test = 0;
    };

    // The owners' own split (Natural). `settings` is read for the seed, validation and held-out clients.
    FederatedDataset federated(PartitionSettings settings = {}, Least least = {1, 0}) const {
        detail::require(!clients.empty(), "data::Pool: these files name no clients; use a partitioner");
        settings.clients = clients.size();
        settings.train_size = train_size;
        settings.client_of = client_of;
        settings.allow_empty = true;
        auto split = Natural{}(examples, settings);
        const auto too_few = [&](const Share& share) {
            return share.train.size() < least.train || share.test.size() < least.test;
        };
        std::erase_if(split.clients, too_few);
        std::erase_if(split.unseen, too_few);
        detail::require(!split.clients.empty(), "data::Pool: no client has the " + std::to_string(least.train) +
                                                    " training and " + std::to_string(least.test) +
                                                    " test examples that are asked for");
        return {examples, std::move(split)};
    }

    const std::string& name_of(const Share& share) const {
        const auto& held = !share.train.empty() ? share.train : share.test;
        detail::require(!clients.empty() && !held.empty(), "data::Pool: an empty share has no name");
        return clients[client_of[held.front()]];
    }
};

}  // namespace tessera::data
