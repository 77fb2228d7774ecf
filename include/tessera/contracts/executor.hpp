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

}  // namespace tessera
