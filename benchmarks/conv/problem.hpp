// SPDX-License-Identifier: BSD-3-Clause
// The three products of a convolution, each alone, batch 32: forward without a bias, the gradient in the input, the
// gradient in the weights. Planes come and go channels first ([image][channel][row][column]); a competitor that works
// in a layout of its own converts what it is given before it is timed. Only plain data crosses this header.
#pragma once

#include <cstddef>

namespace bench {

enum class ConvProduct { forward, inputs, weights };

struct ConvTask {
    ConvProduct product;
    std::size_t batch, channels, out, height, kernel, stride, pad;
    const float *x, *w, *dy;
    float* result;

    std::size_t rows() const { return (height + 2 * pad - kernel) / stride + 1; }
};

class Convolver {
public:
    virtual ~Convolver() = default;
    virtual void run() = 0;
    virtual void answer() {}  // into `result`, where run leaves it elsewhere
};

class ConvCompetitors {
public:
    using Make = Convolver* (*)(const ConvTask&);  // null: the library has no kernel of this shape
    virtual void add(const char* name, Make make) = 0;

protected:
    ~ConvCompetitors() = default;
};

}  // namespace bench

#define BENCH_PEER(all) extern "C" __attribute__((visibility("default"))) void add_peer(bench::ConvCompetitors& all)
