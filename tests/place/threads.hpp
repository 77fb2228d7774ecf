// SPDX-License-Identifier: BSD-3-Clause
// Ranks that are threads of this process, for tests: the same federation on all of them, and a look at what is sent.
#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <tessera/contracts/place.hpp>

namespace tessera::support {

struct Meeting {
    explicit Meeting(std::size_t n) : ranks(n), all(static_cast<std::ptrdiff_t>(n)), posted(n, std::vector<Bytes>(n)) {}
    std::size_t ranks;
    std::barrier<> all;
    std::vector<std::vector<Bytes>> posted;  // by sender and receiver
    std::mutex lock;
    std::condition_variable arrived;
    std::map<std::pair<std::size_t, std::size_t>, std::deque<Bytes>> sent;
    std::atomic<std::size_t> messages = 0;  // those of pairs
};

class ThreadPlace final : public Place {
public:
    ThreadPlace(Meeting& meeting, std::size_t rank) : meeting_(meeting), rank_(rank) {}
    std::size_t rank() const override { return rank_; }
    std::size_t ranks() const override { return meeting_.ranks; }

    void broadcast(Bytes& bytes) override {
        std::vector<Bytes> outgoing(ranks());
        if (rank_ == 0) outgoing.assign(ranks(), bytes);
        bytes = exchange(std::move(outgoing))[0];
    }
    std::vector<Bytes> gather(const Bytes& mine) override {
        std::vector<Bytes> outgoing(ranks());
        outgoing[0] = mine;
        auto all = exchange(std::move(outgoing));
        if (rank_ != 0) all.clear();
        return all;
    }
    std::vector<Bytes> gather_all(const Bytes& mine) override { return exchange(std::vector<Bytes>(ranks(), mine)); }
    std::vector<Bytes> exchange(std::vector<Bytes> outgoing) override {
        meeting_.posted[rank_] = std::move(outgoing);
        meeting_.all.arrive_and_wait();
        std::vector<Bytes> incoming;
        for (auto& from : meeting_.posted) incoming.push_back(from[rank_]);
        meeting_.all.arrive_and_wait();
        return incoming;
    }
    void send(std::size_t to, Bytes bytes) override {
        const std::scoped_lock hold(meeting_.lock);
        meeting_.sent[{rank_, to}].push_back(std::move(bytes));
        ++meeting_.messages;
        meeting_.arrived.notify_all();
    }
    Bytes receive(std::size_t from) override {
        std::unique_lock hold(meeting_.lock);
        auto& waiting = meeting_.sent[{from, rank_}];
        meeting_.arrived.wait(hold, [&] { return !waiting.empty(); });
        Bytes bytes = std::move(waiting.front());
        waiting.pop_front();
        return bytes;
    }

private:
    Meeting& meeting_;
    std::size_t rank_;
};

// program(place) once per rank, each in its thread; rethrows what the lowest rank threw. A program that throws on one
// rank alone would leave the others waiting, which is what the tests are about.
template <class Program>
std::size_t on_ranks(std::size_t n, Program&& program) {
    Meeting meeting(n);
    std::vector<std::exception_ptr> failed(n);
    {
        std::vector<std::jthread> all;
        for (std::size_t r = 0; r < n; ++r)
            all.emplace_back([&, r] {
                try {
                    program(std::make_shared<ThreadPlace>(meeting, r));
                } catch (...) {
                    failed[r] = std::current_exception();
                }
            });
    }
    for (const auto& one : failed)
        if (one) std::rethrow_exception(one);
    return meeting.messages;
}

}  // namespace tessera::support
