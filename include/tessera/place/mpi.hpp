// SPDX-License-Identifier: BSD-3-Clause
// place::Mpi: ranks that speak MPI (contracts/place.hpp). Component `mpi`.
//
//   int main(int argc, char** argv) {
//       const place::MpiProgram program(argc, argv);  // MPI_Init, and at the end MPI_Finalize
//       run.spread_over(place::Mpi::world());
//
// Calls are made by the thread that began MPI, so MPI_THREAD_FUNNELED is enough; an executor's threads never speak.
// Messages of any length: MPI counts in int, so long ones go in pieces of a gigabyte. Errors of MPI end all ranks, as
// is its default: what one rank no longer knows cannot be mended by the others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <utility>
#include <vector>

// The C++ bindings that MPI once had, and old headers still do, are not wanted.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <tessera/contracts/place.hpp>
#include <tessera/core/error.hpp>

namespace tessera::place {

// MPI between its beginning and its end, for programs that do not begin it themselves.
class MpiProgram {
public:
    MpiProgram(int& argc, char**& argv) {
        int provided = 0;
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
        if (provided < MPI_THREAD_FUNNELED) throw Error("this MPI does not bear programs with threads");
    }
    MpiProgram(const MpiProgram&) = delete;
    MpiProgram& operator=(const MpiProgram&) = delete;
    ~MpiProgram() { MPI_Finalize(); }
};

class Mpi final : public Place {
public:
    // All ranks of `of`, which speak among themselves: messages of others on the same communicator do not meet these.
    explicit Mpi(MPI_Comm of) {
        MPI_Comm_dup(of, &comm_);
        int rank = 0, ranks = 0;
        MPI_Comm_rank(comm_, &rank);
        MPI_Comm_size(comm_, &ranks);
        rank_ = static_cast<std::size_t>(rank);
        ranks_ = static_cast<std::size_t>(ranks);
    }
    static std::shared_ptr<Mpi> world() { return std::make_shared<Mpi>(MPI_COMM_WORLD); }
    ~Mpi() override {
        int ended = 0;
        MPI_Finalized(&ended);
        if (ended) return;
        finish_sent(true);
        MPI_Comm_free(&comm_);
    }

    std::size_t rank() const override { return rank_; }
    std::size_t ranks() const override { return ranks_; }

    void broadcast(Bytes& bytes) override { broadcast_from(0, bytes); }
    std::vector<Bytes> gather(const Bytes& mine) override {
        std::vector<Bytes> outgoing(ranks_);
        outgoing[0] = mine;
        auto all = exchange(std::move(outgoing));
        if (rank_ != 0) all.clear();
        return all;
    }
    std::vector<Bytes> gather_all(const Bytes& mine) override {
        const std::uint64_t length = mine.size();
        std::vector<std::uint64_t> lengths(ranks_);
        MPI_Allgather(&length, 1, MPI_UINT64_T, lengths.data(), 1, MPI_UINT64_T, comm_);
        count(1, sizeof length);
        std::uint64_t total = 0;
        for (const auto each : lengths) total += each;
        std::vector<Bytes> all(ranks_);
        if (total <= piece) {
            std::vector<int> counts, begins;
            int at = 0;
            for (const auto each : lengths) {
                counts.push_back(static_cast<int>(each));
                begins.push_back(at);
                at += static_cast<int>(each);
            }
            Bytes together(total);
            MPI_Allgatherv(mine.data(), counts[rank_], MPI_BYTE, together.data(), counts.data(), begins.data(),
                           MPI_BYTE, comm_);
            count(ranks_ - 1, (ranks_ - 1) * length);
            for (std::size_t r = 0; r < ranks_; ++r) {
                const auto* from = together.data() + begins[r];
                all[r].assign(from, from + counts[r]);
            }
        } else {
            all[rank_] = mine;
            for (std::size_t r = 0; r < ranks_; ++r) broadcast_from(r, all[r]);
        }
        return all;
    }
    std::vector<Bytes> exchange(std::vector<Bytes> outgoing) override {
        std::vector<std::uint64_t> out(ranks_), in(ranks_);
        for (std::size_t r = 0; r < ranks_; ++r) out[r] = outgoing[r].size();
        MPI_Alltoall(out.data(), 1, MPI_UINT64_T, in.data(), 1, MPI_UINT64_T, comm_);
        std::vector<Bytes> incoming(ranks_);
        std::vector<MPI_Request> open;
        incoming[rank_] = std::move(outgoing[rank_]);
        for (std::size_t r = 0; r < ranks_; ++r) {
            if (r == rank_) continue;
            incoming[r].resize(in[r]);
            each_piece(incoming[r], [&](std::byte* at, int length) {
                MPI_Irecv(at, length, MPI_BYTE, static_cast<int>(r), of_all, comm_, &open.emplace_back());
            });
        }
        for (std::size_t r = 0; r < ranks_; ++r)
            if (r != rank_) {
                count(out[r] > 0, out[r]);
                each_piece(outgoing[r], [&](std::byte* at, int length) {
                    MPI_Isend(at, length, MPI_BYTE, static_cast<int>(r), of_all, comm_, &open.emplace_back());
                });
            }
        MPI_Waitall(static_cast<int>(open.size()), open.data(), MPI_STATUSES_IGNORE);
        return incoming;
    }

