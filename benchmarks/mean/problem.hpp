// SPDX-License-Identifier: BSD-3-Clause
// The weighted mean of many vectors: whole ones, or packed ones of which each client owns a quarter of the coordinates.
//
//   w[j] = (sum over clients of weight_k * v_k[j]) / sum of weights,  v_k[j] = x_k[j], or w[j] as it was if k has no j
//
// Only plain data crosses this header: competitors are compiled with different flags.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

struct MeanTask {
    std::size_t clients, size;  // size is a multiple of 64
    const float* const* rows;
    const double* weights;
    const std::uint64_t* const* masks;  // null: whole rows. Else bits, and rows hold the set coordinates one by one
};

class Averager {
public:
    virtual ~Averager() = default;
    virtual void load(const float* before) = 0;
    virtual void run() = 0;
    virtual void read(float* mean) const = 0;
};

class MeanCompetitors {
public:
    using Make = Averager* (*)(const MeanTask&);
    virtual void add(const char* name, Make make) = 0;

protected:
    ~MeanCompetitors() = default;
};

}  // namespace bench

// How a competitor's library begins: BENCH_PEER(all) { all.add(...); }
#define BENCH_PEER(all) extern "C" __attribute__((visibility("default"))) void add_peer(bench::MeanCompetitors& all)
