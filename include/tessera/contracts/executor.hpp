// SPDX-License-Identifier: BSD-3-Clause
// Executor: the only code that may start threads.
//
// for_each(tasks, body) calls body(task, worker) once per task, worker < concurrency(), and returns when
// all are done; if some threw, it rethrows what the lowest task threw. One that offers `remarks` has something to say
// of each round.
#pragma once

#include <concepts>
#include <cstddef>

#include <tessera/core/offers.hpp>

namespace tessera {

template <class E>
concept Executor = requires(const E executor, std::size_t tasks, void (*body)(std::size_t task, std::size_t worker)) {
    { executor.concurrency() } -> std::convertible_to<std::size_t>;
    { executor.for_each(tasks, body) } -> std::same_as<void>;
};

namespace detail {

struct ExecutorNames {
    int remarks;
};
template <class E> concept names_remarks = !requires { &Probed<E, ExecutorNames>::remarks; };

template <class E>
consteval bool executor_is_spelt() {
    static_assert(policy_is_spelt<E>());
    if constexpr (StatesOffers<E>)
        static_assert(agrees<E>(names_remarks<E>, offer::remarks),
                      "tessera::Executor: `remarks` must be a member and be listed in `offers`, or neither; is it "
                      "misspelt?");
    return true;
}

}  // namespace detail

}  // namespace tessera
