// SPDX-License-Identifier: BSD-3-Clause
// MKL of the package index, one thread, told that it may use AVX-512.
#include <mkl.h>

#include "gemm/problem.hpp"

namespace {

void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, std::size_t m, std::size_t n, std::size_t k, const float* a,
          std::size_t lda, const float* b, std::size_t ldb, float* c) {
    const auto i = [](std::size_t size) { return static_cast<MKL_INT>(size); };
    cblas_sgemm(CblasRowMajor, ta, tb, i(m), i(n), i(k), 1, a, i(lda), b, i(ldb), 0, c, i(n));
}

struct Mkl {
    static void forward(const bench::GemmTask& t) {
        gemm(CblasNoTrans, CblasTrans, t.batch, t.out, t.in, t.x, t.in, t.w, t.in, t.result);
    }
    static void weights(const bench::GemmTask& t) {
        gemm(CblasTrans, CblasNoTrans, t.out, t.in, t.batch, t.dy, t.out, t.x, t.in, t.result);
    }
    static void inputs(const bench::GemmTask& t) {
        gemm(CblasNoTrans, CblasNoTrans, t.batch, t.in, t.out, t.dy, t.out, t.w, t.in, t.result);
    }
};

}  // namespace

BENCH_PEER(all) {
    mkl_enable_instructions(MKL_ENABLE_AVX512);  // before anything else
    mkl_set_threading_layer(MKL_THREADING_SEQUENTIAL);
    all.add("mkl", false, bench::Calls<Mkl>::make);
}
