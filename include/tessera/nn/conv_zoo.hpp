// SPDX-License-Identifier: BSD-3-Clause
// Ready convolutional networks, as the papers have them.
#pragma once

#include <cstddef>

#include <tessera/nn/activation.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/sequential.hpp>

namespace tessera::nn {

// LeNet5 in Caffe's widths (FedSpa): 28 x 28, one channel.
template <std::size_t Classes, class R = float>
using LeNet5 = Network<R, 28 * 28,
                       Sequential<Conv2d<1, 28, 28, 20, 5>, Relu, MaxPool2d<20, 24, 24>, Conv2d<20, 12, 12, 50, 5>,
                                  Relu, MaxPool2d<50, 8, 8>, Linear<800, 500>, Relu, Linear<500, Classes>>>;

// Two convolutions and a linear head (FedAlt, EMNIST): 28 x 28, one channel.
template <std::size_t Classes, class R = float>
using SmallCnn = Network<R, 28 * 28,
                         Sequential<Conv2d<1, 28, 28, 32, 5>, Relu, MaxPool2d<32, 24, 24>, Conv2d<32, 12, 12, 64, 5>,
                                    Relu, MaxPool2d<64, 8, 8>, Linear<1024, Classes>>>;

// With dropout before both linear layers (Flow, EMNIST): 28 x 28, one channel.
template <std::size_t Classes, class R = float>
auto flow_cnn() {
    using Layers = Sequential<Conv2d<1, 28, 28, 32, 3>, Relu, Conv2d<32, 26, 26, 64, 3>, Relu, MaxPool2d<64, 24, 24>,
                              Dropout, Linear<9216, 128>, Relu, Dropout, Linear<128, Classes>>;
    const Dropout quarter{.rate = 0.25}, half{.rate = 0.5};
    return Network<R, 28 * 28, Layers>(Layers({}, {}, {}, {}, {}, quarter, {}, {}, half, {}));
}

// 32 x 32, three channels: 400-120-84 behind two convolutions, and pFedMe's 400-120-100.
template <std::size_t Classes, std::size_t Last = 84, class R = float>
using CifarNet = Network<R, 3 * 32 * 32,
                         Sequential<Conv2d<3, 32, 32, 6, 5>, Relu, MaxPool2d<6, 28, 28>, Conv2d<6, 14, 14, 16, 5>, Relu,
                                    MaxPool2d<16, 10, 10>, Linear<400, 120>, Relu, Linear<120, Last>, Relu,
                                    Linear<Last, Classes>>>;

namespace detail {
template <std::size_t In, std::size_t Side, std::size_t Out>
using VggBlock = Sequential<Conv2d<In, Side, Side, Out, 3, 1, 1>, GroupNorm<Out, 32, Side * Side>, Relu>;
}

// VGG11 with 32 groups in every norm (FedSpa): 32 x 32, three channels.
template <std::size_t Classes, class R = float>
using Vgg11 =
    Network<R, 3 * 32 * 32,
            Sequential<detail::VggBlock<3, 32, 64>, MaxPool2d<64, 32, 32>, detail::VggBlock<64, 16, 128>,
                       MaxPool2d<128, 16, 16>, detail::VggBlock<128, 8, 256>, detail::VggBlock<256, 8, 256>,
                       MaxPool2d<256, 8, 8>, detail::VggBlock<256, 4, 512>, detail::VggBlock<512, 4, 512>,
                       MaxPool2d<512, 4, 4>, detail::VggBlock<512, 2, 512>, detail::VggBlock<512, 2, 512>,
                       MaxPool2d<512, 2, 2>, Linear<512, Classes>>>;

}  // namespace tessera::nn
