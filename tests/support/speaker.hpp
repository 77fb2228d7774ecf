// SPDX-License-Identifier: BSD-3-Clause
// Whom a frame says it is of: what an honest transport would know by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <tessera/core/view.hpp>

namespace tessera::support {

inline Id speaker(std::span<const std::byte> frame) {
    std::uint64_t client = 0;
    if (frame.size() >= 40) std::memcpy(&client, frame.data() + 32, sizeof client);
    return static_cast<Id>(client);
}

}  // namespace tessera::support
