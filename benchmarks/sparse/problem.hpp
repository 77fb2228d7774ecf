// SPDX-License-Identifier: BSD-3-Clause
// One step of a layer whose weights exist only where a mask says: forward, input gradient, update. Activations come and
// go by rows, [batch][numbers], and weights are loaded and read as zero-filled [out][in]; what a competitor keeps in
// between is its own affair, but every copy it makes in a step is a part of the step.
//
// Only plain data crosses this header: competitors are compiled with different flags.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

struct SparseTask {
    std::size_t in, out, batch;
    float rate;
    const float* x;           // [batch][in]
    const float* dy;          // [batch][out]
    const std::uint8_t* mask;  // [out][in], 1 where a weight exists
    bool dense;                // all of them do

    std::size_t weights() const { return in * out; }
};

// y = x W', dx = dy W, and then W -= rate * (dy' x) where the mask is 1.
class SparseStepper {
public:
    virtual ~SparseStepper() = default;
    virtual void load(const float* w) = 0;
    virtual void step() = 0;
    virtual const float* y() const = 0;
    virtual const float* dx() const = 0;
    virtual void read(float* w) const = 0;
};

class SparseCompetitors {
public:
    using Make = SparseStepper* (*)(const SparseTask&);
    virtual void add(const char* name, Make make) = 0;

protected:
    ~SparseCompetitors() = default;
};

}  // namespace bench

// How a competitor's library begins: BENCH_PEER(all) { all.add(...); }
#define BENCH_PEER(all) extern "C" __attribute__((visibility("default"))) void add_peer(bench::SparseCompetitors& all)
