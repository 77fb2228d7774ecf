// SPDX-License-Identifier: BSD-3-Clause
// Eigen, dense products. Without a mask they go straight into the weights; with one, the gradient is stored and masked,
// as masked training does elsewhere.
#include <Eigen/Core>

#include "sparse/problem.hpp"

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<const Matrix>;
using Eigen::Index;

class EigenStep : public bench::SparseStepper {
public:
    explicit EigenStep(const bench::SparseTask& t)
        : task_(t),
          batch_(static_cast<Index>(t.batch)),
          in_(static_cast<Index>(t.in)),
          out_(static_cast<Index>(t.out)),
          w_(out_, in_),
          g_(t.dense ? 0 : out_, t.dense ? 0 : in_),
          mask_(Eigen::Map<const Eigen::Matrix<std::uint8_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
                    t.mask, out_, in_)
                    .cast<float>() *
                t.rate),
          y_(batch_, out_),
          dx_(batch_, in_) {}

    void load(const float* w) override { w_ = Rows(w, out_, in_); }
    void step() override {
        const Rows x(task_.x, batch_, in_), dy(task_.dy, batch_, out_);
        y_.noalias() = x * w_.transpose();
        dx_.noalias() = dy * w_;
        if (task_.dense) {
            w_.noalias() -= task_.rate * (dy.transpose() * x);
        } else {
            g_.noalias() = dy.transpose() * x;
            w_.array() -= mask_.array() * g_.array();
        }
    }
    const float* y() const override { return y_.data(); }
    const float* dx() const override { return dx_.data(); }
    void read(float* w) const override { std::copy(w_.data(), w_.data() + w_.size(), w); }

private:
    bench::SparseTask task_;
    Index batch_, in_, out_;
    Matrix w_, g_, mask_, y_, dx_;
};

}  // namespace

BENCH_PEER(all) {
    Eigen::setNbThreads(1);
    all.add("eigen", [](const bench::SparseTask& t) -> bench::SparseStepper* { return new EigenStep(t); });
}
