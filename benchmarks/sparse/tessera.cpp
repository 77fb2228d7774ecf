// SPDX-License-Identifier: BSD-3-Clause
// Ours: the sparse kernels where there is a mask, the dense ones where there is none.
#include <algorithm>
#include <vector>

#include <tessera/core/mask.hpp>
#include <tessera/kernels/sparse.hpp>

#include "sparse/problem.hpp"

namespace {

using namespace tessera;

class SparseLayer : public bench::SparseStepper {
public:
    explicit SparseLayer(const bench::SparseTask& t)
        : t_(t), x_(kernels::padded<float>(t.batch) * t.in), y_(kernels::padded<float>(t.batch) * t.out),
          dx_(x_.size()), y_rows_(t.batch * t.out), dx_rows_(t.batch * t.in) {
        Mask mask(t.weights());
        for (std::size_t j = 0; j < t.weights(); ++j) mask.set(j, t.mask[j] != 0);
        pattern_ = kernels::SparsePattern(mask.words().data(), 0, t.out, t.in, true);
        w_.resize(pattern_.count());
    }
    void load(const float* w) override {
        for (std::size_t j = 0, k = 0; j < t_.weights(); ++j)
            if (t_.mask[j]) w_[k++] = w[j];
    }
    void step() override {
        const Arena::Use use(arena_);
        to_blocks(t_.x, x_, t_.in);
        kernels::sparse_affine(pattern_, w_.data(), static_cast<const float*>(nullptr), x_.data(), y_.data(), t_.batch);
        from_blocks(y_, y_rows_, t_.out);
        Vec<float>& dy = y_;  // which is not wanted any more
        to_blocks(t_.dy, dy, t_.out);
        kernels::sparse_backward(pattern_, dy.data(), x_.data(), w_.data(), {dx_.data(), dx_rows_.data()}, t_.batch,
                                 {}, {t_.rate, 0, 0, 0});
    }
    const float* y() const override { return y_rows_.data(); }
    const float* dx() const override { return dx_rows_.data(); }
    void read(float* w) const override {
        for (std::size_t j = 0, k = 0; j < t_.weights(); ++j) w[j] = t_.mask[j] ? w_[k++] : 0;
    }

private:
    void to_blocks(const float* rows, Vec<float>& blocks, std::size_t numbers) const {
        kernels::to_blocks(kernels::RowTable<float>(rows, t_.batch, numbers).rows(), blocks.data(), t_.batch, numbers,
                           kernels::padded<float>(t_.batch));
    }
    void from_blocks(const Vec<float>& blocks, Vec<float>& rows, std::size_t numbers) const {
        kernels::from_blocks(blocks.data(), rows.data(), t_.batch, numbers, kernels::padded<float>(t_.batch));
    }

    Arena arena_;
    bench::SparseTask t_;
    kernels::SparsePattern pattern_;
    Vec<float> w_, x_, y_, dx_, y_rows_, dx_rows_;
};

class DenseLayer : public bench::SparseStepper {
public:
    explicit DenseLayer(const bench::SparseTask& t)
        : t_(t), w_(t.weights() + t.out), y_(t.batch * t.out), dx_(t.batch * t.in) {}
    void load(const float* w) override { std::copy_n(w, t_.weights(), w_.begin()); }
    void step() override {
        const Arena::Use use(arena_);
        kernels::affine(t_.x, w_.data(), static_cast<const float*>(nullptr), y_.data(), t_.batch, t_.in, t_.out);
        kernels::affine_input_gradient(t_.dy, w_.data(), dx_.data(), t_.batch, t_.in, t_.out);
        kernels::affine_update(t_.dy, t_.x, w_.data(), t_.batch, t_.in, t_.out, {}, {t_.rate, 0, 0, 0});
    }
    const float* y() const override { return y_.data(); }
    const float* dx() const override { return dx_.data(); }
    void read(float* w) const override { std::copy_n(w_.begin(), t_.weights(), w); }

private:
    Arena arena_;
    bench::SparseTask t_;
    Vec<float> w_, y_, dx_;
};

}  // namespace

void add_tessera(bench::SparseCompetitors& all) {
    all.add("tessera", [](const bench::SparseTask& t) -> bench::SparseStepper* {
        if (t.dense) return new DenseLayer(t);
        return new SparseLayer(t);
    });
}
