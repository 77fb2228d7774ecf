// SPDX-License-Identifier: BSD-3-Clause
// Kernels compiled at run time for exactly one size. Its matrices are column-major, so ours are the transposes. W is
// [in][out] for the forward product; the input gradient reads [out][in], a copy made before the clock runs.
#include <libxsmm.h>

#include <vector>

#include "gemm/problem.hpp"

namespace {

class Xsmm final : public bench::Multiplier {
public:
    static bench::Multiplier* make(const bench::GemmTask& t) {
        auto* self = new Xsmm(t);
        if (self->kernel_) return self;
        delete self;
        return nullptr;
    }
    void run() override { kernel_(a_, b_, task_.result); }

private:
    explicit Xsmm(const bench::GemmTask& t) : task_(t) {
        switch (t.product) {
            case bench::Product::forward:
                kernel_ = kernel(t.out, t.batch, t.in, t.out, t.in, t.out, LIBXSMM_GEMM_FLAG_NONE);
                a_ = t.w;
                b_ = t.x;
                return;
            case bench::Product::weights:
                kernel_ = kernel(t.out, t.in, t.batch, t.out, t.in, t.out, LIBXSMM_GEMM_FLAG_TRANS_B);
                a_ = t.dy;
                b_ = t.x;
                return;
            case bench::Product::inputs:
                kernel_ = kernel(t.in, t.batch, t.out, t.in, t.out, t.in, LIBXSMM_GEMM_FLAG_NONE);
                turned_.resize(t.in * t.out);
                for (std::size_t o = 0; o < t.out; ++o)
                    for (std::size_t i = 0; i < t.in; ++i) turned_[o * t.in + i] = t.w[i * t.out + o];
                a_ = turned_.data();
                b_ = t.dy;
                return;
        }
    }
    static libxsmm_smmfunction kernel(std::size_t m, std::size_t n, std::size_t k, std::size_t lda, std::size_t ldb,
                                      std::size_t ldc, int flags) {
        const auto i = [](std::size_t size) { return static_cast<libxsmm_blasint>(size); };
        const libxsmm_blasint a = i(lda), b = i(ldb), c = i(ldc);
        const float one = 1, zero = 0;
        return libxsmm_smmdispatch(i(m), i(n), i(k), &a, &b, &c, &one, &zero, &flags, nullptr);
    }

    bench::GemmTask task_;
    std::vector<float> turned_;
    const float* a_ = nullptr;
    const float* b_ = nullptr;
    libxsmm_smmfunction kernel_ = nullptr;
};

}  // namespace

BENCH_PEER(all) {
    libxsmm_init();
    all.add("libxsmm", true, Xsmm::make);
}
