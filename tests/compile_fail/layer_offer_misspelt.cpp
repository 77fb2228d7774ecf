// SPDX-License-Identifier: BSD-3-Clause
// A layer that offers a step of its own under another name would be stepped without it.
// expect: tessera::nn: `backward_update` must be a member of the layer and be listed in its `offers`, or neither
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>

using namespace tessera::nn;

struct Bare {
#ifdef TESSERA_GOOD
    static constexpr Offers offers = offer::nothing;
#else
    static constexpr Offers offers = offer::backward_update;
#endif
    constexpr void infer(Spec& s) const { s.out = s.in[0]; }
    template <class R>
    void forward(const Pass<R>&) const {}
    template <class R>
    void backward(const Pass<R>&) const {}
    template <class R>
    void stepp(const Pass<R>&, R*, const Update<R>&) const {}
};

Network<float> made() { return {4, chain(Linear{3}, Bare{}, Linear{2})}; }
