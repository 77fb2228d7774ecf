// SPDX-License-Identifier: BSD-3-Clause
// oneDNN, direct and Winograd, in the layouts it likes best: its conversions are not timed, ours are.
#include <omp.h>
#include <dnnl.hpp>

#include "conv/problem.hpp"

namespace {

using namespace dnnl;

class OneDnn final : public bench::Convolver {
public:
    OneDnn(const bench::ConvTask& t, algorithm how) : task_(t) {
        const auto i = [](std::size_t n) { return static_cast<memory::dim>(n); };
        const memory::dims x{i(t.batch), i(t.channels), i(t.height), i(t.height)};
        const memory::dims w{i(t.out), i(t.channels), i(t.kernel), i(t.kernel)};
        const memory::dims y{i(t.batch), i(t.out), i(t.rows()), i(t.rows())};
        const memory::dims step{i(t.stride), i(t.stride)}, pad{i(t.pad), i(t.pad)};
        const auto any = [](const memory::dims& d) {
            return memory::desc(d, memory::data_type::f32, memory::format_tag::any);
        };
        const auto plain = [](const memory::dims& d) {
            return memory::desc(d, memory::data_type::f32, memory::format_tag::nchw);
        };
        const convolution_forward::primitive_desc forward(
            {prop_kind::forward_training, how, any(x), any(w), any(y), step, pad, pad}, engine_);
        const auto take = [&](const memory::desc& own, const memory::dims& d, const float* from) {
            memory user(plain(d), engine_, const_cast<float*>(from)), inner(own, engine_);
            reorder(user, inner).execute(stream_, user, inner);
            stream_.wait();
            return inner;
        };
        user_ = plain(t.product == bench::ConvProduct::forward ? y : t.product == bench::ConvProduct::inputs ? x : w);
        if (t.product == bench::ConvProduct::forward) {
            result_ = memory(forward.dst_desc(), engine_);
            arguments_ = {{DNNL_ARG_SRC, take(forward.src_desc(), x, t.x)},
                          {DNNL_ARG_WEIGHTS, take(forward.weights_desc(), w, t.w)},
                          {DNNL_ARG_DST, result_}};
            primitive_ = convolution_forward(forward);
        } else if (t.product == bench::ConvProduct::inputs) {
            const convolution_backward_data::primitive_desc back({how, any(x), any(w), any(y), step, pad, pad}, engine_,
                                                                 forward);
            result_ = memory(back.diff_src_desc(), engine_);
            arguments_ = {{DNNL_ARG_DIFF_DST, take(back.diff_dst_desc(), y, t.dy)},
                          {DNNL_ARG_WEIGHTS, take(back.weights_desc(), w, t.w)},
                          {DNNL_ARG_DIFF_SRC, result_}};
            primitive_ = convolution_backward_data(back);
        } else {
            const convolution_backward_weights::primitive_desc back({how, any(x), any(w), any(y), step, pad, pad},
                                                                    engine_, forward);
            result_ = memory(back.diff_weights_desc(), engine_);
            arguments_ = {{DNNL_ARG_SRC, take(back.src_desc(), x, t.x)},
                          {DNNL_ARG_DIFF_DST, take(back.diff_dst_desc(), y, t.dy)},
                          {DNNL_ARG_DIFF_WEIGHTS, result_}};
            primitive_ = convolution_backward_weights(back);
        }
    }
    void run() override {
        primitive_.execute(stream_, arguments_);
        stream_.wait();
    }
    void answer() override {
        memory user(user_, engine_, task_.result);
        reorder(result_, user).execute(stream_, result_, user);
        stream_.wait();
    }

private:
    bench::ConvTask task_;
    engine engine_{engine::kind::cpu, 0};
    stream stream_{engine_};
    memory::desc user_;
    memory result_;
    primitive primitive_;
    std::unordered_map<int, memory> arguments_;
};

template <algorithm How>
bench::Convolver* make(const bench::ConvTask& t) {
    try {
        return new OneDnn(t, How);
    } catch (const error&) {
        return nullptr;  // Winograd: 3 x 3 with stride 1 only
    }
}

}  // namespace

BENCH_PEER(all) {
    omp_set_num_threads(1);
    all.add("onednn_direct", make<algorithm::convolution_direct>);
    all.add("onednn_winograd", make<algorithm::convolution_winograd>);
}