    void send(std::size_t to, Bytes bytes) override {
        finish_sent(false);
        Sent& sent = sent_.emplace_back();
        sent.bytes = std::move(bytes);
        sent.length = sent.bytes.size();
        count(1, sent.length);
        MPI_Isend(&sent.length, 1, MPI_UINT64_T, static_cast<int>(to), of_pairs, comm_, &sent.open.emplace_back());
        each_piece(sent.bytes, [&](std::byte* at, int length) {
            MPI_Isend(at, length, MPI_BYTE, static_cast<int>(to), of_pairs, comm_, &sent.open.emplace_back());
        });
    }
    Bytes receive(std::size_t from) override {
        std::uint64_t length = 0;
        MPI_Recv(&length, 1, MPI_UINT64_T, static_cast<int>(from), of_pairs, comm_, MPI_STATUS_IGNORE);
        Bytes bytes(length);
        each_piece(bytes, [&](std::byte* at, int here) {
            MPI_Recv(at, here, MPI_BYTE, static_cast<int>(from), of_pairs, comm_, MPI_STATUS_IGNORE);
        });
        return bytes;
    }

    // What this rank has sent so far, for a cost model: messages and their bytes.
    struct Sums {
        std::uint64_t messages = 0, bytes = 0;
    };
    Sums sent() const { return sums_; }

private:
    static constexpr int of_all = 1, of_pairs = 2;
    static constexpr std::size_t piece = std::size_t{1} << 30;
    static_assert(piece <= static_cast<std::size_t>(std::numeric_limits<int>::max()));

    // On its way; it must stay where it is until it has been taken.
    struct Sent {
        Bytes bytes{};
        std::uint64_t length = 0;
        std::vector<MPI_Request> open{};
    };

    template <class Use>
    static void each_piece(Bytes& bytes, Use&& use) {
        for (std::size_t at = 0; at < bytes.size(); at += piece)
            use(bytes.data() + at, static_cast<int>(std::min(piece, bytes.size() - at)));
    }
    void broadcast_from(std::size_t root, Bytes& bytes) {
        std::uint64_t length = bytes.size();
        MPI_Bcast(&length, 1, MPI_UINT64_T, static_cast<int>(root), comm_);
        bytes.resize(length);
        each_piece(bytes, [&](std::byte* at, int here) {
            MPI_Bcast(at, here, MPI_BYTE, static_cast<int>(root), comm_);
        });
        if (rank_ == root) count(ranks_ - 1, (ranks_ - 1) * length);
    }
    void finish_sent(bool wait) {
        std::erase_if(sent_, [&](Sent& sent) {
            int taken = 1;
            const int n = static_cast<int>(sent.open.size());
            if (wait) MPI_Waitall(n, sent.open.data(), MPI_STATUSES_IGNORE);
            else MPI_Testall(n, sent.open.data(), &taken, MPI_STATUSES_IGNORE);
            return taken != 0;
        });
    }
    void count(std::uint64_t messages, std::uint64_t bytes) {
        sums_.messages += messages;
        sums_.bytes += bytes;
    }

    MPI_Comm comm_{};
    std::size_t rank_ = 0, ranks_ = 1;
    std::list<Sent> sent_{};
    Sums sums_{};
};

}  // namespace tessera::place
