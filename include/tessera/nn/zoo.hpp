// SPDX-License-Identifier: BSD-3-Clause
// Ready networks Parameter counts are assertions.
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

static_assert(Mclr<784, 10>::parameters == 7'850);
static_assert(Mclr<784, 62>::parameters == 48'670);
static_assert(Mclr<60, 10>::parameters == 610);
static_assert(Dnn<784, 100, 10>::parameters == 79'510);
static_assert(Dnn<784, 100, 62>::parameters == 84'762);
static_assert(Dnn<60, 20, 10>::parameters == 1'430);
// 7,542 of them (8.8 %) tuned, head included.
static_assert(AdaptedDnn<784, 100, 10, 32>::parameters == 79'510 + 6'532);

}  // namespace tessera::nn
