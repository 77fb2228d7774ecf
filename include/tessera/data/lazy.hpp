// SPDX-License-Identifier: BSD-3-Clause
// Clients whose rows are loaded when they are visited, and let go when others need the room.
//
//   const auto clients = data::lazy({.width = 784, .classes = 10, .clients = {...}}, [](Id client) { return
//   rows_of(client); });
//
// What is known of everybody are the labels, four bytes an example. A load may be asked for again at any time and from
// any thread, and must give the same rows.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>

namespace tessera::data {

struct LazyClient {
    std::vector<std::int32_t> labels{};  // of its examples, in the order of its rows
    std::size_t test = 0;                // so many of the last are for tests
    std::uint64_t key = 0;               // names its random streams; 0: by its number
};
struct LazyPopulation {
    std::size_t width = 0, classes = 0;
    std::vector<LazyClient> clients{};
    std::size_t most = std::size_t{256} << 20;  // bytes of rows that are kept; the client that is read is always
    Fingerprint content{};                      // of all rows, if it is known; else a checkpoint loads everybody once
};

namespace detail {

// The rows of the clients that were read last.
template <class Load>
class RowsByClient {
public:
    RowsByClient(Load load, std::size_t width, std::size_t most, std::vector<std::size_t> begins)
        : load_(std::move(load)), width_(width), most_(most), begins_(std::move(begins)) {}

    void fetch(std::size_t example, std::span<float> out) const {
        const auto after = std::upper_bound(begins_.begin(), begins_.end(), example);
        const auto client = static_cast<Id>(after - begins_.begin() - 1);
        const auto rows = rows_of(client);
        const auto* from = rows->data() + (example - begins_[client]) * width_;
        std::copy(from, from + width_, out.begin());
    }

private:
    using Rows = std::shared_ptr<const std::vector<float>>;
    struct Held {
        Id client;
        Rows rows;
    };

    Rows rows_of(Id client) const {
        {
            const std::lock_guard hold(lock_);
            if (const auto at = where_.find(client); at != where_.end()) {
                held_.splice(held_.begin(), held_, at->second);  // the last to go
                return at->second->rows;
            }
        }
        // Without the lock: two threads that miss one client both load it, others go on.
        auto rows = std::make_shared<const std::vector<float>>(load_(client));
        if (rows->size() != (begins_[client + 1] - begins_[client]) * width_)
            throw ConfigError("data::lazy: client " + std::to_string(client) + " has " +
                              std::to_string(begins_[client + 1] - begins_[client]) + " labels of examples of " +
                              std::to_string(width_) + " numbers, but " + std::to_string(rows->size()) +
                              " numbers were loaded");
        const std::lock_guard hold(lock_);
        if (const auto at = where_.find(client); at != where_.end()) return at->second->rows;
        held_.push_front({client, rows});
        where_[client] = held_.begin();
        bytes_ += rows->size() * sizeof(float);
        while (bytes_ > most_ && held_.size() > 1) {
            bytes_ -= held_.back().rows->size() * sizeof(float);
            where_.erase(held_.back().client);
            held_.pop_back();
        }
        return rows;
    }

    Load load_;
    std::size_t width_, most_;
    std::vector<std::size_t> begins_;  // of each client's examples, and the end
    mutable std::mutex lock_;
    mutable std::list<Held> held_{};
    mutable std::unordered_map<Id, typename std::list<Held>::iterator> where_{};
    mutable std::size_t bytes_ = 0;
};

}  // namespace detail

// load(client) gives its rows, one after the other.
template <class Load>
    requires std::convertible_to<std::invoke_result_t<const Load&, Id>, std::vector<float>>
FederatedDataset lazy(LazyPopulation people, Load load) {
    detail::require(people.width > 0, "data::lazy: width is 0");
    std::vector<std::size_t> begins{0};
    std::vector<std::int32_t> labels;
    Split split;
    for (auto& client : people.clients) {
        detail::require(
            client.test <= client.labels.size(),
            "data::lazy: client " + std::to_string(split.clients.size()) + " has fewer examples than tests");
        Share share{.key = client.key};
        const auto first = static_cast<Index>(labels.size());
        const std::size_t train = client.labels.size() - client.test;
        share.train.resize(train);
        share.test.resize(client.test);
        std::iota(share.train.begin(), share.train.end(), first);
        std::iota(share.test.begin(), share.test.end(), first + static_cast<Index>(train));
        labels.insert(labels.end(), client.labels.begin(), client.labels.end());
        begins.push_back(labels.size());
        split.clients.push_back(std::move(share));
    }
    detail::require(!labels.empty() && labels.size() <= std::size_t{~Index{}}, "data::lazy: no examples, or too many");
    const auto rows = std::make_shared<detail::RowsByClient<Load>>(std::move(load), people.width, people.most, begins);
    const auto fetch = [rows](std::size_t i, std::span<float> out) { rows->fetch(i, out); };
    if (people.content == Fingerprint{})
        return {Dataset::from(fetch, people.width, std::move(labels), people.classes), std::move(split)};
    return {Dataset::from(fetch, people.width, std::move(labels), people.classes,
                          [content = people.content] { return content; }),
            std::move(split)};
}

}  // namespace tessera::data
