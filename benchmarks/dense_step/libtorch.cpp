// SPDX-License-Identifier: BSD-3-Clause
// libtorch, in two strengths: its autograd with plain SGD, and gradients written by hand with products that add to the
// weights in place.
#include <torch/torch.h>

#include "dense_step/problem.hpp"

namespace {

using torch::Tensor;

class Torch : public bench::Stepper {
public:
    explicit Torch(const bench::StepTask& t) : t_(t) {
        const auto in = static_cast<std::int64_t>(t.inputs), hidden = static_cast<std::int64_t>(t.hidden),
                   classes = static_cast<std::int64_t>(t.classes), batch = static_cast<std::int64_t>(t.batch);
        if (hidden) weights_ = {zeros({hidden, in}), zeros({hidden}), zeros({classes, hidden}), zeros({classes})};
        else weights_ = {zeros({classes, in}), zeros({classes})};
        const auto rows =
            torch::from_blob(const_cast<float*>(t.rows), {static_cast<std::int64_t>(t.batches), batch, in});
        const auto labels = torch::from_blob(const_cast<std::int32_t*>(t.labels),
                                             {static_cast<std::int64_t>(t.batches), batch}, torch::kInt32)
                                .to(torch::kInt64);
        for (std::int64_t i = 0; i < rows.size(0); ++i) {
            inputs_.push_back(rows[i]);
            labels_.push_back(labels[i]);
            targets_.push_back(torch::one_hot(labels[i], classes).to(torch::kFloat32));
        }
    }
    void load(const float* p) override {
        const torch::NoGradGuard still;
        for (auto& w : weights_) {
            w.copy_(torch::from_blob(const_cast<float*>(p), w.sizes()));
            p += w.numel();
        }
    }
    void read(float* p) const override {
        for (const auto& w : weights_) p = std::copy_n(w.data_ptr<float>(), w.numel(), p);
    }

protected:
    static Tensor zeros(std::initializer_list<std::int64_t> shape) { return torch::zeros(shape); }

    bench::StepTask t_;
    std::vector<Tensor> weights_, inputs_, labels_, targets_;
};

class Autograd final : public Torch {
public:
    explicit Autograd(const bench::StepTask& t) : Torch(t), sgd_(watched(weights_), torch::optim::SGDOptions(t.rate)) {}
    void step(std::size_t i) override {
        sgd_.zero_grad();
        Tensor z = torch::linear(inputs_[i], weights_[0], weights_[1]);
        if (t_.hidden) z = torch::linear(torch::leaky_relu(z, bench::leak), weights_[2], weights_[3]);
        torch::nn::functional::cross_entropy(z, labels_[i]).backward();
        sgd_.step();
    }

private:
    static std::vector<Tensor> watched(std::vector<Tensor>& weights) {
        for (auto& w : weights) w.requires_grad_();
        return weights;
    }
    torch::optim::SGD sgd_;
};

class Manual final : public Torch {
public:
    using Torch::Torch;
    void step(std::size_t i) override {
        const torch::NoGradGuard still;
        const double rate = static_cast<double>(t_.rate);
        const Tensor& x = inputs_[i];
        const Tensor pre = torch::addmm(weights_[1], x, weights_[0].t());
        if (t_.hidden == 0) {
            const Tensor dz = (torch::softmax(pre, 1) - targets_[i]).div_(static_cast<double>(t_.batch));
            weights_[0].addmm_(dz.t(), x, 1, -rate);
            weights_[1].sub_(dz.sum(0), rate);
            return;
        }
        const Tensor act = torch::leaky_relu(pre, bench::leak);
        const Tensor dz = (torch::softmax(torch::addmm(weights_[3], act, weights_[2].t()), 1) - targets_[i])
                              .div_(static_cast<double>(t_.batch));
        const Tensor back = torch::leaky_relu_backward(torch::mm(dz, weights_[2]), pre, bench::leak, false);
        weights_[2].addmm_(dz.t(), act, 1, -rate);
        weights_[3].sub_(dz.sum(0), rate);
        weights_[0].addmm_(back.t(), x, 1, -rate);
        weights_[1].sub_(back.sum(0), rate);
    }
};

}  // namespace

BENCH_PEER(all) {
    torch::set_num_threads(1);
    all.add("libtorch_autograd", [](const bench::StepTask& task) -> bench::Stepper* { return new Autograd(task); });
    all.add("libtorch_manual", [](const bench::StepTask& task) -> bench::Stepper* { return new Manual(task); });
}
