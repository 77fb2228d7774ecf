// SPDX-License-Identifier: BSD-3-Clause
// Methods whose clients hear of each other's models: what a server keeps of everybody, whom it shows to whom, and what
// a client makes of what it is shown.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>

#include <tessera/contracts/context.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/report/score.hpp>

namespace tessera::detail {

template <class R>
struct Peer {
    Id id = 0;
    Vec<R> w;
};
struct Affinity {
    Id to = 0;
    double value = 0;
};

// A client as the server knows it; all is empty until it came.
template <class R>
struct Known {
    Vec<R> w;
    Vec<double> affinity;    // its row of P
    std::uint64_t name = 0;  // drawn by its own key: its place in lots, whatever its number
};

template <class R>
struct Acquaintances {
    Vec<Known<R>> all;
    std::uint64_t parameters = 0;
    std::uint64_t draw = 0;  // of the round

    // At most `count` others that came, by affinity or, with chance `explore`, by lot. Equal ones come by lot too: the
    // order reads names and never numbers, so relabelling clients changes nothing.
    Vec<Peer<R>> shown_to(Id k, std::size_t count, double explore) const {
        const Known<R> nobody;
        const Known<R>& me = k < all.size() ? all[k] : nobody;
        const Key mine = Key{draw}(me.name);
        const bool by_lot = me.affinity.empty() || Stream(mine).uniform() < explore;
        Vec<std::tuple<double, std::uint64_t, Id>> order;
        for (Id j = 0; j < all.size(); ++j)
            if (j != k && !all[j].w.empty())
                order.emplace_back(by_lot ? 0 : -me.affinity[j], Stream(mine(all[j].name)).word64(), j);
        const std::size_t n = std::min(count, order.size());
        std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end());
        Vec<Peer<R>> shown;
        for (std::size_t i = 0; i < n; ++i) shown.push_back({std::get<Id>(order[i]), all[std::get<Id>(order[i])].w});
        return shown;
    }
    void take(const auto& uploads, Key round) {
        for (const auto& up : uploads) {
            Known<R>& one = all[up.from];
            one.affinity.resize(all.size());
            for (const Affinity& a : up.affinities) one.affinity[a.to] += a.value;
            one.w = up.w;
            one.name = up.name;
        }
        draw = Stream(round).word64();
    }
    // One of whom nothing is known has neither model nor affinities.
    bool like(const Acquaintances& opened) const {
        return all.size() == opened.all.size() && parameters == opened.parameters &&
               std::ranges::all_of(all, [&](const Known<R>& one) {
                   const bool came = !one.w.empty();
                   return one.w.size() == (came ? parameters : 0) && one.affinity.size() == (came ? all.size() : 0);
               });
    }
    bool admits(Id from, const auto& up, std::size_t count) const {
        return up.from == from && up.w.size() == parameters && up.affinities.size() <= count &&
               std::ranges::all_of(up.affinities, [&](const Affinity& a) { return a.to < all.size(); });
    }
};

// At most so many, each a whole model.
template <class R>
bool are_models(const Vec<Peer<R>>& peers, std::size_t most, std::size_t parameters) {
    return peers.size() <= most &&
           std::ranges::all_of(peers, [&](const Peer<R>& peer) { return peer.w.size() == parameters; });
}

// (L(own) - L(theirs)) / |theirs - own|, L the mean loss on `judges`. Models that do not differ, and losses that are no
// numbers, tell nothing: 0. Nobody is judged where there is no judge.
template <class M>
Vec<Affinity> affinities(const Context<M>& at, std::span<const Index> judges, const Vec<real<M>>& own,
                         const Vec<Peer<real<M>>>& peers) {
    using R = real<M>;
    const auto loss = [&](const Vec<R>& w) {
        const auto predict = [&](const Batch<R>& b, Out<R> out) { at.model->predict(w, b, out); };
        const auto all = score(*at.model, at.id, predict, *at.examples, judges);
        return all.loss_sum / static_cast<double>(all.n);
    };
    Vec<Affinity> all;
    if (judges.empty() || peers.empty()) return all;
    const double mine = loss(own);
    for (const auto& [id, w] : peers) {
        double apart = 0;
        kernels::squared_distance(w.data(), 1.0, own.data(), own.size(), &apart);
        const double value = (mine - loss(w)) / std::sqrt(apart);
        all.push_back({id, apart > 0 && std::isfinite(value) ? value : 0});
    }
    return all;
}

// Of each of the peers what it is worth to the client, and w += sum_j (a_j / sum a) (w_j - w), a_j = max(0, worth).
// Where nobody helps, w stays.
template <class M>
Vec<Affinity> heed(const Context<M>& at, std::span<const Index> judges, const Vec<Peer<real<M>>>& peers,
                   Vec<real<M>>& w) {
    auto worth = affinities(at, judges, w, peers);
    double sum = 0;
    for (const auto& a : worth) sum += std::max(0.0, a.value);
    if (!(sum > 0)) return worth;
    Vec<double> move(w.size());
    for (std::size_t i = 0; i < worth.size(); ++i) {
        const double share = std::max(0.0, worth[i].value) / sum;
        if (share > 0)
            for (std::size_t j = 0; j < w.size(); ++j)
                move[j] += share * (static_cast<double>(peers[i].w[j]) - static_cast<double>(w[j]));
    }
    for (std::size_t j = 0; j < w.size(); ++j) w[j] = static_cast<real<M>>(static_cast<double>(w[j]) + move[j]);
    return worth;
}

template <class M>
std::uint64_t name_of(const Context<M>& at) {
    constexpr std::uint64_t meaning = 0x6E616D65;
    return Stream(at.key(purpose::sampling)(meaning)).word64();
}

inline void require_shares(double explore, double held_out) {
    require(explore >= 0 && explore <= 1, "explore must lie in [0, 1], not " + std::to_string(explore));
    require(held_out > 0 && held_out < 1, "held_out must lie in (0, 1), not " + std::to_string(held_out) +
                                              ": others' models are judged by what is held out");
}

}  // namespace tessera::detail
