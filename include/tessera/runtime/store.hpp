// SPDX-License-Identifier: BSD-3-Clause
// What clients keep between visits, by dense number. A client that was never visited costs an empty state
// and appears in no checkpoint; the store's fingerprint is kept up to date change by change.
#pragma once

#include <cstddef>
#include <utility>

#include <tessera/core/bytes.hpp>
#include <tessera/core/hash.hpp>

namespace tessera {

template <class State>
class ClientStore {
public:
    static constexpr bool keeps = field_count<State> > 0;

    explicit ClientStore(std::size_t clients) : states_(keeps ? clients : 0), prints_(keeps ? clients : 0) {}

    State operator[](Id client) const {
        if constexpr (keeps) return states_[client];
        else return State{};
    }
    const State& view(Id client) const
        requires keeps
    {
        return states_[client];
    }
    bool visited(Id client) const { return keeps && prints_[client] != Fingerprint{}; }

    void commit(Id client, State state) {
        if constexpr (keeps) {
            states_[client] = std::move(state);
            Hasher h;
            h.word(client);
            hash_into(h, states_[client]);
            sum_ -= prints_[client];
            sum_ += prints_[client] = h.finish();
        }
    }
    void clear() {
        for (auto& s : states_) s = State{};
        for (auto& p : prints_) p = {};
        sum_ = {};
    }
    Fingerprint fingerprint() const { return sum_; }
    std::size_t size() const { return states_.size(); }

private:
    Vec<State> states_;
    Vec<Fingerprint> prints_;
    Fingerprint sum_;
};

}  // namespace tessera
