// SPDX-License-Identifier: BSD-3-Clause
// One task after the other on the calling thread.
#pragma once

#include <cstddef>

#include <tessera/core/offers.hpp>

namespace tessera::exec {

struct Serial {
    static constexpr Offers offers{};
    std::size_t concurrency() const { return 1; }

    template <class Body>
    void for_each(std::size_t tasks, Body&& body) const {
        for (std::size_t task = 0; task < tasks; ++task) body(task, std::size_t{0});
    }
};

}  // namespace tessera::exec
