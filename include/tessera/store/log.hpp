// SPDX-License-Identifier: BSD-3-Clause
// Clients' states in a log on disk: memory holds 16 bytes a client, and the states of the clients that are visited.
//
// States are only ever appended; an index in memory knows where each client's last one lies. A round's states are
// written while its visits run and count from its footer on. Where more than half of what is written is out of date,
// each round moves at most twice as many bytes as it wrote from the file with the least in it, and a file with nothing
// left in it goes. It stays as long as one of the last two checkpoints reads it.
// A checkpoint holds where the log ended; the log is synced before. So a run that is killed goes on from its last
// checkpoint, and one whose log ends too early from the one before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <tessera/contracts/store.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/store/detail/log_format.hpp>
#include <tessera/store/detail/log_parts.hpp>
#include <tessera/store/detail/log_store.hpp>

namespace tessera::store {

// Where states are unless a federation is told otherwise.
struct Memory {
    static constexpr Offers offers{};
    std::unique_ptr<Store> open(std::size_t) const { return nullptr; }
};

struct Log {
    static constexpr Offers offers{};
    std::string directory;  // of this run alone; made if it is not there
    bool anew = false;      // replaces what an earlier run left there, unless the run is restored from a checkpoint
    std::uint64_t least = 8 << 20;  // bytes of a file before the next is begun, and of garbage that is cared for

    // On several ranks each has a log of its own, in folders below the directory.
    std::unique_ptr<Store> open(std::size_t clients, const StorePart& part = {}) const {
        tessera::detail::require(!directory.empty(), "store::Log: directory says where the log is, and is empty");
        tessera::detail::require(least > 0 && least <= detail::largest_file / 4,
                                 "store::Log: least must lie in 1.." + std::to_string(detail::largest_file / 4));
        return std::make_unique<detail::LogStore>(directory, part, anew, least, clients);
    }
    std::unique_ptr<Store> look(std::size_t clients, const StorePart& part, Reader& written) const {
        return std::make_unique<detail::LogStore>(directory, part, clients, written);
    }
    void let_go(std::span<const StorePart> needed) const { detail::let_go_of_logs(directory, needed); }
};
static_assert(SharedStorePolicy<Log>);

}  // namespace tessera::store
