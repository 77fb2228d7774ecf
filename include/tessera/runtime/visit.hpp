// SPDX-License-Identifier: BSD-3-Clause
// What the visits of a round leave behind, and how it goes from rank to rank: states to whoever trains them and home
// again, everything that is counted to all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/contracts/context.hpp>
#include <tessera/contracts/method.hpp>
#include <tessera/contracts/place.hpp>
#include <tessera/contracts/plan.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/contracts/store.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/io/message.hpp>
#include <tessera/runtime/long_first.hpp>
#include <tessera/runtime/ranks.hpp>
#include <tessera/runtime/round_report.hpp>
#include <tessera/runtime/store.hpp>

namespace tessera::detail {

// Of a visit, what every rank hears.
struct Counted {
    bool sent = false;  // false: there was no visit, for it would have passed the client's budget
    bool sound = true;
    std::uint64_t bytes_up = 0, bytes_down = 0;
    double formula_up = 0, formula_down = 0;
    Tally tally{};
};

template <class State>
struct Visit {
    State state{};
    Staged staged{};     // where the state is, if it rests in a store
    bool guest = false;  // the client lives on another rank: `state` came from there
    Counted counted{};
};

// Of a message; of none, where a method has nothing to send.
template <class Message>
inline constexpr bool nothing_travels = std::is_same_v<Message, Nothing>;
template <class Message>
std::uint64_t framed(const Message& message) {
    return nothing_travels<Message> ? 0 : io::frame_overhead + wire_size(message);
}

// The seats that are trained here, in the order in which they are begun.
inline Vec<std::uint32_t> seats_in_order(const Plan& plan, const std::optional<Shares>& shares,
                                         const data::FederatedDataset& clients, std::size_t workers) {
    Vec<std::uint64_t> work;
    Vec<std::uint32_t> seats;
    work.reserve(plan.size());
    for (std::size_t i = 0; i < plan.size(); ++i) {
        if (shares && shares->trainer[i] != shares->rank()) continue;
        work.push_back(clients[plan[i].client].train.size());
        if (shares) seats.push_back(static_cast<std::uint32_t>(i));
    }
    auto order = long_first(work, workers);
    for (auto& task : order) task = shares ? seats[task] : task;
    return order;
}

// Of a method, or of the one that it is around: why a client cannot take part, if a budget is in its way.
template <class Me, class State>
std::optional<Overdraft> over_budget(const Me& me, const State& state, Id client) {
    if constexpr (offers_of<Me>().has(offer::over_budget)) return me.over_budget(state, client);
    else if constexpr (WrapsMethod<Me>) return over_budget(inner_of(me), state_within<Me>(state), client);
    else return std::nullopt;
}

inline std::string not_left_by_this_method(Id client) {
    return "the state of client " + std::to_string(client) +
           " cannot be one that this method left on this model: its lengths or its numbers are wrong";
}

inline std::vector<Reader> readers_of(const std::vector<Bytes>& all) {
    std::vector<Reader> readers;
    for (const auto& one : all) readers.emplace_back(std::span<const std::byte>(one));
    return readers;
}

// Before the visits: states whose clients are trained elsewhere go there. `outside(client)` reads one that rests in a
// store; a rank that cannot is one on which the round fails.
template <class State, class Outside>
void lend_states(const Shares& shares, const Plan& plan, const ClientStore<State>& store, Vec<Visit<State>>& visits,
                 Outside&& outside) {
    if constexpr (ClientStore<State>::keeps) {
        const std::size_t me = shares.rank();
        std::vector<Bytes> outgoing(shares.ranks->count());
        const auto failed = shares.ranks->attempt([&] {
            for (std::size_t i = 0; i < plan.size(); ++i)
                if (shares.home[i] == me && shares.trainer[i] != me) {
                    const bool known = store.visited(plan[i].client);
                    auto& out = outgoing[shares.trainer[i]];
                    put(out, known);
                    if (known && store.outside()) put(out, outside(plan[i].client));
                    else if (known) put(out, store.view(plan[i].client));
                }
        });
        if (store.outside()) shares.ranks->agree(failed);
        else if (failed) std::rethrow_exception(failed);
        const auto incoming = shares.ranks->place().exchange(std::move(outgoing));
        auto from = readers_of(incoming);
        for (std::size_t i = 0; i < plan.size(); ++i)
            if (shares.trainer[i] == me && shares.home[i] != me) {
                bool known = false;
                get(from[shares.home[i]], known);
                if (known) get(from[shares.home[i]], visits[i].state);
                visits[i].guest = true;
            }
    }
}

// After the visits: states go home, if they are to be kept, and what is counted goes to all.
template <class State>
void bring_home(const Shares& shares, bool kept, Vec<Visit<State>>& visits) {
    const std::size_t me = shares.rank();
    if constexpr (ClientStore<State>::keeps)
        if (kept) {
            std::vector<Bytes> outgoing(shares.ranks->count());
            for (std::size_t i = 0; i < visits.size(); ++i)
                if (shares.trainer[i] == me && shares.home[i] != me) {
                    put(outgoing[shares.home[i]], visits[i].state);
                    visits[i].state = {};
                }
            const auto incoming = shares.ranks->place().exchange(std::move(outgoing));
            auto from = readers_of(incoming);
            for (std::size_t i = 0; i < visits.size(); ++i)
                if (shares.home[i] == me && shares.trainer[i] != me) get(from[shares.trainer[i]], visits[i].state);
        }
    Bytes mine;
    for (std::size_t i = 0; i < visits.size(); ++i)
        if (shares.trainer[i] == me) put(mine, visits[i].counted);
    const auto all = shares.ranks->place().gather_all(mine);
    auto from = readers_of(all);
    for (std::size_t i = 0; i < visits.size(); ++i) get(from[shares.trainer[i]], visits[i].counted);
}

// What a federation does around its visits where it stands on several ranks; null on one.
template <class Federation, class State>
struct OnRanks {
    decltype(&Shares::of) shares = nullptr;
    void (Federation::*lend)(const Shares&, const Plan&, Vec<Visit<State>>&) = nullptr;
    decltype(&bring_home<State>) bring_home = nullptr;
};

// What the visits come to, in the order of the plan.
template <class State>
Tally add_up(const Plan& plan, const Vec<Visit<State>>& visits, RoundReport& report) {
    Tally tally;
    for (std::size_t i = 0; i < plan.size(); ++i) {
        const auto& v = visits[i].counted;
        report.bytes_down += v.bytes_down;
        report.formula_bytes_down += v.formula_down;
        if (plan[i].merged) {
            report.bytes_up += v.bytes_up;
            report.formula_bytes_up += v.formula_up;
        }
        tally.loss += v.tally.loss;
        tally.steps += v.tally.steps;
        tally.examples += v.tally.examples;
        tally.counted += v.tally.counted;
        tally.forward_flops += v.tally.forward_flops;
        report.over_budget += !v.sent;
        report.diverged += !v.sound;
    }
    report.trained = plan.size() - report.over_budget;
    report.examples = tally.examples;
    if (tally.steps > 0) report.train_loss = tally.loss / static_cast<double>(tally.steps);
    return tally;
}

// The states of all ranks on rank 0, in the order of clients, as if they had all been kept there: number of them, then
// each with its client's number.
template <class State>
void put_states(Bytes& out, const Ranks& ranks, const ClientStore<State>& store) {
    if constexpr (!ClientStore<State>::keeps) {
        put(out, std::uint64_t{0});
    } else {
        const auto put_mine = [&](Bytes& to) {
            for (Id k = 0; k < store.size(); ++k)
                if (store.visited(k)) {
                    put(to, k);
                    put(to, store.view(k));
                }
        };
        if (!ranks.several()) {
            put(out, static_cast<std::uint64_t>(store.visited()));
            return put_mine(out);
        }
        Bytes mine;
        put_mine(mine);
        std::uint64_t visited = 0;
        for (const auto& one : ranks.place().gather_all(encoded(static_cast<std::uint64_t>(store.visited()))))
            visited += decode<std::uint64_t>(one);
        put(out, visited);
        const auto all = ranks.place().gather(mine);
        auto from = readers_of(all);
        std::vector<std::optional<std::pair<Id, State>>> next(all.size());
        const auto advance = [&](std::size_t r) {
            next[r].reset();
            if (from[r].left() == 0) return;
            get(from[r], next[r].emplace().first);
            get(from[r], next[r]->second);
        };
        for (std::size_t r = 0; r < all.size(); ++r) advance(r);
        for (std::uint64_t i = 0; !all.empty() && i < visited; ++i) {
            std::size_t first = 0;
            for (std::size_t r = 0; r < all.size(); ++r)
                if (next[r] && (!next[first] || next[r]->first < next[first]->first)) first = r;
            put(out, next[first]->first);
            put(out, next[first]->second);
            advance(first);
        }
    }
}

}  // namespace tessera::detail
