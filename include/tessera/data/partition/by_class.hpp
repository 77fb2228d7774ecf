// SPDX-License-Identifier: BSD-3-Clause
// A file of the pool as one list of examples per class, and the draws that partitioners make from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/settings.hpp>

namespace tessera::data::detail {

using ClassLists = std::vector<std::vector<Index>>;

// Examples begin..end-1 of the pool, in pool order within each class.
inline ClassLists by_class(const Dataset& pool, std::size_t begin, std::size_t end) {
    ClassLists lists(pool.examples().classes);
    for (std::size_t i = begin; i < end; ++i)
        lists[static_cast<std::size_t>(pool.label(i))].push_back(static_cast<Index>(i));
    return lists;
}

inline void shuffle(ClassLists& lists, Stream& stream) {
    for (auto& list : lists) shuffle(list, stream);
}

inline Index take_last(std::vector<Index>& list) {
    const Index last = list.back();
    list.pop_back();
    return last;
}

// A class ~ p among those that have examples left, uniform among them when p gives them nothing: what
// drawing again until a class has some would give, but in one draw. Needs: some class is not empty.
inline std::size_t draw_class(Stream& stream, std::span<const double> p, const ClassLists& left) {
    double mass = 0;
    std::size_t open = 0;
    for (std::size_t c = 0; c < left.size(); ++c)
        if (!left[c].empty()) {
            mass += p[c];
            ++open;
        }
    const bool liked = mass > 0;
    double rest = liked ? stream.uniform() * mass : static_cast<double>(stream.below(open));
    std::size_t chosen = left.size();
    for (std::size_t c = 0; c < left.size(); ++c) {
        const double step = liked ? p[c] : 1;
        if (left[c].empty() || step == 0) continue;
        chosen = c;  // the last one stands if rounding leaves `rest` at zero or above
        if ((rest -= step) < 0) break;
    }
    return chosen;
}

// Test sets with each client's own label shares: for a target of T = ceil(test file /
// clients) examples, ceil(T * share of the label among the client's training examples), or all there are of
// it. No repetition inside a client; clients may overlap.
inline void match_tests(std::vector<Share>& shares, const Dataset& pool, const PartitionSettings& s) {
    auto lists = by_class(pool, s.train_size, pool.size());
    const std::size_t target = (pool.size() - s.train_size + s.clients - 1) / s.clients;
    Stream stream(key_of(s, Draw::tests));
    std::vector<std::size_t> count(lists.size());
    for (auto& share : shares) {
        std::fill(count.begin(), count.end(), std::size_t{0});
        for (const Index i : share.train) ++count[static_cast<std::size_t>(pool.label(i))];
        for (std::size_t c = 0; c < lists.size(); ++c) {
            if (count[c] == 0) continue;
            auto& list = lists[c];
            const std::size_t n = share.train.size();
            const std::size_t wanted = std::min(list.size(), (target * count[c] + n - 1) / n);
            // The front of a fresh permutation; shuffling on from the last client's is as uniform.
            for (std::size_t i = 0; i < wanted; ++i) {
                std::swap(list[i], list[i + stream.below(list.size() - i)]);
                share.test.push_back(list[i]);
            }
        }
    }
}

}  // namespace tessera::data::detail
