// SPDX-License-Identifier: BSD-3-Clause
// Place: where a federation stands, if that is several processes (ranks) which share its work.
//
// Every rank runs the same program and makes the same federation of the same clients. A place carries bytes between
// them. Each call is made by every rank, in the same order and from one thread, or nobody goes on; `send` and `receive`
// are made by pairs. What a place carries, and where to, is the runtime's business (runtime/ranks.hpp). Bytes come from
// the same program, so they are not judged. A rank that is gone ends all others: a place throws nothing that could be
// mended.
//
// `Federation::spread_over` takes one. Nobody who has none pays for it.
#pragma once

#include <cstddef>
#include <vector>

#include <tessera/core/bytes.hpp>

namespace tessera {

class Place {
public:
    Place() = default;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    virtual ~Place() = default;

    virtual std::size_t rank() const = 0;  // of this process, from 0
    virtual std::size_t ranks() const = 0;

    virtual void broadcast(Bytes& bytes) = 0;                     // rank 0's, to all
    virtual std::vector<Bytes> gather(const Bytes& mine) = 0;     // by rank, to rank 0; nothing for the others
    virtual std::vector<Bytes> gather_all(const Bytes& mine) = 0;  // by rank, to all
    // outgoing[r] goes to rank r; what came, by sender. Nobody waits for a receiver to listen.
    virtual std::vector<Bytes> exchange(std::vector<Bytes> outgoing) = 0;

    virtual void send(std::size_t to, Bytes bytes) = 0;  // does not wait
    virtual Bytes receive(std::size_t from) = 0;         // in the order in which they were sent
};

}  // namespace tessera
