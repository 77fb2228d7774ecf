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
// VGG11 with 32 groups in every norm (FedSpa).
constexpr auto vgg11(std::size_t classes) {
    constexpr auto block = [](std::size_t out) {
        return chain(Conv2d{.outputs = out, .kernel = 3, .pad = 1}, GroupNorm{32}, Relu{});
    };
    return chain(block(64), MaxPool2d{}, block(128), MaxPool2d{}, block(256), block(256), MaxPool2d{}, block(512),
                 block(512), MaxPool2d{}, block(512), block(512), MaxPool2d{}, Linear{classes});
}

// ResNet-18 as it is used on 32 x 32 pictures (He et al., CVPR 2016), with group norms: no example meets another.
struct BasicBlock {
    std::size_t channels, stride = 1, groups = 32;

    template <class B>
    constexpr int add(B& to, int v) const {
        const auto conv = [&](std::size_t kernel, std::size_t step) {
            return chain(
                Conv2d{.outputs = channels, .kernel = kernel, .stride = step, .pad = kernel / 2, .bias = false},
                GroupNorm{groups});
        };
        const auto inner = chain(conv(3, stride), Relu{}, conv(3, 1));
        const bool same = stride == 1 && to.shape(v).sizes[0] == channels;
        return to(Relu{}, same ? to(residual(inner), v) : to(residual(inner, conv(1, stride)), v));
    }
};
constexpr auto resnet18(std::size_t classes, std::size_t groups = 32) {
    const auto two = [&](std::size_t channels, std::size_t stride) {
        return chain(BasicBlock{channels, stride, groups}, BasicBlock{channels, 1, groups});
    };
    return chain(Conv2d{.outputs = 64, .kernel = 3, .pad = 1, .bias = false}, GroupNorm{groups}, Relu{}, two(64, 1),
                 two(128, 2), two(256, 2), two(512, 2), MeanPool{}, Linear{classes});
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
