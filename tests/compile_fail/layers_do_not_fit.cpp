// SPDX-License-Identifier: BSD-3-Clause
// A kernel of 5 x 5 on planes of 4 x 4.
// expect: tessera::nn::Fixed: these layers do not fit their input; an nn::Network of them says why
#include <tessera/nn/activation.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>

using namespace tessera::nn;

struct Planes {
#ifdef TESSERA_GOOD
    static constexpr Shape in = Shape(1, 8, 8);
#else
    static constexpr Shape in = Shape(1, 4, 4);
#endif
    static constexpr auto layers = chain(Conv2d{.outputs = 3, .kernel = 5}, Relu{}, Linear{10});
};

std::size_t classes() { return Fixed<Planes>().outputs(); }
