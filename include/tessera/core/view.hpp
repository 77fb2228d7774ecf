// SPDX-License-Identifier: BSD-3-Clause
// What functions take instead of containers: read-only and writable spans of numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <tessera/core/strict_math.hpp>

namespace tessera {

template <class R>
using In = std::span<const R>;
template <class R>
using Out = std::span<R>;

using Index = std::uint32_t;  // position of an example in its storage
using Id = std::uint32_t;     // dense number of a client, 0 .. N-1

struct Nothing {
    friend bool operator==(Nothing, Nothing) = default;
};

}  // namespace tessera
