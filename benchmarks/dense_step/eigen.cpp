// SPDX-License-Identifier: BSD-3-Clause
// Eigen: what a competent user writes. Products go straight into the weights, nothing is allocated in the loop.
#include <Eigen/Core>

#include "dense_step/problem.hpp"

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<const Matrix>;
using Vector = Eigen::RowVectorXf;
using Eigen::Index;

// Softmax minus one-hot, times the rate over the batch; in place.
void descent_of_logits(Matrix& z, const std::int32_t* labels, float rate) {
    z.colwise() -= z.rowwise().maxCoeff().eval();
    z = z.array().exp().matrix();
    z.array().colwise() /= z.rowwise().sum().array().eval();
    for (Index i = 0; i < z.rows(); ++i) z(i, labels[i]) -= 1;
    z *= rate / static_cast<float>(z.rows());
}

class EigenStep : public bench::Stepper {
public:
    explicit EigenStep(const bench::StepTask& task)
        : task_(task),
          in_(static_cast<Index>(task.inputs)),
          hidden_(static_cast<Index>(task.hidden)),
          classes_(static_cast<Index>(task.classes)),
          batch_(static_cast<Index>(task.batch)),
          first_(hidden_ ? hidden_ : classes_, in_),
          first_bias_(first_.rows()),
          second_(hidden_ ? classes_ : 0, hidden_),
          second_bias_(second_.rows()),
          pre_(batch_, first_.rows()),
          act_(batch_, hidden_),
          z_(batch_, classes_),
          back_(batch_, hidden_) {}

    void load(const float* p) override {
        const auto take = [&p](auto& to) {
            to = Eigen::Map<const std::remove_reference_t<decltype(to)>>(p, to.rows(), to.cols());
            p += to.size();
        };
        take(first_);
        take(first_bias_);
        take(second_);
        take(second_bias_);
    }
    void read(float* p) const override {
        const auto give = [&p](const auto& from) {
            std::copy(from.data(), from.data() + from.size(), p);
            p += from.size();
        };
        give(first_);
        give(first_bias_);
        give(second_);
        give(second_bias_);
    }
    void step(std::size_t batch) override {
        const Rows x(task_.rows + batch * task_.batch * task_.inputs, batch_, in_);
        const std::int32_t* labels = task_.labels + batch * task_.batch;
        if (hidden_ == 0) {
            z_.noalias() = x * first_.transpose();
            z_.rowwise() += first_bias_;
            descent_of_logits(z_, labels, task_.rate);
            first_.noalias() -= z_.transpose() * x;
            first_bias_ -= z_.colwise().sum();
            return;
        }
        pre_.noalias() = x * first_.transpose();
        pre_.rowwise() += first_bias_;
        act_ = pre_.cwiseMax(bench::leak * pre_);
        z_.noalias() = act_ * second_.transpose();
        z_.rowwise() += second_bias_;
        descent_of_logits(z_, labels, task_.rate);
        back_.noalias() = z_ * second_;
        back_.array() *= (pre_.array() > 0).select(Eigen::ArrayXXf::Ones(batch_, hidden_), bench::leak);
        second_.noalias() -= z_.transpose() * act_;
        second_bias_ -= z_.colwise().sum();
        first_.noalias() -= back_.transpose() * x;
        first_bias_ -= back_.colwise().sum();
    }

private:
    bench::StepTask task_;
    Index in_, hidden_, classes_, batch_;
    Matrix first_;
    Vector first_bias_;
    Matrix second_;
    Vector second_bias_;
    Matrix pre_, act_, z_, back_;
};

}  // namespace

BENCH_PEER(all) {
    Eigen::setNbThreads(1);
    all.add("eigen", [](const bench::StepTask& task) -> bench::Stepper* { return new EigenStep(task); });
}
