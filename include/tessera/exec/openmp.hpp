// SPDX-License-Identifier: BSD-3-Clause
// Tasks over a team of OpenMP threads, handed out one by one. Build with OpenMP (component `openmp`).
#pragma once

#include <cstddef>
#include <exception>
#include <string>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <tessera/core/error.hpp>

namespace tessera::exec {

struct OpenMp {
    std::size_t threads = 2;

    std::size_t concurrency() const { return threads; }

    template <class Body>
    void for_each([[maybe_unused]] std::size_t tasks, [[maybe_unused]] Body&& body) const {
#ifdef _OPENMP
        std::exception_ptr failure;
        std::size_t failed = tasks;
#pragma omp parallel for num_threads(static_cast<int>(threads)) schedule(dynamic)
        for (std::size_t task = 0; task < tasks; ++task) {
            try {
                body(task, static_cast<std::size_t>(omp_get_thread_num()));
            } catch (...) {
#pragma omp critical(tessera_failure)
                if (task < failed) {
                    failed = task;
                    failure = std::current_exception();
                }
            }
        }
        if (failure) std::rethrow_exception(failure);
#else
        static_assert(sizeof(Body) == 0, "tessera::exec::OpenMp: build with -fopenmp (find_package component openmp)");
#endif
    }
    void validate() const {
        if (threads < 1 || threads > 1024)  // asked before every round: no string unless it is needed
            throw ConfigError("threads must lie in 1..1024, not " + std::to_string(threads));
    }
};

}  // namespace tessera::exec
