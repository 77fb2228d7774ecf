// SPDX-License-Identifier: BSD-3-Clause
// A store outside memory, on one rank or on several: each has the part with the clients that live there. A checkpoint
// holds what every part wrote down. On as many ranks each finds its own again; on another number all read all parts,
// and each takes the clients that live there now into a part of its own.
//
// What a part cannot do, no rank has done: what can fail is tried everywhere first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/contracts/store.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/runtime/ranks.hpp>
#include <tessera/runtime/store.hpp>
#include <tessera/runtime/visit.hpp>

namespace tessera::detail {

// Where the number of clients stands otherwise: of one part that is all, and of several.
inline constexpr std::uint64_t in_a_store = ~std::uint64_t{}, in_parts = in_a_store - 1;

class StoreParts {
public:
    StoreParts() = default;
    template <class Keep>
    StoreParts(const Keep& policy, std::size_t clients, const Ranks& ranks)
        : ours_{.ranks = ranks.count(), .rank = ranks.rank()}, saved_{ours_, ours_} {
        if constexpr (SharedStorePolicy<Keep>) {
            open_ = [=](const StorePart& part) { return policy.open(clients, part); };
            look_ = [=](const StorePart& part, Reader& written) { return policy.look(clients, part, written); };
            let_go_ = [=](std::span<const StorePart> needed) { policy.let_go(needed); };
        } else {
            require(!ranks.several(), "this store is of one process; on several ranks a store has a part a rank");
            open_ = [=](const StorePart&) { return policy.open(clients); };
        }
    }

    std::shared_ptr<Store> open(const Ranks& ranks) const { return opened(ranks, ours_); }

    template <class State>
    void save(Bytes& out, const ClientStore<State>& store, const Ranks& ranks) const {
        Bytes mine;
        ranks.agree(ranks.attempt([&] {
            if (store.holds_some()) throw Error("what clients have spent could not be written; free some room first");
            store.outside()->save(mine);
        }));
        if (ours_ == StorePart{}) {
            put(out, in_a_store);
            return put_raw(out, mine.data(), mine.size());
        }
        put(out, in_parts);
        put(out, ours_.began);
        put(out, ours_.ranks);
        if (!ranks.several()) return put(out, mine);
        for (const auto& part : ranks.place().gather(mine)) put(out, part);
    }
    // Parts from which the states have moved away stay as long as one of the last two checkpoints is of them.
    void saved(Store& store, const Ranks& ranks) {
        store.saved();
        saved_ = {saved_[1], ours_};
        if (let_go_) ranks.first_does([&] { let_go_(saved_); });
    }

    // The store as it was when the bytes were written, for the clients that live here; a state that moves is one that
    // the method `keeps`. If this throws, nothing has changed.
    template <class State, class Lives, class Keeps>
    ClientStore<State> restore(Reader& in, std::uint64_t kept, std::uint64_t round, const ClientStore<State>& store,
                               const Ranks& ranks, Lives&& lives_here, Keeps&& keeps) {
        if (!store.outside()) throw WireError("its clients' states rest in a store; tell the run in which one");
        std::vector<Bytes> written;
        const StorePart first = read(in, kept, written);
        ClientStore<State> next = store;
        if (first.ranks == ranks.count()) {
            const StorePart here{first.began, first.ranks, ranks.rank()};
            if (!(here == ours_)) next.keep_in(opened(ranks, here));
            Store& own = *next.outside();
            ranks.agree(ranks.attempt([&] { found(own.where(), [&] {
                Reader mine(written[here.rank]);
                own.restore(mine);
            }); }));
            own.restored();
            ours_ = here;
        } else {
            if (!look_) throw WireError("its clients' states rest with several ranks, and this store knows only one");
            const StorePart here{round + 1, ranks.count(), ranks.rank()};
            next.keep_in(opened(ranks, here));
            ranks.agree(ranks.attempt([&] { move(first, written, round, next, lives_here, keeps); }));
            next.committed();
            ours_ = here;
        }
        saved_ = {first, first};
        return next;
    }

private:
    std::shared_ptr<Store> opened(const Ranks& ranks, const StorePart& part) const {
        std::shared_ptr<Store> store;
        ranks.agree(ranks.attempt([&] { store = open_(part); }));
        return store;
    }
    // What a part says is wrong with its bytes, as an error with a place, which is one on all ranks.
    template <class F>
    static void found(const std::string& where, F&& f) {
        try {
            f();
        } catch (const WireError& e) {
            throw IoError(where, e.what());
        }
    }
    static StorePart read(Reader& in, std::uint64_t kept, std::vector<Bytes>& written) {
        StorePart first;
        if (kept == in_a_store) {
            const auto rest = in.rest();
            written.emplace_back(rest.begin(), rest.end());
            return first;
        }
        get(in, first.began);
        get(in, first.ranks);
        for (std::uint64_t i = 0; i < first.ranks; ++i) get(in, written.emplace_back());
        if (in.left() > 0 || written.empty()) throw WireError("the parts of the store do not end where the bytes do");
        return first;
    }
    template <class State, class Lives, class Keeps>
    void move(StorePart part, const std::vector<Bytes>& written, std::uint64_t round, ClientStore<State>& next,
              Lives&& lives_here, Keeps&& keeps) const {
        next.outside()->begin();
        Vec<Staged> all;
        for (part.rank = 0; part.rank < part.ranks; ++part.rank) {
            ClientStore<State> other(next.size());
            found("the part of rank " + std::to_string(part.rank), [&] {
                Reader in(written[part.rank]);
                other.keep_in(look_(part, in));
                for (Id k = 0; k < next.size(); ++k)
                    if (lives_here(k) && other.visited(k)) {
                        const State state = other[k];
                        if (!keeps(k, state)) throw WireError(not_left_by_this_method(k));
                        all.push_back(next.stage(k, state));
                    }
            });
        }
        next.commit(round, all);
    }

    std::function<std::unique_ptr<Store>(const StorePart&)> open_{};
    std::function<std::unique_ptr<Store>(const StorePart&, Reader&)> look_{};
    std::function<void(std::span<const StorePart>)> let_go_{};
    StorePart ours_{};
    std::array<StorePart, 2> saved_{};  // whose the last two checkpoints are
};

}  // namespace tessera::detail
