// SPDX-License-Identifier: BSD-3-Clause
// Where two ways through a network meet again.
#pragma once

#include <algorithm>
#include <cstddef>

#include <tessera/nn/op.hpp>

namespace tessera::nn::next {

// y = x(0) + x(1)
struct Add {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.expect(s.inputs == 2 && s.in[0] == s.in[1], "nn::Add: what is added up must have one shape; does the inner layer keep it?");
        s.out = s.in[0];
        s.backward_reads = Reads::nothing;
        s.flops = static_cast<double>(s.out.size());
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        const R *a = p.x(0), *b = p.x(1);
        for (std::size_t i = 0; i < p.read(); ++i) p.y[i] = a[i] + b[i];
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        for (const std::size_t k : {0u, 1u})
            if (p.dx(k) && p.dx(k) != p.dy) std::copy_n(p.dy, p.read(), p.dx(k));
    }
};

}  // namespace tessera::nn::next
