// SPDX-License-Identifier: BSD-3-Clause
// xtensor with xtensor-blas on OpenBLAS: products by xt::blas::gemm, which adds to the weights without a temporary; the
// rest as xtensor expressions. Reducers are evaluated at once: lazily broadcast ones give wrong numbers.
#include <xtensor-blas/xblas.hpp>
#include <xtensor/xadapt.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>

#include <algorithm>
#include <array>

#include "dense_step/problem.hpp"

extern "C" void openblas_set_num_threads(int);

namespace {

using Matrix = xt::xtensor<float, 2>;
using Vector = xt::xtensor<float, 1>;

class Xtensor : public bench::Stepper {
public:
    explicit Xtensor(const bench::StepTask& t)
        : t_(t),
          w1_(Matrix::from_shape({t.hidden ? t.hidden : t.classes, t.inputs})),
          b1_(Vector::from_shape({t.hidden ? t.hidden : t.classes})),
          w2_(Matrix::from_shape({t.hidden ? t.classes : 0, t.hidden})),
          b2_(Vector::from_shape({t.hidden ? t.classes : 0})),
          pre_(Matrix::from_shape({t.batch, t.hidden})),
          act_(pre_),
          z_(Matrix::from_shape({t.batch, t.classes})),
          back_(pre_) {}

    void load(const float* p) override {
        for (float* to : {w1_.data(), b1_.data(), w2_.data(), b2_.data()}) p = copy(p, to, size_of(to));
    }
    void read(float* p) const override {
        for (const float* from : {w1_.data(), b1_.data(), w2_.data(), b2_.data()})
            p = std::copy_n(from, size_of(from), p);
    }
    void step(std::size_t batch) override {
        const std::array<std::size_t, 2> shape{t_.batch, t_.inputs};
        const std::size_t size = t_.batch * t_.inputs;
        const auto x = xt::adapt(t_.rows + batch * size, size, xt::no_ownership(), shape);
        const std::int32_t* labels = t_.labels + batch * t_.batch;
        if (t_.hidden == 0) {
            xt::blas::gemm(x, w1_, z_, false, true, 1.0f, 0.0f);
            xt::noalias(z_) += b1_;
            descent_of_logits(labels);
            xt::blas::gemm(z_, x, w1_, true, false, 1.0f, 1.0f);
            xt::noalias(b1_) += xt::sum(z_, {0}, xt::evaluation_strategy::immediate);
            return;
        }
        xt::blas::gemm(x, w1_, pre_, false, true, 1.0f, 0.0f);
        xt::noalias(pre_) += b1_;
        xt::noalias(act_) = xt::maximum(pre_, bench::leak * pre_);
        xt::blas::gemm(act_, w2_, z_, false, true, 1.0f, 0.0f);
        xt::noalias(z_) += b2_;
        descent_of_logits(labels);
        xt::blas::gemm(z_, w2_, back_, false, false, 1.0f, 0.0f);
        xt::noalias(back_) *= xt::where(pre_ > 0.0f, 1.0f, bench::leak);
        xt::blas::gemm(z_, act_, w2_, true, false, 1.0f, 1.0f);
        xt::noalias(b2_) += xt::sum(z_, {0}, xt::evaluation_strategy::immediate);
        xt::blas::gemm(back_, x, w1_, true, false, 1.0f, 1.0f);
        xt::noalias(b1_) += xt::sum(back_, {0}, xt::evaluation_strategy::immediate);
    }

private:
    std::size_t size_of(const float* p) const {
        return p == w1_.data() ? w1_.size() : p == b1_.data() ? b1_.size() : p == w2_.data() ? w2_.size() : b2_.size();
    }
    static const float* copy(const float* from, float* to, std::size_t n) {
        std::copy_n(from, n, to);
        return from + n;
    }
    void descent_of_logits(const std::int32_t* labels) {
        const Vector top = xt::amax(z_, {1}, xt::evaluation_strategy::immediate);
        xt::noalias(z_) = xt::exp(z_ - xt::view(top, xt::all(), xt::newaxis()));
        const Vector total = xt::sum(z_, {1}, xt::evaluation_strategy::immediate);
        const float scale = -t_.rate / static_cast<float>(t_.batch);
        xt::noalias(z_) *= scale / xt::view(total, xt::all(), xt::newaxis());
        for (std::size_t b = 0; b < t_.batch; ++b) z_(b, static_cast<std::size_t>(labels[b])) -= scale;
    }

    bench::StepTask t_;
    Matrix w1_;
    Vector b1_;
    Matrix w2_;
    Vector b2_;
    Matrix pre_, act_, z_, back_;
};

}  // namespace

BENCH_PEER(all) {
    openblas_set_num_threads(1);
    all.add("xtensor_blas", [](const bench::StepTask& task) -> bench::Stepper* { return new Xtensor(task); });
}
