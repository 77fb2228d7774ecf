// SPDX-License-Identifier: BSD-3-Clause
// What every partitioner is told, and the last steps all of them share: who is empty, what is kept for
// validation, who is held out.
//
// A client's key and its validation draw depend on the seed and on its number in the partition, before
// anybody is held out; so `unseen` and `validation` never change what the other clients see. Fewer held-out
// clients are a subset of more.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>

namespace tessera::data {

struct PartitionSettings {
    std::size_t clients = 100;
    std::uint64_t seed = 0;
    std::size_t train_size = 0;       // the pool's first examples are its training file, the rest its test file
    double validation = 0;            // share of each client's training examples set aside, in [0, 1), rounded down
    std::size_t unseen = 0;           // clients held out of training, fewer than clients
    bool allow_empty = false;         // keep clients without a training example; they are never sampled
    std::span<const Id> client_of{};  // Natural only: whose each example of the pool is
};

namespace detail {

using tessera::detail::require;

// What a draw is for: partitioners do not share random numbers with the steps that follow them.
enum class Draw : std::uint64_t { deal, preference, sizes, tests, validation, unseen };

inline Key key_of(const PartitionSettings& settings, Draw what) {
    return Key{settings.seed}(purpose::partition)(static_cast<std::uint64_t>(what));
}

template <class T>
void shuffle(std::vector<T>& items, Stream& stream) {
    stream.shuffle(std::span<T>(items));
}

// floor(share * n) of the decimal number that was meant: 0.29 of 100 is 29, although 0.29 * 100 < 29.
inline std::size_t part_of(double share, std::size_t n) {
    return std::min(n, static_cast<std::size_t>(share * static_cast<double>(n) + 1e-9));
}

inline void check(const Dataset& pool, const PartitionSettings& s) {
    require(s.clients > 0, "partition: clients is 0; it must be at least 1");
    require(s.clients <= std::numeric_limits<Id>::max(),
            "partition: clients is " + std::to_string(s.clients) + "; a client's number has 32 bits");
    require(pool.size() <= std::numeric_limits<Index>::max(),
            "partition: the pool has " + std::to_string(pool.size()) + " examples; an example's number has 32 bits");
    require(s.validation >= 0 && s.validation < 1,
            "partition: validation is " + std::to_string(s.validation) + "; it must be in [0, 1)");
    require(s.unseen < s.clients, "partition: unseen is " + std::to_string(s.unseen) +
                                      "; it must be less than clients, which is " + std::to_string(s.clients));
}

// For partitioners that deal a training file and a test file.
inline void check_files(const Dataset& pool, const PartitionSettings& s) {
    check(pool, s);
    require(s.train_size > 0 && s.train_size <= pool.size(),
            "partition: train_size is " + std::to_string(s.train_size) + "; it must be in 1.." +
                std::to_string(pool.size()) + ", the size of the pool");
}

inline void check_labels(const Dataset& pool, const std::string& who) {
    require(pool.examples().labels != nullptr, who + ": the pool has no class labels to partition by");
    require(pool.examples().labels_each == 1, who + ": the pool has " + std::to_string(pool.examples().labels_each) +
                                                  " labels an example; to partition by class, one is needed");
}

// K pieces or classes per client.
inline void check_per_client(const Dataset& pool, const PartitionSettings& s, std::size_t k, std::size_t examples,
                             const std::string& field) {
    require(k > 0, field + " is 0; it must be at least 1");
    require(k <= pool.examples().classes, field + " is " + std::to_string(k) + ", more than the " +
                                              std::to_string(pool.examples().classes) + " classes of the pool");
    require(k <= examples / s.clients, field + " is " + std::to_string(k) + " for each of " +
                                           std::to_string(s.clients) + " clients, more than the " +
                                           std::to_string(examples) + " examples to deal");
}

inline void check_alpha(double alpha, const std::string& who) {
    // Below 1e-300 the logarithm of a Gamma draw is no longer a finite double.
    require(std::isfinite(alpha) && alpha >= 1e-300,
            who + ": alpha is " + std::to_string(alpha) + "; it must be a finite number above 0");
}

inline void set_validation_aside(Share& share, std::size_t client, const PartitionSettings& s) {
    const std::size_t n = share.train.size();
    if (s.validation == 0 || n == 0) return;
    Stream stream(key_of(s, Draw::validation)(client));
    shuffle(share.train, stream);
    const auto kept = static_cast<std::ptrdiff_t>(n - std::min(n - 1, part_of(s.validation, n)));
    share.validation.assign(share.train.begin() + kept, share.train.end());
    share.train.resize(static_cast<std::size_t>(kept));
}

// Which clients are held out: the last `unseen` of one keyed order, so fewer are a subset of more.
inline std::vector<bool> held_out(const PartitionSettings& s) {
    std::vector<Id> order(s.clients);
    std::iota(order.begin(), order.end(), Id{0});
    Stream stream(key_of(s, Draw::unseen));
    shuffle(order, stream);
    std::vector<bool> held(s.clients);
    for (std::size_t i = s.clients - s.unseen; i < s.clients; ++i) held[order[i]] = true;
    return held;
}

inline Split finished(std::vector<Share> shares, const PartitionSettings& s) {
    const auto held = held_out(s);
    Split split;
    for (std::size_t k = 0; k < shares.size(); ++k) {
        require(s.allow_empty || !shares[k].train.empty(),
                "partition: client " + std::to_string(k) +
                    " has no training example; use fewer clients, or set allow_empty to keep it unsampled");
        shares[k].key = Key{s.seed}(purpose::client)(k).key;
        set_validation_aside(shares[k], k, s);
        (held[k] ? split.unseen : split.clients).push_back(std::move(shares[k]));
    }
    return split;
}

}  // namespace detail

}  // namespace tessera::data
