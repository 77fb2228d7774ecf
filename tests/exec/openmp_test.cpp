// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/exec/openmp.hpp>

#include <atomic>
#include <cstddef>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/executor.hpp>
#include <tessera/core/crew.hpp>
#include <tessera/core/denormals.hpp>

using namespace tessera;

#ifdef _OPENMP

TEST_CASE("every task once, on a worker below the concurrency") {
    static_assert(Executor<exec::OpenMp>);
    for (const std::size_t threads : {1u, 2u, 3u, 7u, 16u})
        for (const std::size_t tasks : {0u, 1u, 2u, 100u}) {
            const exec::OpenMp team{threads};
            CHECK(team.concurrency() == threads);
            std::vector<std::atomic<int>> times(tasks);
            std::atomic<bool> below{true};
            team.for_each(tasks, [&](std::size_t task, std::size_t worker) {
                ++times[task];
                if (worker >= threads) below = false;
            });
            CHECK(below);
            for (const auto& t : times) CHECK(t == 1);
        }
}

TEST_CASE("a worker has one task at a time") {
    std::vector<std::atomic<int>> busy(4);
    std::atomic<bool> shared{false};
    exec::OpenMp{4}.for_each(2000, [&](std::size_t, std::size_t worker) {
        if (++busy[worker] != 1) shared = true;
        --busy[worker];
    });
    CHECK_FALSE(shared);
}

TEST_CASE("all tasks run, and what the lowest failing one threw comes out") {
    for (const std::size_t threads : {1u, 2u, 5u})
        for (const std::size_t lowest : {0u, 1u, 17u, 39u}) {
            std::atomic<std::size_t> ran{0};
            CHECK_THROWS_WITH_AS(exec::OpenMp{threads}.for_each(40,
                                                                [&](std::size_t task, std::size_t) {
                                                                    ++ran;
                                                                    if (task >= lowest)
                                                                        throw std::range_error(std::to_string(task));
                                                                }),
                                 std::to_string(lowest).c_str(), std::range_error);
            CHECK(ran == 40);
            CHECK_NOTHROW(
                exec::OpenMp{threads}.for_each(40, [](std::size_t, std::size_t) {}));  // and it is usable again
        }
}

namespace {

// A piece that ends only when `count` threads are inside: each of them must have one.
class Meeting {
public:
    explicit Meeting(int count) : count_(count) {}
    void attend() {
        ++inside_;
        while (inside_ < count_) std::this_thread::yield();
    }

private:
    int count_;
    std::atomic<int> inside_{0};
};

bool flushes_denormals() {
    volatile float least = std::numeric_limits<float>::min(), tenth = 0.1f;
    return least * tenth == 0;
}

}  // namespace

TEST_CASE("threads without a task help those that have one, with every piece once") {
    for (const std::size_t threads : {2u, 4u, 5u})
        for (const std::size_t tasks : {1u, 2u, 3u}) {
            std::vector<std::atomic<std::size_t>> sizes(tasks);
            std::atomic<int> wrong{0};
            exec::OpenMp{threads}.for_each(tasks, [&](std::size_t task, std::size_t) {
                sizes[task] = Crew::size();
                Meeting meeting(static_cast<int>(Crew::size()));
                std::atomic<int> nested{0};
                Crew::for_each(Crew::size(), [&](std::size_t) {
                    meeting.attend();
                    if (Crew::size() != 1) ++nested;  // a piece has no crew of its own
                });
                wrong += nested;
                for (int again = 0; again < 200; ++again) {
                    std::vector<std::atomic<int>> times(17);
                    Crew::for_each(times.size(), [&](std::size_t piece) { ++times[piece]; });
                    for (const auto& t : times) wrong += t != 1;
                }
            });
            CHECK(wrong == 0);
            std::size_t working = 0;
            for (const auto& size : sizes) working += size;
            CHECK(working == (tasks < threads ? threads : tasks));  // nobody idle, nobody twice
        }
}

TEST_CASE("who helps computes as the one that is helped: denormals") {
    CHECK_FALSE(flushes_denormals());  // negative control: the mode of this thread is the usual one
    for (const bool flush : {false, true}) {
        std::atomic<int> flushed{0};
        exec::OpenMp{3}.for_each(1, [&](std::size_t, std::size_t) {
            std::optional<FlushDenormals> mode;
            if (flush) mode.emplace();
            Meeting meeting(3);
            Crew::for_each(3, [&](std::size_t) {
                meeting.attend();
                flushed += flushes_denormals();
            });
        });
#if defined(__SSE2__)
        CHECK(flushed == (flush ? 3 : 0));
#endif
        CHECK_FALSE(flushes_denormals());
    }
}

TEST_CASE("helpers go when their task fails") {
    const exec::OpenMp team{3};
    for (int again = 0; again < 20; ++again)
        CHECK_THROWS_WITH_AS(team.for_each(2,
                                           [](std::size_t task, std::size_t) {
                                               Crew::for_each(5, [](std::size_t) {});
                                               throw std::range_error(std::to_string(task));
                                           }),
                             "0", std::range_error);
}

TEST_CASE("a number of threads that is none is refused") {
    CHECK_NOTHROW(exec::OpenMp{1024}.validate());
    CHECK_THROWS_WITH_AS(exec::OpenMp{0}.validate(), "threads must lie in 1..1024, not 0", ConfigError);
    CHECK_THROWS_AS(exec::OpenMp{1025}.validate(), ConfigError);
}

#else

TEST_CASE("without OpenMP there is nothing to test here") { CHECK(true); }

#endif
