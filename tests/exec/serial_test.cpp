// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/exec/serial.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/executor.hpp>

using namespace tessera;

TEST_CASE("every task once, in order, on worker 0") {
    static_assert(Executor<exec::Serial>);
    CHECK(exec::Serial{}.concurrency() == 1);
    for (const std::size_t tasks : {0u, 1u, 100u}) {
        std::vector<std::size_t> seen;
        exec::Serial{}.for_each(tasks, [&](std::size_t task, std::size_t worker) {
            CHECK(worker == 0);
            seen.push_back(task);
        });
        CHECK(seen.size() == tasks);
        for (std::size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == i);
    }
}

TEST_CASE("what the lowest failing task threw comes out") {
    CHECK_THROWS_WITH_AS(exec::Serial{}.for_each(10,
                                                 [](std::size_t task, std::size_t) {
                                                     if (task >= 3) throw std::range_error(std::to_string(task));
                                                 }),
                         "3", std::range_error);
}
