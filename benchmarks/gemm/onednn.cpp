// SPDX-License-Identifier: BSD-3-Clause
#include <dnnl.h>
#include <omp.h>

#include "gemm/problem.hpp"

namespace {

void gemm(char ta, char tb, std::size_t m, std::size_t n, std::size_t k, const float* a, std::size_t lda,
          const float* b, std::size_t ldb, float* c) {
    const auto i = [](std::size_t size) { return static_cast<dnnl_dim_t>(size); };
    dnnl_sgemm(ta, tb, i(m), i(n), i(k), 1, a, i(lda), b, i(ldb), 0, c, i(n));
}

struct OneDnn {
    static void forward(const bench::GemmTask& t) {
        gemm('N', 'N', t.batch, t.out, t.in, t.x, t.in, t.w, t.out, t.result);
    }
    static void weights(const bench::GemmTask& t) {
        gemm('T', 'N', t.in, t.out, t.batch, t.x, t.in, t.dy, t.out, t.result);
    }
    static void inputs(const bench::GemmTask& t) {
        gemm('N', 'T', t.batch, t.in, t.out, t.dy, t.out, t.w, t.out, t.result);
    }
};

}  // namespace

BENCH_PEER(all) {
    omp_set_num_threads(1);
    all.add("onednn", true, bench::Calls<OneDnn>::make);
}
