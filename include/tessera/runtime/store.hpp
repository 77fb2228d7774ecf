// SPDX-License-Identifier: BSD-3-Clause
// What clients keep between visits, by dense number: in memory, or as bytes in a Store. A client that was never visited
// costs four bytes and appears in no checkpoint; the fingerprint is kept up to date change by change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <tessera/contracts/store.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>

namespace tessera {

template <class State>
class ClientStore {
public:
    static constexpr bool keeps = field_count<State> > 0;

    explicit ClientStore(std::size_t clients) : clients_(clients), slots_(keeps ? clients : 0) {}

    // Nobody has been visited yet.
    void keep_in(std::shared_ptr<Store> store) {
        outside_ = keeps ? std::move(store) : nullptr;
        if (outside_) slots_ = {};
    }
    Store* outside() const { return outside_.get(); }

    State operator[](Id client) const {
        if constexpr (keeps) {
            if (outside_) return read(client);
            if (slots_[client] > 0) return states_[slots_[client] - 1];
        }
        return State{};
    }
    const State& view(Id client) const
        requires keeps
    {
        return states_[slots_[client] - 1];
    }
    bool visited(Id client) const {
        if constexpr (keeps)
            return outside_ ? outside_->visited(client) || unsaved_.contains(client) : slots_[client] > 0;
        else return false;
    }
    std::size_t visited() const { return states_.size(); }

    void commit(Id client, State state) {
        if constexpr (keeps) {
            if (slots_[client] == 0) {
                states_.emplace_back();
                prints_.emplace_back();
                slots_[client] = static_cast<std::uint32_t>(states_.size());
            }
            const std::size_t at = slots_[client] - 1;
            states_[at] = std::move(state);
            sum_ -= prints_[at];
            sum_ += prints_[at] = print_of(client, states_[at]);
        }
    }
    void clear() {
        for (auto& slot : slots_) slot = 0;
        states_.clear();
        prints_.clear();
        sum_ = {};
    }

    // Of a store outside: any threads may stage; see contracts/store.hpp.
    Staged stage(Id client, const State& state) const {
        Bytes bytes;
        bytes.reserve(wire_size(state));
        put(bytes, state);
        return outside_->stage(client, bytes, print_of(client, state));
    }
    // What could not be written before goes along.
    void commit(std::uint64_t round, Vec<Staged>& counted) {
        const std::size_t these = counted.size();
        for (const auto& [client, state] : unsaved_)
            if (std::none_of(counted.begin(), counted.begin() + static_cast<std::ptrdiff_t>(these),
                             [&, k = client](const Staged& s) { return s.client == k; }))
                counted.push_back(stage(client, state));
        outside_->commit(round, counted);
    }
    void committed() {
        outside_->committed();
        unsaved_.clear();
    }
    // A state that must not be lost, where the store cannot take it now.
    void hold(Id client, State state) { unsaved_[client] = std::move(state); }
    bool holds_some() const { return !unsaved_.empty(); }
    // A disk without room is why a round fails, and no reason to forget what its clients have spent: that waits.
    void write_held(std::uint64_t round) {
        if (!outside_ || !holds_some()) return;
        try {
            Vec<Staged> nobody;
            commit(round, nobody);
            committed();
        } catch (const Error&) {
            outside_->abandon();
        }
    }

    Fingerprint fingerprint() const {
        if (!outside_) return sum_;
        Fingerprint all = outside_->fingerprint();
        for (const auto& [client, state] : unsaved_) {
            if (outside_->visited(client)) all -= print_of(client, decoded(client));
            all += print_of(client, state);
        }
        return all;
    }
    std::size_t size() const { return clients_; }

private:
    static Fingerprint print_of(Id client, const State& state) {
        Hasher h;
        h.word(client);
        hash_into(h, state);
        return h.finish();
    }
    State read(Id client) const {
        if (!unsaved_.empty())
            if (const auto held = unsaved_.find(client); held != unsaved_.end()) return held->second;
        return outside_->visited(client) ? decoded(client) : State{};
    }
    State decoded(Id client) const {
        Bytes room;
        const auto bytes = outside_->read(client, room);
        try {
            return decode<State>(bytes);
        } catch (const WireError& e) {
            throw IoError(outside_->where(),
                          "the state of client " + std::to_string(client) + " is not one of this method: " + e.what());
        }
    }

    std::size_t clients_;
    Vec<std::uint32_t> slots_;  // 0: never visited; else one more than the place in the next two
    Vec<State> states_{};
    Vec<Fingerprint> prints_{};
    Fingerprint sum_{};
    std::shared_ptr<Store> outside_{};
    std::map<Id, State> unsaved_{};
};

}  // namespace tessera
