// SPDX-License-Identifier: BSD-3-Clause
// Ours: kernels::largest, which makes a Mask. The copy of its 125 kB into the answer is timed with it.
#include <algorithm>

#include <tessera/kernels/select.hpp>

#include "select/problem.hpp"

namespace {

void select(const bench::SelectTask& task, std::uint64_t* mask) {
    static tessera::Arena arena;
    const tessera::Arena::Use use(arena);
    const auto chosen = tessera::kernels::largest(tessera::In<float>(task.x, task.size), task.keep);
    std::copy(chosen.words().begin(), chosen.words().end(), mask);
}

}  // namespace

void add_tessera(bench::SelectCompetitors& all) { all.add("tessera", select); }
