// SPDX-License-Identifier: BSD-3-Clause
// A few consecutive classes per client, sizes log-normal (the Fashion-MNIST script of the pFedMe family).
//
//   1. client u, j < labels: ten examples of class c = (u + j) mod classes;
//   2. P[c] ~ LogNormal(0, sigma), clients x labels numbers scaled to the sum |c| - held_back;
//   3. n = floor(P[c][u / max(1, N/10)][j]) * randint(1..10) + randint(10..200), doubled when N <= 20;
//      taken from class c if fewer than |c| are then used up, else nothing;
//   4. the client's examples shuffled: the first floor(train_share * n) train, the rest test.
//
// Rows of P are shared by N/10 consecutive clients, as in the scripts. Every example has at most one owner;
// the pool is one file (train_size is not read). A pool too small for step 1 gives what is left, and a class
// of at most held_back examples has P = 0. Needs: class labels; clients * labels <= pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/by_class.hpp>
#include <tessera/data/partition/settings.hpp>

namespace tessera::data {

struct LogNormal {
    std::size_t labels = 2;        // K, classes per client
    double sigma = 2;              // in [0, 50]
    std::size_t held_back = 1000;  // X: of each class, not counted when P is scaled
    double train_share = 0.75;     // in (0, 1]

    Split operator()(const Dataset& pool, const PartitionSettings& settings) const {
        detail::check(pool, settings);
        detail::check_labels(pool, "lognormal");
        detail::check_per_client(pool, settings, labels, pool.size(), "lognormal: labels");
        detail::require(sigma >= 0 && sigma <= 50,  // beyond, exp(sigma * normal) is not a finite double
                        "lognormal: sigma is " + std::to_string(sigma) + "; it must be in [0, 50]");
        detail::require(train_share > 0 && train_share <= 1,
                        "lognormal: train_share is " + std::to_string(train_share) + "; it must be in (0, 1]");

        const std::size_t n = settings.clients;
        const auto lists = detail::by_class(pool, 0, pool.size());
        std::vector<std::size_t> used(lists.size());
        std::vector<std::vector<Index>> held(n);
        const auto take = [&](std::size_t u, std::size_t c, std::size_t count) {
            const auto from = lists[c].begin() + static_cast<std::ptrdiff_t>(used[c]);
            held[u].insert(held[u].end(), from, from + static_cast<std::ptrdiff_t>(count));
            used[c] += count;
        };
        for (std::size_t u = 0; u < n; ++u)
            for (std::size_t j = 0; j < labels; ++j) {
                const std::size_t c = (u + j) % lists.size();
                take(u, c, std::min<std::size_t>(10, lists[c].size() - used[c]));
            }

        const std::size_t neighbours = std::max<std::size_t>(1, n / 10);
        const auto amounts = drawn_amounts(lists, settings, (n - 1) / neighbours + 1);
        std::vector<Share> shares(n);
        for (std::size_t u = 0; u < n; ++u) {
            Stream stream(detail::key_of(settings, detail::Draw::deal)(u));
            for (std::size_t j = 0; j < labels; ++j) {
                const std::size_t c = (u + j) % lists.size();
                const std::size_t extra = 10 + stream.below(191), times = 1 + stream.below(10);
                std::size_t count = amounts[c][u / neighbours * labels + j] * times + extra;
                if (n <= 20) count *= 2;
                if (used[c] + count < lists[c].size()) take(u, c, count);
            }
            detail::shuffle(held[u], stream);
            const auto cut =
                held[u].begin() + static_cast<std::ptrdiff_t>(detail::part_of(train_share, held[u].size()));
            shares[u].train.assign(held[u].begin(), cut);
            shares[u].test.assign(cut, held[u].end());
        }
        return detail::finished(std::move(shares), settings);
    }

private:
    // floor(P[c][row][j]) of the rows that are used; all clients' numbers count in the sum that scales them.
    std::vector<std::vector<std::size_t>> drawn_amounts(const detail::ClassLists& lists,
                                                        const PartitionSettings& settings, std::size_t rows) const {
        std::vector<std::vector<std::size_t>> amounts(lists.size());
        std::vector<double> first(rows * labels);
        for (std::size_t c = 0; c < lists.size(); ++c) {
            Stream stream(detail::key_of(settings, detail::Draw::sizes)(c));
            double sum = 0;
            for (std::size_t i = 0; i < settings.clients * labels; ++i) {
                const double draw = stream.lognormal(0, sigma);
                if (i < first.size()) first[i] = draw;
                sum += draw;
            }
            const std::size_t size = lists[c].size();
            const double total = size > held_back ? static_cast<double>(size - held_back) : 0;
            for (const double draw : first) amounts[c].push_back(static_cast<std::size_t>(draw / sum * total));
        }
        return amounts;
    }
};

}  // namespace tessera::data
