// SPDX-License-Identifier: BSD-3-Clause
// A small skewed classification federation: clients prefer some classes and hold different numbers of examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>

namespace tessera::support {

struct Toy {
    std::size_t clients = 6;
    std::size_t train = 17, extra = 5;  // client k trains on train + extra * (k % 3) examples
    std::size_t test = 6;
    std::size_t unseen = 0;
    std::uint64_t seed = 5;
    static constexpr std::size_t width = 8, classes = 4;
};

inline data::FederatedDataset toy_data(const Toy& toy = {}) {
    std::vector<float> rows;
    std::vector<std::int32_t> labels;
    Stream draw(Key{toy.seed}(purpose::synthetic));
    const auto more = [&](std::size_t client, std::size_t count) {
        std::vector<Index> ids;
        for (std::size_t i = 0; i < count; ++i) {
            const bool own = draw.uniform() < 0.7;
            const std::size_t label = own ? client % Toy::classes : static_cast<std::size_t>(draw.below(Toy::classes));
            ids.push_back(static_cast<Index>(labels.size()));
            labels.push_back(static_cast<std::int32_t>(label));
            for (std::size_t j = 0; j < Toy::width; ++j)
                rows.push_back(static_cast<float>(draw.normal() + (j % Toy::classes == label ? 1.5 : 0)));
        }
        return ids;
    };
    data::Split split;
    for (std::size_t k = 0; k < toy.clients + toy.unseen; ++k) {
        data::Share share;
        share.key = 1000 + 7 * k;
        share.train = more(k, toy.train + toy.extra * (k % 3));
        share.test = more(k, toy.test);
        (k < toy.clients ? split.clients : split.unseen).push_back(std::move(share));
    }
    return {data::Dataset::own(std::move(rows), std::move(labels), Toy::classes), std::move(split)};
}

// The same population with client k's share at place to[k].
inline data::FederatedDataset relabelled(const data::FederatedDataset& data, const std::vector<std::size_t>& to) {
    data::Split split = data.split();
    for (std::size_t k = 0; k < to.size(); ++k) split.clients[to[k]] = data.split().clients[k];
    return {data.pool(), std::move(split)};
}

}  // namespace tessera::support
