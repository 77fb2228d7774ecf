// SPDX-License-Identifier: BSD-3-Clause
// The step around a library that only multiplies matrices: biases, activation and softmax are plain loops, compiled
// with the flags of the peer that includes this. `Products` is one layer's three products and the layout it likes best:
//
//   Products(batch, in, out)
//   static constexpr bool in_first            weights are [in][out], else [out][in]
//   forward(x, w, y)                          y  = x W^T
//   input_gradient(dy, w, dx)                 dx = dy W
//   update(dy, x, w)                          W += dy^T x
//
// The rate is multiplied into dy before, so the update is the product itself: no gradient is stored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <new>
#include <vector>

#include "dense_step/problem.hpp"

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

template <class Products>
class Layered : public bench::Stepper {
public:
    explicit Layered(const bench::StepTask& t)
        : t_(t),
          first_(t.batch, t.inputs, t.hidden ? t.hidden : t.classes),
          second_(t.batch, t.hidden ? t.hidden : 1, t.hidden ? t.classes : 1),
          w1_((t.hidden ? t.hidden : t.classes) * t.inputs),
          b1_(t.hidden ? t.hidden : t.classes),
          w2_(t.classes * t.hidden),
          b2_(t.classes),
          pre_(t.batch * t.hidden),
          act_(t.batch * t.hidden),
          z_(t.batch * t.classes),
          back_(t.batch * t.hidden) {}

    void load(const float* p) override {
        p = put(p, w1_, t_.inputs);
        p = put(p, b1_, 1);
        if (t_.hidden) put(put(p, w2_, t_.hidden), b2_, 1);
    }
    void read(float* p) const override {
        p = get(p, w1_, t_.inputs);
        p = get(p, b1_, 1);
        if (t_.hidden) get(get(p, w2_, t_.hidden), b2_, 1);
    }
    void step(std::size_t batch) override {
        const float* x = t_.rows + batch * t_.batch * t_.inputs;
        const std::int32_t* labels = t_.labels + batch * t_.batch;
        if (t_.hidden == 0) {
            first_.forward(x, w1_.data(), z_.data());
            add_bias(z_, b1_);
            descent_of_logits(labels);
            first_.update(z_.data(), x, w1_.data());
            add_columns(z_, b1_);
            return;
        }
        first_.forward(x, w1_.data(), pre_.data());
        add_bias(pre_, b1_);
        for (std::size_t i = 0; i < pre_.size(); ++i) act_[i] = std::max(pre_[i], bench::leak * pre_[i]);
        second_.forward(act_.data(), w2_.data(), z_.data());
        add_bias(z_, b2_);
        descent_of_logits(labels);
        second_.input_gradient(z_.data(), w2_.data(), back_.data());
        for (std::size_t i = 0; i < back_.size(); ++i) back_[i] *= pre_[i] > 0 ? 1.0f : bench::leak;
        second_.update(z_.data(), act_.data(), w2_.data());
        add_columns(z_, b2_);
        first_.update(back_.data(), x, w1_.data());
        add_columns(back_, b1_);
    }

private:
    // `in` numbers a row in the flat order of parameters.
    static const float* put(const float* p, Numbers& to, std::size_t in) {
        const std::size_t out = to.size() / in;
        for (std::size_t o = 0; o < out; ++o)
            for (std::size_t i = 0; i < in; ++i) to[Products::in_first ? i * out + o : o * in + i] = p[o * in + i];
        return p + to.size();
    }
    static float* get(float* p, const Numbers& from, std::size_t in) {
        const std::size_t out = from.size() / in;
        for (std::size_t o = 0; o < out; ++o)
            for (std::size_t i = 0; i < in; ++i) p[o * in + i] = from[Products::in_first ? i * out + o : o * in + i];
        return p + from.size();
    }
    void add_bias(Numbers& y, const Numbers& bias) {
        for (std::size_t b = 0; b < t_.batch; ++b)
            for (std::size_t o = 0; o < bias.size(); ++o) y[b * bias.size() + o] += bias[o];
    }
    void add_columns(const Numbers& dy, Numbers& bias) {
        for (std::size_t b = 0; b < t_.batch; ++b)
            for (std::size_t o = 0; o < bias.size(); ++o) bias[o] += dy[b * bias.size() + o];
    }
    // z becomes -rate / batch times the gradient of the loss with respect to the logits.
    void descent_of_logits(const std::int32_t* labels) {
        const std::size_t classes = t_.classes;
        const float scale = -t_.rate / static_cast<float>(t_.batch);
        for (std::size_t b = 0; b < t_.batch; ++b) {
            const float top = *std::max_element(&z_[b * classes], &z_[b * classes] + classes);
            for (std::size_t c = 0; c < classes; ++c) z_[b * classes + c] -= top;
        }
        for (auto& z : z_) z = std::exp(z);
        for (std::size_t b = 0; b < t_.batch; ++b) {
            float* z = &z_[b * classes];
            float total = 0;
            for (std::size_t c = 0; c < classes; ++c) total += z[c];
            for (std::size_t c = 0; c < classes; ++c) z[c] *= scale / total;
            z[labels[b]] -= scale;
        }
    }

    bench::StepTask t_;
    Products first_, second_;
    Numbers w1_, b1_, w2_, b2_, pre_, act_, z_, back_;
};

}  // namespace
