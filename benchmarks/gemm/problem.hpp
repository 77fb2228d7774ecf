// SPDX-License-Identifier: BSD-3-Clause
// The three matrix products of a linear layer, each alone:
//
//   forward   y  [batch][out] = x W^T
//   weights   dW [out][in]    = dy^T x
//   inputs    dx [batch][in]  = dy W
//
// A competitor says which layout of W and dW it multiplies fastest, [out][in] or [in][out], and is given that one. Only
// plain data crosses this header: competitors are compiled with different flags.
#pragma once

#include <cstddef>

namespace bench {

enum class Product { forward, weights, inputs };

struct GemmTask {
    Product product;
    std::size_t batch, in, out;
    const float* x;
    const float* w;  // in the layout the competitor asked for
    const float* dy;
    float* result;
};

class Multiplier {
public:
    virtual ~Multiplier() = default;
    virtual void run() = 0;
};

class GemmCompetitors {
public:
    using Make = Multiplier* (*)(const GemmTask&);  // null: the library has no kernel of this size
    virtual void add(const char* name, bool in_first, Make make) = 0;

protected:
    ~GemmCompetitors() = default;
};

// A competitor that is one function per product.
template <class Library>
class Calls final : public Multiplier {
public:
    explicit Calls(const GemmTask& task) : task_(task) {}
    void run() override {
        switch (task_.product) {
            case Product::forward: Library::forward(task_); return;
            case Product::weights: Library::weights(task_); return;
            case Product::inputs: Library::inputs(task_); return;
        }
    }
    static Multiplier* make(const GemmTask& task) { return new Calls(task); }

private:
    GemmTask task_;
};

}  // namespace bench

// How a competitor's library begins: BENCH_PEER(all) { all.add(...); }
#define BENCH_PEER(all) extern "C" __attribute__((visibility("default"))) void add_peer(bench::GemmCompetitors& all)
