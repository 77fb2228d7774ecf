// SPDX-License-Identifier: BSD-3-Clause
// Both files of the pool dealt at random, in equal parts: sizes of two clients differ by at most one.
//
// Every example has exactly one owner. A client may have no test example when the test file is small.
#pragma once

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/settings.hpp>

namespace tessera::data {

struct Iid {
    Split operator()(const Dataset& pool, const PartitionSettings& settings) const {
        detail::check_files(pool, settings);
        std::vector<Share> shares(settings.clients);
        Stream stream(detail::key_of(settings, detail::Draw::deal));
        deal(shares, &Share::train, 0, settings.train_size, stream);
        deal(shares, &Share::test, settings.train_size, pool.size(), stream);
        return detail::finished(std::move(shares), settings);
    }

private:
    static void deal(std::vector<Share>& shares, std::vector<Index> Share::*part, std::size_t begin, std::size_t end,
                     Stream& stream) {
        std::vector<Index> order(end - begin);
        std::iota(order.begin(), order.end(), static_cast<Index>(begin));
        detail::shuffle(order, stream);
        const auto cut = [&](std::size_t k) {
            return order.begin() + static_cast<std::ptrdiff_t>(k * order.size() / shares.size());
        };
        for (std::size_t k = 0; k < shares.size(); ++k) (shares[k].*part).assign(cut(k), cut(k + 1));
    }
};

}  // namespace tessera::data
