// SPDX-License-Identifier: BSD-3-Clause
// libxsmm: kernels compiled at run time for exactly these sizes. Its matrices are column-major, so ours are the
// transposes; weights are [in][out], except that the input gradient reads a transposed copy.
#include <libxsmm.h>

#include <cstdlib>
#include <vector>

#include "dense_step/layered.hpp"

namespace {

class Xsmm {
public:
    static constexpr bool in_first = true;
    Xsmm(std::size_t batch, std::size_t in, std::size_t out)
        : in_(in),
          out_(out),
          turned_(in * out),
          forward_(kernel(out, batch, in, out, in, out, LIBXSMM_GEMM_FLAG_NONE, 0)),
          input_(kernel(in, batch, out, in, out, in, LIBXSMM_GEMM_FLAG_NONE, 0)),
          update_(kernel(out, in, batch, out, in, out, LIBXSMM_GEMM_FLAG_TRANS_B, 1)) {}
    void forward(const float* x, const float* w, float* y) const { forward_(w, x, y); }
    void input_gradient(const float* dy, const float* w, float* dx) {
        for (std::size_t o = 0; o < out_; ++o)
            for (std::size_t i = 0; i < in_; ++i) turned_[o * in_ + i] = w[i * out_ + o];
        input_(turned_.data(), dy, dx);
    }
    void update(const float* dy, const float* x, float* w) const { update_(dy, x, w); }

private:
    static libxsmm_smmfunction kernel(std::size_t m, std::size_t n, std::size_t k, std::size_t lda, std::size_t ldb,
                                      std::size_t ldc, int flags, float beta) {
        const auto a = static_cast<libxsmm_blasint>(lda), b = static_cast<libxsmm_blasint>(ldb),
                   c = static_cast<libxsmm_blasint>(ldc);
        const float one = 1;
        const auto found =
            libxsmm_smmdispatch(static_cast<libxsmm_blasint>(m), static_cast<libxsmm_blasint>(n),
                                static_cast<libxsmm_blasint>(k), &a, &b, &c, &one, &beta, &flags, nullptr);
        if (!found) std::abort();  // its generator has none of this size; the sizes here are all served
        return found;
    }

    std::size_t in_, out_;
    std::vector<float> turned_;
    libxsmm_smmfunction forward_, input_, update_;
};

}  // namespace

BENCH_PEER(all) {
    libxsmm_init();
    all.add("libxsmm", [](const bench::StepTask& task) -> bench::Stepper* { return new Layered<Xsmm>(task); });
}
