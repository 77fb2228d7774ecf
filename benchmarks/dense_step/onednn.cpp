// SPDX-License-Identifier: BSD-3-Clause
// oneDNN: its single-precision GEMM (row-major), weights [in][out], which it multiplies fastest at these sizes.
#include <dnnl.h>
#include <omp.h>

#include "dense_step/layered.hpp"

namespace {

class OneDnn {
public:
    static constexpr bool in_first = true;
    OneDnn(std::size_t batch, std::size_t in, std::size_t out)
        : b_(static_cast<dnnl_dim_t>(batch)), i_(static_cast<dnnl_dim_t>(in)), o_(static_cast<dnnl_dim_t>(out)) {}
    void forward(const float* x, const float* w, float* y) const {
        dnnl_sgemm('N', 'N', b_, o_, i_, 1, x, i_, w, o_, 0, y, o_);
    }
    void input_gradient(const float* dy, const float* w, float* dx) const {
        dnnl_sgemm('N', 'T', b_, i_, o_, 1, dy, o_, w, o_, 0, dx, i_);
    }
    void update(const float* dy, const float* x, float* w) const {
        dnnl_sgemm('T', 'N', i_, o_, b_, 1, x, i_, dy, o_, 1, w, o_);
    }

private:
    dnnl_dim_t b_, i_, o_;
};

}  // namespace

BENCH_PEER(all) {
    omp_set_num_threads(1);
    all.add("onednn", [](const bench::StepTask& task) -> bench::Stepper* { return new Layered<OneDnn>(task); });
}
