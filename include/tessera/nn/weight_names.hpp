// SPDX-License-Identifier: BSD-3-Clause
// What the layers of networks from the zoo are called in the programs that they were published with, or usually are in
// torch, where that is not our name already (resnet_zoo.hpp and vit_zoo.hpp have torchvision's and timm's). For
// io::read_weights and io::write_weights.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <utility>

#include <tessera/core/layout.hpp>

namespace tessera::nn::weight_names {

inline constexpr auto mclr = std::to_array<Renamed>({{"0", "fc1"}});
inline constexpr auto dnn = std::to_array<Renamed>({{"0", "fc1"}, {"2", "fc2"}});
inline constexpr auto lenet5 = std::to_array<Renamed>({{"0", "conv1"}, {"3", "conv2"}, {"6", "fc1"}, {"8", "fc2"}});
inline constexpr auto small_cnn = std::to_array<Renamed>({{"0", "conv1"}, {"3", "conv2"}, {"6", "fc"}});
inline constexpr auto flow_cnn = std::to_array<Renamed>({{"0", "conv1"}, {"2", "conv2"}, {"6", "fc1"}, {"9", "fc2"}});
inline constexpr auto cifar_net =
    std::to_array<Renamed>({{"0", "conv1"}, {"3", "conv2"}, {"6", "fc1"}, {"8", "fc2"}, {"10", "fc3"}});
inline constexpr auto cifar_cnn =
    std::to_array<Renamed>({{"0", "conv1.0"}, {"3", "conv2.0"}, {"6", "fc1.0"}, {"8", "fc"}});
// torchvision's vgg11_bn, with one linear layer behind it.
inline constexpr auto vgg11 = std::to_array<Renamed>({{"0.0", "features.0"},
                                                      {"0.1", "features.1"},
                                                      {"2.0", "features.4"},
                                                      {"2.1", "features.5"},
                                                      {"4.0", "features.8"},
                                                      {"4.1", "features.9"},
                                                      {"5.0", "features.11"},
                                                      {"5.1", "features.12"},
                                                      {"7.0", "features.15"},
                                                      {"7.1", "features.16"},
                                                      {"8.0", "features.18"},
                                                      {"8.1", "features.19"},
                                                      {"10.0", "features.22"},
                                                      {"10.1", "features.23"},
                                                      {"11.0", "features.25"},
                                                      {"11.1", "features.26"},
                                                      {"13", "classifier"}});

}  // namespace tessera::nn::weight_names
