// SPDX-License-Identifier: BSD-3-Clause
// backend::Eigen: the matrix work of a layer by Eigen. nn::backend_for<float, backend::Eigen>().
//
// It agrees with the reference loops within the rounding of a sum; bits differ from backend::Simd's, and Eigen's own
// speed depends on the flags a program is compiled with.
#pragma once

#include <cstddef>

#include <Eigen/Core>

#include <tessera/core/arena.hpp>
#include <tessera/kernels/dense.hpp>

namespace tessera::backend {

struct Eigen {
    template <class R>
    using Matrix = ::Eigen::Map<::Eigen::Matrix<R, ::Eigen::Dynamic, ::Eigen::Dynamic, ::Eigen::RowMajor>>;
    template <class R>
    using ConstMatrix = ::Eigen::Map<const ::Eigen::Matrix<R, ::Eigen::Dynamic, ::Eigen::Dynamic, ::Eigen::RowMajor>>;
    template <class R>
    using Row = ::Eigen::Map<::Eigen::Matrix<R, 1, ::Eigen::Dynamic>>;
    template <class R>
    using ConstRow = ::Eigen::Map<const ::Eigen::Matrix<R, 1, ::Eigen::Dynamic>>;

    template <class R>
    static void affine(const R* x, const R* w, const R* bias, R* y, std::size_t batch, std::size_t in,
                       std::size_t out) {
        const auto [b, i, o] = sizes(batch, in, out);
        Matrix<R> to(y, b, o);
        to.noalias() = ConstMatrix<R>(x, b, i) * ConstMatrix<R>(w, o, i).transpose();
        if (bias) to.rowwise() += ConstRow<R>(bias, o);
    }
    template <class R>
    static void affine_input_gradient(const R* dy, const R* w, R* dx, std::size_t batch, std::size_t in,
                                      std::size_t out) {
        const auto [b, i, o] = sizes(batch, in, out);
        Matrix<R>(dx, b, i).noalias() = ConstMatrix<R>(dy, b, o) * ConstMatrix<R>(w, o, i);
    }
    template <class R>
    static void affine_weight_gradient(const R* dy, const R* x, R* dw, R* dbias, std::size_t batch, std::size_t in,
                                       std::size_t out) {
        const auto [b, i, o] = sizes(batch, in, out);
        const ConstMatrix<R> d(dy, b, o);
        Matrix<R>(dw, o, i).noalias() = d.transpose() * ConstMatrix<R>(x, b, i);
        if (dbias) Row<R>(dbias, o) = d.colwise().sum();
    }
    template <class R>
    static void affine_update(const R* dy, const R* x, R* w, std::size_t batch, std::size_t in, std::size_t out,
                              const kernels::UpdateVectors<R>& reads, const kernels::UpdateNumbers<R>& numbers) {
        const std::size_t n = out * in + out;
        const Scratch<R> gradient(n);
        affine_weight_gradient(dy, x, gradient.data(), gradient.data() + out * in, batch, in, out);
        kernels::update(w, gradient.data(), reads.prox_center, reads.linear, reads.velocity, n, R(1), numbers);
    }

private:
    struct Sizes {
        ::Eigen::Index batch, in, out;
    };
    static Sizes sizes(std::size_t batch, std::size_t in, std::size_t out) {
        return {static_cast<::Eigen::Index>(batch), static_cast<::Eigen::Index>(in), static_cast<::Eigen::Index>(out)};
    }
};

}  // namespace tessera::backend
