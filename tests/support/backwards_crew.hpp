// SPDX-License-Identifier: BSD-3-Clause
// A crew that shows, without threads, that no bit depends on who does which piece, and when.
#pragma once

#include <cstddef>

#include <tessera/core/crew.hpp>

namespace tessera::support {

// A crew of one thread, which does the last piece first and may forget the very first.
class BackwardsCrew final : public Crew {
public:
    explicit BackwardsCrew(std::size_t threads, bool forgets = false) : threads_(threads), forgets_(forgets) {}
    std::size_t pieces = 0;

private:
    std::size_t helpers() const override { return threads_ - 1; }
    void run(std::size_t count, const void* work, Piece piece) override {
        pieces += count;
        for (; count > (forgets_ ? 1 : 0); --count) piece(work, count - 1);
    }
    std::size_t threads_;
    bool forgets_;
};

}  // namespace tessera::support
