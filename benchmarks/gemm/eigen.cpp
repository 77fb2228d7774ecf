// SPDX-License-Identifier: BSD-3-Clause
#include <Eigen/Core>

#include "gemm/problem.hpp"

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const Matrix> rows(const float* p, std::size_t n, std::size_t m) {
    return {p, static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(m)};
}
Eigen::Map<Matrix> rows(float* p, std::size_t n, std::size_t m) {
    return {p, static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(m)};
}

struct EigenProducts {
    static void forward(const bench::GemmTask& t) {
        rows(t.result, t.batch, t.out).noalias() = rows(t.x, t.batch, t.in) * rows(t.w, t.out, t.in).transpose();
    }
    static void weights(const bench::GemmTask& t) {
        rows(t.result, t.out, t.in).noalias() = rows(t.dy, t.batch, t.out).transpose() * rows(t.x, t.batch, t.in);
    }
    static void inputs(const bench::GemmTask& t) {
        rows(t.result, t.batch, t.in).noalias() = rows(t.dy, t.batch, t.out) * rows(t.w, t.out, t.in);
    }
};

}  // namespace

BENCH_PEER(all) {
    Eigen::setNbThreads(1);
    all.add("eigen", false, bench::Calls<EigenProducts>::make);
}
