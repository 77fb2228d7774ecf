// SPDX-License-Identifier: BSD-3-Clause
// A layer whose backward is misspelt.
// expect: tessera::nn: a layer needs `template <class R> void backward(const Pass<R>&) const`
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>

using namespace tessera::nn;

struct Double {
    static constexpr Offers offers = offer::nothing;
    constexpr void infer(Spec& s) const { s.out = s.in[0]; }
    template <class R>
    void forward(const Pass<R>& p) const {
        for (std::size_t i = 0; i < p.read(); ++i) p.y[i] = 2 * p.x()[i];
    }
    template <class R>
#ifdef TESSERA_GOOD
    void backward(const Pass<R>& p) const {
#else
    void backwards(const Pass<R>& p) const {
#endif
        for (std::size_t i = 0; p.dx() && i < p.read(); ++i) p.dx()[i] = 2 * p.dy[i];
    }
};

Network<float> made() { return {4, chain(Linear{3}, Double{}, Linear{2})}; }
