// SPDX-License-Identifier: BSD-3-Clause
// Executor: the only code that may start threads.
//
// for_each(tasks, body) calls body(task, worker) once per task, worker < concurrency(), and returns when
// all are done; if some threw, it rethrows what the lowest task threw.
#pragma once

#include <concepts>
#include <cstddef>

namespace tessera {

template <class E>
concept Executor = requires(const E executor, std::size_t tasks, void (*body)(std::size_t task, std::size_t worker)) {
    { executor.concurrency() } -> std::convertible_to<std::size_t>;
    { executor.for_each(tasks, body) } -> std::same_as<void>;
};

// The executor of a round as a fold sees it: independent pieces of one large sum may run on its workers. Bits must
// not depend on how many there are. By default the calling thread, alone.
class Team {
public:
    Team() = default;
    // run(pieces, body) calls body(piece) once for each; it must outlive the team.
    template <class Run>
    Team(std::size_t size, const Run& run)
        : size_(size), self_(&run), run_([](const void* self, std::size_t pieces, const void* body, Call call) {
              (*static_cast<const Run*>(self))(pieces, [&](std::size_t piece) { call(body, piece); });
          }) {}

    std::size_t size() const { return size_; }
    template <class Body>
    void for_each(std::size_t pieces, const Body& body) const {
        if (run_) run_(self_, pieces, &body, [](const void* b, std::size_t p) { (*static_cast<const Body*>(b))(p); });
        else
            for (std::size_t piece = 0; piece < pieces; ++piece) body(piece);
    }

private:
    using Call = void (*)(const void* body, std::size_t piece);

    std::size_t size_ = 1;
    const void* self_ = nullptr;
    void (*run_)(const void* self, std::size_t pieces, const void* body, Call call) = nullptr;
};

}  // namespace tessera
