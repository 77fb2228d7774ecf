// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/exec/openmp.hpp>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/executor.hpp>

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

TEST_CASE("a number of threads that is none is refused") {
    CHECK_NOTHROW(exec::OpenMp{1024}.validate());
    CHECK_THROWS_WITH_AS(exec::OpenMp{0}.validate(), "threads must lie in 1..1024, not 0", ConfigError);
    CHECK_THROWS_AS(exec::OpenMp{1025}.validate(), ConfigError);
}

#else

TEST_CASE("without OpenMP there is nothing to test here") { CHECK(true); }

#endif
