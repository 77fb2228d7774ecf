// SPDX-License-Identifier: BSD-3-Clause
// One step of stochastic gradient descent on a batch: forward, softmax cross-entropy, backward, update.
//
// Only plain data crosses this header: competitors are compiled with different flags.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

// Batch i holds rows [i * batch, (i + 1) * batch) of `rows`: standardised floats, already gathered for everybody.
struct StepTask {
    std::size_t inputs, hidden, classes;  // hidden 0: no hidden layer
    std::size_t batch, batches;
    float rate;
    const float* rows;
    const std::uint8_t* bytes;  // the same rows as pixels: row = (byte - shift) * scale
    float shift, scale;
    const std::int32_t* labels;

    std::size_t parameters() const {
        return hidden == 0 ? classes * (inputs + 1) : hidden * (inputs + 1) + classes * (hidden + 1);
    }
    // Multiplications and additions of the matrix products; the first layer needs no input gradient.
    double flops() const {
        const double b = static_cast<double>(batch), i = static_cast<double>(inputs), c = static_cast<double>(classes);
        const double h = static_cast<double>(hidden);
        return hidden == 0 ? 2 * b * (2 * i * c) : 2 * b * (2 * i * h + 3 * h * c);
    }
};

inline constexpr float leak = 0.1f;  // slope of the hidden layer's leaky ReLU

// A competitor with its weights. The flat order of parameters is W1 [hidden][inputs], b1, W2 [classes][hidden], b2.
class Stepper {
public:
    virtual ~Stepper() = default;
    virtual void load(const float* parameters) = 0;
    virtual void step(std::size_t batch) = 0;
    virtual void read(float* parameters) const = 0;
};

class StepCompetitors {
public:
    using Make = Stepper* (*)(const StepTask&);
    virtual void add(const char* name, Make make) = 0;

protected:
    ~StepCompetitors() = default;
};

}  // namespace bench

// How a competitor's library begins: BENCH_PEER(all) { all.add(...); }
#define BENCH_PEER(all) extern "C" __attribute__((visibility("default"))) void add_peer(bench::StepCompetitors& all)
