// SPDX-License-Identifier: BSD-3-Clause
// Tasks over a team of OpenMP threads, handed out one by one. Build with OpenMP (component `openmp`).
//
// With fewer tasks than threads, those without a task help with the large products of the others (core/crew.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <string>

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <tessera/core/arena.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/function_ref.hpp>
#include <tessera/core/offers.hpp>

namespace tessera::exec {
namespace detail {

// How this thread rounds, and whether it flushes denormals: helpers must do as the one they help.
#if defined(__SSE2__)
inline unsigned floating_mode() { return _mm_getcsr(); }
inline void set_floating_mode(unsigned mode) { _mm_setcsr(mode); }
inline void pause() { _mm_pause(); }
#else
inline unsigned floating_mode() { return 0; }
inline void set_floating_mode(unsigned) {}
inline void pause() {}
#endif

// The idle threads lent to one that has a task.
class LentThreads final : public Crew {
public:
    void expect(std::size_t helpers) { helpers_ = helpers; }

    // Of a helper: takes pieces until it is dismissed.
    void serve() {
        thread_local Arena own;  // what pieces ask for stays with the thread
        const Arena::Use use(own);
        const unsigned before = floating_mode();
        for (int left = look(); left != dismissed; left = look())
            if (left > 0 && left_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) {
                set_floating_mode(mode_);
                piece_(work_, static_cast<std::size_t>(left - 1));
                done_.fetch_add(1, std::memory_order_release);
            }
        set_floating_mode(before);
    }
    void dismiss() { tell(dismissed); }

private:
    static constexpr int dismissed = -1, patience = 1000;  // about 50 us until it sleeps

    std::size_t helpers() const override { return helpers_; }
    void run(std::size_t pieces, const void* work, Piece piece) override {
        work_ = work;
        piece_ = piece;
        mode_ = floating_mode();
        done_.store(0, std::memory_order_relaxed);
        tell(static_cast<int>(pieces));
        int theirs = static_cast<int>(pieces);
        for (int left = theirs; left > 0;)
            if (left_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) {
                piece(work, static_cast<std::size_t>(--left));
                --theirs;
            }
        while (done_.load(std::memory_order_acquire) < theirs) pause();
    }
    void tell(int left) {
        left_.store(left, std::memory_order_release);
        left_.notify_all();
    }
    int look() const {
        for (int spin = 0; spin < patience; ++spin, pause())
            if (const int left = left_.load(std::memory_order_acquire); left != 0) return left;
        left_.wait(0, std::memory_order_acquire);
        return left_.load(std::memory_order_acquire);
    }

    std::size_t helpers_ = 0;
    const void* work_ = nullptr;
    Piece piece_ = nullptr;
    unsigned mode_ = 0;
    std::atomic<int> left_{0}, done_{0};
};

}  // namespace detail

struct OpenMp {
    static constexpr auto offers = offer::validate;
    std::size_t threads = 2;

    std::size_t concurrency() const { return threads; }

    template <class Body>
    void for_each([[maybe_unused]] std::size_t tasks, [[maybe_unused]] Body&& body) const {
#ifdef _OPENMP
        run(tasks, body);
#else
        static_assert(sizeof(Body) == 0, "tessera::exec::OpenMp: build with -fopenmp (find_package component openmp)");
#endif
    }
    void validate() const {
        if (threads < 1 || threads > 1024)  // asked before every round: no string unless it is needed
            throw ConfigError("threads must lie in 1..1024, not " + std::to_string(threads));
    }

#ifdef _OPENMP
private:
    // Parallel regions are slow to compile, so all bodies share these.
    void run(std::size_t tasks, FunctionRef<void(std::size_t task, std::size_t worker)> body) const {
        std::exception_ptr failure;
        std::size_t failed = tasks;
        const auto attempt = [&](std::size_t task) {
            try {
                body(task, static_cast<std::size_t>(omp_get_thread_num()));
            } catch (...) {
#pragma omp critical(tessera_failure)
                if (task < failed) {
                    failed = task;
                    failure = std::current_exception();
                }
            }
        };
        if (tasks > 0 && tasks < threads) {
            Vec<detail::LentThreads> crews(tasks);
#pragma omp parallel num_threads(static_cast<int>(threads))
            {
                const auto team = static_cast<std::size_t>(omp_get_num_threads()), leaders = std::min(tasks, team);
                const auto me = static_cast<std::size_t>(omp_get_thread_num());
                detail::LentThreads& crew = crews[me % leaders];
                if (me < leaders) {
                    crew.expect((team - 1 - me) / leaders);
                    const Crew::Use use(me + leaders < team ? &crew : nullptr);
                    for (std::size_t task = me; task < tasks; task += leaders) attempt(task);
                    crew.dismiss();
                } else {
                    crew.serve();
                }
            }
        } else {
#pragma omp parallel for num_threads(static_cast<int>(threads)) schedule(dynamic)
            for (std::size_t task = 0; task < tasks; ++task) attempt(task);
        }
        if (failure) std::rethrow_exception(failure);
    }
#endif
};

}  // namespace tessera::exec
