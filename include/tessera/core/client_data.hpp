// SPDX-License-Identifier: BSD-3-Clause
// One client's data as the runtime sees it: views into storage that somebody else keeps alive.
#pragma once

#include <cstdint>
#include <span>

#include <tessera/core/batch.hpp>

namespace tessera {

struct ClientData {
    const Examples* examples = nullptr;
    std::span<const Index> train{}, validation{}, test{};
    std::uint64_t key = 0;  // names the client's random streams: a property of the client, not of its position
};

}  // namespace tessera
