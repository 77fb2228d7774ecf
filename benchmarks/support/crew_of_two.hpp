// SPDX-License-Identifier: BSD-3-Clause
// A crew of this thread and one more, for kernels alone: executors lend such a crew to a visit with cores to spare.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

#include <tessera/core/arena.hpp>
#include <tessera/core/crew.hpp>

namespace bench {

class CrewOfTwo final : public tessera::Crew {
public:
    CrewOfTwo() : helper_([this] { serve(); }) {}
    ~CrewOfTwo() {
        stop_ = true;
        helper_.join();
    }

private:
    std::size_t helpers() const override { return 1; }
    void run(std::size_t pieces, const void* work, Piece piece) override {
        next_ = 0;
        pieces_ = pieces;
        work_ = work;
        piece_ = piece;
        busy_ = true;
        take();
        while (busy_) std::this_thread::yield();
    }
    void take() {
        for (std::size_t i = next_++; i < pieces_; i = next_++) piece_(work_, i);
    }
    void serve() {
        tessera::Arena arena;
        const tessera::Arena::Use use(arena);
        while (!stop_) {
            if (busy_) {
                take();
                busy_ = false;
            }
            std::this_thread::yield();
        }
    }

    std::atomic<bool> busy_ = false, stop_ = false;
    std::atomic<std::size_t> next_ = 0;
    std::size_t pieces_ = 0;
    const void* work_ = nullptr;
    Piece piece_ = nullptr;
    std::thread helper_;
};

}  // namespace bench
