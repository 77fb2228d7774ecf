// SPDX-License-Identifier: BSD-3-Clause
// The owners the data came with: settings.client_of names each example's client.
//
// With a train_size the two files stand. With train_size 0 the pool is one file: each client's examples are
// shuffled, and the first max(1, floor(train_share * n)) train. Every example has exactly one owner.
// Needs: client_of as long as the pool, numbers below clients; a number nobody has is an empty client.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/settings.hpp>

namespace tessera::data {

struct Natural {
    double train_share = 0.9;  // in (0, 1]

    Split operator()(const Dataset& pool, const PartitionSettings& settings) const {
        const bool files = settings.train_size > 0;
        files ? detail::check_files(pool, settings) : detail::check(pool, settings);
        detail::require(train_share > 0 && train_share <= 1,
                        "natural: train_share is " + std::to_string(train_share) + "; it must be in (0, 1]");
        const auto owner = settings.client_of;
        detail::require(owner.size() == pool.size(), "natural: client_of names " + std::to_string(owner.size()) +
                                                         " owners for " + std::to_string(pool.size()) + " examples");

        std::vector<Share> shares(settings.clients);
        for (std::size_t i = 0; i < pool.size(); ++i) {
            detail::require(owner[i] < settings.clients, "natural: client_of says client " + std::to_string(owner[i]) +
                                                             " for example " + std::to_string(i) + ", but clients is " +
                                                             std::to_string(settings.clients));
            auto& share = shares[owner[i]];
            (files && i >= settings.train_size ? share.test : share.train).push_back(static_cast<Index>(i));
        }
        if (!files)
            for (std::size_t k = 0; k < shares.size(); ++k) cut(shares[k], k, settings);
        return detail::finished(std::move(shares), settings);
    }

private:
    void cut(Share& share, std::size_t client, const PartitionSettings& settings) const {
        auto& all = share.train;
        if (all.empty()) return;
        Stream stream(detail::key_of(settings, detail::Draw::deal)(client));
        detail::shuffle(all, stream);
        const std::size_t kept = std::max<std::size_t>(1, detail::part_of(train_share, all.size()));
        share.test.assign(all.begin() + static_cast<std::ptrdiff_t>(kept), all.end());
        all.resize(kept);
    }
};

}  // namespace tessera::data
