// SPDX-License-Identifier: BSD-3-Clause
// The mask of the `keep` largest magnitudes of a vector, exactly. Only plain data crosses this header: competitors are
// compiled with different flags.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

struct SelectTask {
    const float* x;
    std::size_t size, keep;
};

// Writes size/64 words, bit j of which stands for x[j]. Magnitudes here are all different.
using Select = void (*)(const SelectTask&, std::uint64_t* mask);

class SelectCompetitors {
public:
    virtual void add(const char* name, Select select) = 0;

protected:
    ~SelectCompetitors() = default;
};

}  // namespace bench

// How a competitor's library begins: BENCH_PEER(all) { all.add(...); }
#define BENCH_PEER(all) extern "C" __attribute__((visibility("default"))) void add_peer(bench::SelectCompetitors& all)
