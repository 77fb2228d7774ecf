// SPDX-License-Identifier: BSD-3-Clause
// A layer reads 30 numbers where its neighbour writes 20.
// expect: tessera::nn::Network: the widths of neighbouring layers do not fit
#include <tessera/nn/activation.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>

using namespace tessera::nn;

#ifdef TESSERA_GOOD
using Layers = Sequential<Linear<60, 20>, Relu, Linear<20, 10>>;
#else
using Layers = Sequential<Linear<60, 20>, Relu, Linear<30, 10>>;
#endif

std::size_t classes(const Network<float, 60, Layers>& network) { return network.outputs(); }
