// SPDX-License-Identifier: BSD-3-Clause
// Crew: threads that help another one with a single large product or sum.
//
// An executor with more threads than tasks lends the idle ones to threads that have a task, and all of them to the one
// that closes a round; kernels and folds then hand out rows of their output. Which thread does a row changes no bit
// of it. A thread that was lent nobody works alone.
#pragma once

#include <cstddef>
#include <utility>

namespace tessera {

class Crew {
public:
    using Piece = void (*)(const void* work, std::size_t piece);

    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

    // While alive, this thread has `crew` to help it; null: nobody.
    class Use {
    public:
        explicit Use(Crew* crew) : before_(std::exchange(current(), crew)) {}
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        ~Use() { current() = before_; }

    private:
        Crew* before_;
    };

    // Threads that work for this one, itself among them.
    static std::size_t size() { return current() ? 1 + current()->helpers() : 1; }

    // work(piece) once for each, on any of these threads; returns when all are done. Pieces of kernels must not throw.
    template <class Work>
    static void for_each(std::size_t pieces, const Work& work) {
        Crew* crew = pieces > 1 ? current() : nullptr;
        const Use alone(nullptr);  // a piece has no crew
        if (crew)
            crew->run(pieces, &work, [](const void* w, std::size_t p) { (*static_cast<const Work*>(w))(p); });
        else
            for (std::size_t piece = 0; piece < pieces; ++piece) work(piece);
    }

protected:
    Crew() = default;
    ~Crew() = default;

private:
    virtual std::size_t helpers() const = 0;
    virtual void run(std::size_t pieces, const void* work, Piece piece) = 0;

    static Crew*& current() {
        thread_local Crew* crew = nullptr;
        return crew;
    }
};

// A crew of `size` threads by run(pieces, body), which calls body(piece) once for each; run must outlive the crew.
template <class Run>
class CrewBy final : public Crew {
public:
    CrewBy(std::size_t size, const Run& run) : size_(size), run_(&run) {}

private:
    std::size_t helpers() const override { return size_ - 1; }
    void run(std::size_t pieces, const void* work, Piece piece) override {
        (*run_)(pieces, [&](std::size_t p) { piece(work, p); });
    }

    std::size_t size_;
    const Run* run_;
};

}  // namespace tessera
