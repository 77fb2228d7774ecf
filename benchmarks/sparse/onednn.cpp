// SPDX-License-Identifier: BSD-3-Clause
// oneDNN: its single-precision GEMM (row-major), weights [in][out], which it multiplies fastest at these sizes. With a
// mask the gradient is stored, and added where the mask says.
#include <dnnl.h>
#include <omp.h>

#include <cstddef>
#include <new>
#include <vector>

#include "sparse/problem.hpp"

namespace {

// Numbers that begin at a cache line.
template <class T>
struct AtLine {
    using value_type = T;
    AtLine() = default;
    template <class U>
    AtLine(const AtLine<U>&) {}
    T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
    void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t{64}); }
    friend bool operator==(AtLine, AtLine) { return true; }
};
using Numbers = std::vector<float, AtLine<float>>;

class OneDnn : public bench::SparseStepper {
public:
    explicit OneDnn(const bench::SparseTask& t)
        : t_(t), w_(t.weights()), g_(t.dense ? 0 : t.weights()), mask_(t.dense ? 0 : t.weights()),
          y_(t.batch * t.out), dx_(t.batch * t.in) {
        for (std::size_t j = 0; j < mask_.size(); ++j) mask_[place(j)] = t.mask[j] ? t.rate : 0;
    }
    void load(const float* w) override {
        for (std::size_t j = 0; j < w_.size(); ++j) w_[place(j)] = w[j];
    }
    void step() override {
        const auto b = static_cast<dnnl_dim_t>(t_.batch), i = static_cast<dnnl_dim_t>(t_.in);
        const auto o = static_cast<dnnl_dim_t>(t_.out);
        dnnl_sgemm('N', 'N', b, o, i, 1, t_.x, i, w_.data(), o, 0, y_.data(), o);
        dnnl_sgemm('N', 'T', b, i, o, 1, t_.dy, o, w_.data(), o, 0, dx_.data(), i);
        if (t_.dense) {
            dnnl_sgemm('T', 'N', i, o, b, -t_.rate, t_.x, i, t_.dy, o, 1, w_.data(), o);
        } else {
            dnnl_sgemm('T', 'N', i, o, b, 1, t_.x, i, t_.dy, o, 0, g_.data(), o);
            for (std::size_t j = 0; j < w_.size(); ++j) w_[j] -= mask_[j] * g_[j];
        }
    }
    const float* y() const override { return y_.data(); }
    const float* dx() const override { return dx_.data(); }
    void read(float* w) const override {
        for (std::size_t j = 0; j < w_.size(); ++j) w[j] = w_[place(j)];
    }

private:
    std::size_t place(std::size_t j) const { return j % t_.in * t_.out + j / t_.in; }

    bench::SparseTask t_;
    Numbers w_, g_, mask_, y_, dx_;
};

}  // namespace

BENCH_PEER(all) {
    omp_set_num_threads(1);
    all.add("onednn", [](const bench::SparseTask& t) -> bench::SparseStepper* { return new OneDnn(t); });
}
