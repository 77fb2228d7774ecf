// SPDX-License-Identifier: BSD-3-Clause
// oneDNN through its inner-product primitives: weights in the layout it asks for, bias and leaky ReLU in the forward
// primitive, one primitive for the gradients of weights and bias. The rate is multiplied into dy before, so a gradient is
// the descent itself, and is added.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <dnnl.hpp>
#include <omp.h>

#include "dense_step/problem.hpp"

namespace {

using dnnl::memory;

struct Runtime {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
};

memory::dim dim(std::size_t n) { return static_cast<memory::dim>(n); }
memory::desc plain(memory::dims dims) {
    return {dims, memory::data_type::f32, dims.size() == 1 ? memory::format_tag::a : memory::format_tag::ab};
}

class Layer {
public:
    Layer(Runtime& run, std::size_t batch, std::size_t in, std::size_t out, bool activates)
        : run_(run),
          in_(in),
          out_(out),
          forward_(forward_of(run, batch, in, out, activates)),
          w_(forward_.weights_desc(), run.engine),
          dw_(forward_.weights_desc(), run.engine),
          b_(plain({dim(out)}), run.engine),
          db_(plain({dim(out)}), run.engine),
          x_(forward_.src_desc(), run.engine, nullptr),
          y_(forward_.dst_desc(), run.engine),
          dx_(forward_.src_desc(), run.engine),
          forward_step_(forward_),
          weights_step_({{forward_.src_desc(), w_.get_desc(), b_.get_desc(), y_.get_desc()}, run.engine, forward_}),
          inputs_step_({{dx_.get_desc(), w_.get_desc(), y_.get_desc()}, run.engine, forward_}) {
        std::fill_n(numbers(w_), size(w_), 0.0f);  // blocks may have padding
        std::fill_n(numbers(dw_), size(dw_), 0.0f);
    }

    const float* load(const float* p) {
        memory from(plain({dim(out_), dim(in_)}), run_.engine, const_cast<float*>(p));
        dnnl::reorder(from, w_).execute(run_.stream, from, w_);
        run_.stream.wait();
        std::copy_n(p + in_ * out_, out_, numbers(b_));
        return p + in_ * out_ + out_;
    }
    float* read(float* p) const {
        memory from = w_, to(plain({dim(out_), dim(in_)}), run_.engine, p);
        dnnl::reorder(from, to).execute(run_.stream, from, to);
        run_.stream.wait();
        std::copy_n(numbers(b_), out_, p + in_ * out_);
        return p + in_ * out_ + out_;
    }
    float* forward(const float* x) {
        x_.set_data_handle(const_cast<float*>(x));
        forward_step_.execute(run_.stream,
                              {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, w_}, {DNNL_ARG_BIAS, b_}, {DNNL_ARG_DST, y_}});
        return numbers(y_);
    }
    // dy lies where the outputs were.
    float* input_gradient() {
        inputs_step_.execute(run_.stream,
                             {{DNNL_ARG_DIFF_SRC, dx_}, {DNNL_ARG_WEIGHTS, w_}, {DNNL_ARG_DIFF_DST, y_}});
        return numbers(dx_);
    }
    void update() {
        weights_step_.execute(run_.stream, {{DNNL_ARG_SRC, x_},
                                            {DNNL_ARG_DIFF_DST, y_},
                                            {DNNL_ARG_DIFF_WEIGHTS, dw_},
                                            {DNNL_ARG_DIFF_BIAS, db_}});
        add(numbers(dw_), numbers(w_), size(w_));
        add(numbers(db_), numbers(b_), out_);
    }
    float* outputs() { return numbers(y_); }

private:
    static dnnl::inner_product_forward::primitive_desc forward_of(Runtime& run, std::size_t batch, std::size_t in,
                                                                  std::size_t out, bool activates) {
        const memory::desc any({dim(out), dim(in)}, memory::data_type::f32, memory::format_tag::any);
        dnnl::primitive_attr attributes;
        if (activates) {
            dnnl::post_ops after;
            after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, bench::leak, 0.0f);
            attributes.set_post_ops(after);
        }
        return {{dnnl::prop_kind::forward_training, plain({dim(batch), dim(in)}), any, plain({dim(out)}),
                 plain({dim(batch), dim(out)})},
                attributes,
                run.engine};
    }
    static float* numbers(const memory& m) { return static_cast<float*>(m.get_data_handle()); }
    static std::size_t size(const memory& m) { return m.get_desc().get_size() / sizeof(float); }
    static void add(const float* from, float* to, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
    }

    Runtime& run_;
    std::size_t in_, out_;
    dnnl::inner_product_forward::primitive_desc forward_;
    memory w_, dw_, b_, db_, x_, y_, dx_;
    dnnl::inner_product_forward forward_step_;
    dnnl::inner_product_backward_weights weights_step_;
    dnnl::inner_product_backward_data inputs_step_;
};

class Primitives : public bench::Stepper {
public:
    explicit Primitives(const bench::StepTask& t) : t_(t) {
        layers_.reserve(2);
        if (t.hidden) layers_.emplace_back(run_, t.batch, t.inputs, t.hidden, true);
        layers_.emplace_back(run_, t.batch, t.hidden ? t.hidden : t.inputs, t.classes, false);
    }
    void load(const float* p) override {
        for (auto& layer : layers_) p = layer.load(p);
    }
    void read(float* p) const override {
        for (const auto& layer : layers_) p = layer.read(p);
    }
    void step(std::size_t batch) override {
        const float* x = t_.rows + batch * t_.batch * t_.inputs;
        for (auto& layer : layers_) x = layer.forward(x);
        descent_of_logits(t_.labels + batch * t_.batch);
        if (t_.hidden) {
            const float* back = layers_[1].input_gradient();
            layers_[1].update();
            float* act = layers_[0].outputs();  // of the sign of what was activated
            for (std::size_t i = 0; i < t_.batch * t_.hidden; ++i) act[i] = back[i] * (act[i] > 0 ? 1.0f : bench::leak);
        }
        layers_[0].update();
    }

private:
    // The logits become -rate / batch times the gradient of the loss with respect to them.
    void descent_of_logits(const std::int32_t* labels) {
        const std::size_t classes = t_.classes;
        const float scale = -t_.rate / static_cast<float>(t_.batch);
        float* z = layers_.back().outputs();
        for (std::size_t b = 0; b < t_.batch; ++b, z += classes) {
            const float top = *std::max_element(z, z + classes);
            float total = 0;
            for (std::size_t c = 0; c < classes; ++c) total += z[c] = std::exp(z[c] - top);
            for (std::size_t c = 0; c < classes; ++c) z[c] *= scale / total;
            z[labels[b]] -= scale;
        }
    }

    bench::StepTask t_;
    Runtime run_;
    std::vector<Layer> layers_;
};

}  // namespace

BENCH_PEER(all) {
    omp_set_num_threads(1);
    all.add("onednn_primitives", [](const bench::StepTask& task) -> bench::Stepper* { return new Primitives(task); });
}
