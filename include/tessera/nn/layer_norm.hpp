// SPDX-License-Identifier: BSD-3-Clause
// Normalisation over the last dimension (Ba et al. 2016), example by example: a vector, each position of a sequence,
// each line of planes.
//
//   y_j = scale_j (x_j - mean) / sqrt(variance + eps) + shift_j      mean and variance (divided by n) over the row
#pragma once

#include <cstddef>

#include <tessera/kernels/norm.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

struct LayerNorm {
    double eps = 1e-5;   // added to the variance
    bool affine = true;  // scale and shift are learnt; else 1 and 0

    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        const std::size_t n = last_of(s.in[0]);
        s.expect(eps > 0, "nn::LayerNorm: eps is positive");
        if (affine) {
            s.parameter({.name = "weight", .part = Part::norm, .shape = {n, 1, 1, 1}, .value = 1});
            s.parameter({.name = "bias", .part = Part::norm, .shape = {n, 1, 1, 1}});
        }
        s.out = s.in[0];
        s.save(2 * (s.in[0].size() / n));  // mean and 1/sqrt(variance + eps) of each row
        s.backward_reads = Reads::x;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const R none[2] = {R(1), R(0)};
        kernels::norm(p.x(), affine ? p.weight(0) : none, affine ? p.weight(1) : none + 1, p.y, p.saved(0), shape(p),
                      R(eps));
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        const R none[2] = {R(1), R(0)};
        R* const dw = affine ? p.dw : nullptr;
        if (dw || p.dx())
            kernels::norm_gradient(p.x(), p.dy, affine ? p.weight(0) : none, affine ? p.weight(1) : none + 1,
                                   static_cast<const R*>(p.saved(0)), p.dx(), dw, dw ? p.slope(1) : nullptr,
                                   last_of(p.in()), shape(p));
    }

private:
    static constexpr std::size_t last_of(const Shape& in) { return in.sizes[in.rank - 1]; }
    // Each row is a group; without scales and shifts of its own all numbers share one pair.
    template <class R>
    kernels::NormShape shape(const Pass<R>& p) const {
        const std::size_t n = last_of(p.in());
        return kernels::NormShape::group(p.read() / n, n, 1, 1, !affine);
    }
};

}  // namespace tessera::nn
