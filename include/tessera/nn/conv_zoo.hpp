// SPDX-License-Identifier: BSD-3-Clause
// Ready convolutional networks, as the papers have them: recipes for planes of any size that the layers leave something
// of, and the same at the papers' sizes, known when compiling.
#pragma once

#include <cstddef>

#include <tessera/nn/activation.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/recipe.hpp>

namespace tessera::nn {

namespace recipe {

// LeNet5 in Caffe's widths (FedSpa).
constexpr auto lenet5(std::size_t classes) {
    return chain(Conv2d{.outputs = 20, .kernel = 5}, Relu{}, MaxPool2d{}, Conv2d{.outputs = 50, .kernel = 5}, Relu{},
                 MaxPool2d{}, Linear{500}, Relu{}, Linear{classes});
}
// Two convolutions and a linear head (FedAlt, EMNIST).
constexpr auto small_cnn(std::size_t classes) {
    return chain(Conv2d{.outputs = 32, .kernel = 5}, Relu{}, MaxPool2d{}, Conv2d{.outputs = 64, .kernel = 5}, Relu{},
                 MaxPool2d{}, Linear{classes});
}
// With dropout before both linear layers (Flow, EMNIST).
constexpr auto flow_cnn(std::size_t classes) {
    return chain(Conv2d{.outputs = 32, .kernel = 3}, Relu{}, Conv2d{.outputs = 64, .kernel = 3}, Relu{}, MaxPool2d{},
                 Dropout{0.25}, Linear{128}, Relu{}, Dropout{0.5}, Linear{classes});
}
// 400-120-84 behind two convolutions, and pFedMe's 400-120-100.
constexpr auto cifar_net(std::size_t classes, std::size_t last = 84) {
    return chain(Conv2d{.outputs = 6, .kernel = 5}, Relu{}, MaxPool2d{}, Conv2d{.outputs = 16, .kernel = 5}, Relu{},
                 MaxPool2d{}, Linear{120}, Relu{}, Linear{last}, Relu{}, Linear{classes});
}
// The convnet of FedAvg's CIFAR experiments as benchmarks of the field have it: of 3 x 32 x 32 pictures 878,538
// parameters.
constexpr auto cifar_cnn(std::size_t classes, std::size_t hidden = 512) {
    return chain(Conv2d{.outputs = 32, .kernel = 5}, Relu{}, MaxPool2d{}, Conv2d{.outputs = 64, .kernel = 5}, Relu{},
                 MaxPool2d{}, Linear{hidden}, Relu{}, Linear{classes});
}
// VGG11, FedSpa's with 64 channels in the first layer and 32 groups in every norm.
constexpr auto vgg11(std::size_t classes, std::size_t width = 64, std::size_t groups = 32) {
    const auto block = [&](std::size_t times) {
        return chain(Conv2d{.outputs = times * width, .kernel = 3, .pad = 1}, GroupNorm{groups}, Relu{});
    };
    return chain(block(1), MaxPool2d{}, block(2), MaxPool2d{}, block(4), block(4), MaxPool2d{}, block(8), block(8),
                 MaxPool2d{}, block(8), block(8), MaxPool2d{}, Linear{classes});
}

}  // namespace recipe

namespace detail {
template <std::size_t Classes>
struct LeNet5Recipe {
    static constexpr Shape in = Shape(1, 28, 28);
    static constexpr auto layers = recipe::lenet5(Classes);
};
template <std::size_t Classes>
struct SmallCnnRecipe {
    static constexpr Shape in = Shape(1, 28, 28);
    static constexpr auto layers = recipe::small_cnn(Classes);
};
template <std::size_t Classes>
struct FlowCnnRecipe {
    static constexpr Shape in = Shape(1, 28, 28);
    static constexpr auto layers = recipe::flow_cnn(Classes);
};
template <std::size_t Classes, std::size_t Last>
struct CifarNetRecipe {
    static constexpr Shape in = Shape(3, 32, 32);
    static constexpr auto layers = recipe::cifar_net(Classes, Last);
};
template <std::size_t Classes>
struct Vgg11Recipe {
    static constexpr Shape in = Shape(3, 32, 32);
    static constexpr auto layers = recipe::vgg11(Classes);
};
}  // namespace detail

template <std::size_t Classes, class R = float>
using LeNet5 = Fixed<detail::LeNet5Recipe<Classes>, R>;
template <std::size_t Classes, class R = float>
using SmallCnn = Fixed<detail::SmallCnnRecipe<Classes>, R>;
template <std::size_t Classes, class R = float>
using FlowCnn = Fixed<detail::FlowCnnRecipe<Classes>, R>;
template <std::size_t Classes, std::size_t Last = 84, class R = float>
using CifarNet = Fixed<detail::CifarNetRecipe<Classes, Last>, R>;
template <std::size_t Classes, class R = float>
using Vgg11 = Fixed<detail::Vgg11Recipe<Classes>, R>;

}  // namespace tessera::nn
