// SPDX-License-Identifier: BSD-3-Clause
// A layer that does not say what it offers.
// expect: tessera::nn: a layer needs `static constexpr Offers offers = offer::nothing;`, or what it offers
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>

using namespace tessera::nn;

struct Bare {
#ifdef TESSERA_GOOD
    static constexpr Offers offers = offer::nothing;
#endif
    constexpr void infer(Spec& s) const { s.out = s.in[0]; }
    template <class R>
    void forward(const Pass<R>&) const {}
    template <class R>
    void backward(const Pass<R>&) const {}
};

Network<float> made() { return {4, chain(Linear{3}, Bare{}, Linear{2})}; }
