// SPDX-License-Identifier: BSD-3-Clause
// The training file sorted by label, cut into clients * pieces equal pieces, `pieces` at random to each
// client (McMahan et al., AISTATS 2017, section 3): most clients see about `pieces` classes.
//
// Every training example has exactly one owner. Test sets are label-matched, so clients
// may share test examples. Needs: class labels; pieces <= classes, clients * pieces <= train_size.
#pragma once

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/by_class.hpp>
#include <tessera/data/partition/settings.hpp>

namespace tessera::data {

struct Shards {
    std::size_t pieces = 2;  // K, per client

    Split operator()(const Dataset& pool, const PartitionSettings& settings) const {
        detail::check_files(pool, settings);
        detail::check_labels(pool, "shards");
        detail::check_per_client(pool, settings, pieces, settings.train_size, "shards: pieces");

        Stream stream(detail::key_of(settings, detail::Draw::deal));
        auto lists = detail::by_class(pool, 0, settings.train_size);
        detail::shuffle(lists, stream);
        std::vector<Index> sorted;
        sorted.reserve(settings.train_size);
        for (const auto& list : lists) sorted.insert(sorted.end(), list.begin(), list.end());

        std::vector<std::size_t> order(settings.clients * pieces);
        std::iota(order.begin(), order.end(), std::size_t{0});
        detail::shuffle(order, stream);
        const auto cut = [&](std::size_t piece) {
            return sorted.begin() + static_cast<std::ptrdiff_t>(piece * sorted.size() / order.size());
        };
        std::vector<Share> shares(settings.clients);
        for (std::size_t i = 0; i < order.size(); ++i) {
            auto& train = shares[i / pieces].train;
            train.insert(train.end(), cut(order[i]), cut(order[i] + 1));
        }
        detail::match_tests(shares, pool, settings);
        return detail::finished(std::move(shares), settings);
    }
};

}  // namespace tessera::data
