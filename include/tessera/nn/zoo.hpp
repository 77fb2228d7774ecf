// SPDX-License-Identifier: BSD-3-Clause
// Ready networks.
#pragma once

#include <cstddef>

#include <tessera/nn/activation.hpp>
#include <tessera/nn/adapter.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/sequential.hpp>

namespace tessera::nn {

// Multinomial logistic regression.
template <std::size_t In, std::size_t Classes, class R = float>
using Mclr = Network<R, In, Sequential<Linear<In, Classes>>>;

// One hidden layer with a leaky ReLU of slope 0.1.
template <std::size_t In, std::size_t Hidden, std::size_t Classes, class R = float>
using Dnn = Network<R, In, Sequential<Linear<In, Hidden>, LeakyRelu, Linear<Hidden, Classes>>>;

// The same with a bottleneck adapter after the hidden layer.
template <std::size_t In, std::size_t Hidden, std::size_t Classes, std::size_t Rank, class R = float>
using AdaptedDnn =
    Network<R, In, Sequential<Linear<In, Hidden>, LeakyRelu, Bottleneck<Hidden, Rank>, Linear<Hidden, Classes>>>;

}  // namespace tessera::nn
