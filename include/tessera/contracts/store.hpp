// SPDX-License-Identifier: BSD-3-Clause
// Store: where clients' states rest between visits, as bytes by client number, if not in memory.
//
// A round stages the states that its visits leave and commits those that count, all or none. What is staged is nobody's
// until then. A policy of this kind has `std::unique_ptr<Store> open(std::size_t clients) const`; one that gives none
// leaves the states in memory. `Federation::keep_in` takes it. One that can be shared by several ranks, each with the
// clients that live there, is a SharedStorePolicy.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tessera/core/bytes.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/view.hpp>

namespace tessera {

// A state that is written and not committed.
struct Staged {
    std::uint64_t where = 0;  // the store's own way to find it
    std::uint64_t check = 0;  // of its bytes
    Fingerprint print{};      // of the state, for the fingerprint of all
    Id client = 0;
    std::uint32_t length = 0;  // in bytes
};

class Store {
public:
    Store() = default;
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;
    virtual ~Store() = default;

    // From any threads at once. What is read lies in `room`; IoError if it is not what was written.
    virtual bool visited(Id client) const = 0;  // something was committed for it
    virtual std::span<const std::byte> read(Id client, Bytes& room) const = 0;
    virtual Staged stage(Id client, std::span<const std::byte> state, Fingerprint print) = 0;

    // From one thread, with no other call under way. What can fail and what changes something are two calls: on several
    // ranks the second is made only where the first failed on none of them.
    virtual void begin() = 0;  // before each round; the first without a restore before it starts with nobody
    virtual void commit(std::uint64_t round, std::span<const Staged> counted) = 0;  // written; IoError if not
    virtual void committed() = 0;  // now it counts, and what else was staged is forgotten
    virtual void abandon() = 0;    // what was staged, or written, since `committed`: all is as before

    // Makes what is committed last, and writes down how to find it again; `saved` says that this is in a safe place.
    virtual void save(Bytes& out) = 0;
    virtual void saved() = 0;
    virtual void restore(Reader& in) = 0;  // looks for what the bytes say, to their end; WireError or IoError
    virtual void restored() = 0;           // and stands there from now on

    virtual Fingerprint fingerprint() const = 0;  // the sum over the clients
    virtual std::string where() const = 0;        // for sentences: a file or directory
};

template <class P>
concept StorePolicy = requires(const P policy, std::size_t clients) {
    { policy.open(clients).get() } -> std::convertible_to<Store*>;
};

// A part of a store, which one rank keeps. Where states move to another number of ranks, they move to other parts.
struct StorePart {
    std::uint64_t began = 0;  // the first round that so many ranks shared; 0: a run began with them
    std::uint64_t ranks = 1, rank = 0;
    friend bool operator==(const StorePart&, const StorePart&) = default;
};

// `open` without a part is `open` with the default one. Of a part, `look` gives what a checkpoint wrote down: to read,
// by several at once; it changes nothing. `let_go` removes all parts but those of `needed`, of whatever rank.
template <class P>
concept SharedStorePolicy = StorePolicy<P> && requires(const P policy, std::size_t clients, const StorePart& part,
                                                       Reader& written, std::span<const StorePart> needed) {
    { policy.open(clients, part).get() } -> std::convertible_to<Store*>;
    { policy.look(clients, part, written).get() } -> std::convertible_to<Store*>;
    policy.let_go(needed);
};

}  // namespace tessera
