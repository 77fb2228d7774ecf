// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <tessera/core/error.hpp>
#include <tessera/nn/conv_zoo.hpp>

#include "tasks.hpp"

namespace lab {

namespace nn = tessera::nn;

std::optional<Model> make_picture_model(const std::string& name, const tessera::Examples& examples) {
    constexpr std::size_t grey = 28 * 28, coloured = 3 * 32 * 32;
    const bool small = name == "lenet5" || name == "cnn" || name == "flow-cnn";
    if (!small && name != "cifarnet") return std::nullopt;
    const std::size_t width = small ? grey : coloured, most = small ? 62 : 100;
    if (examples.width != width || examples.classes > most)
        throw tessera::ConfigError("--model " + name + ": it reads pictures of " +
                                   (small ? "28 x 28 pixels, 784 features, and up to 62 classes"
                                          : "3 x 32 x 32 numbers, 3072 features, and up to 100 classes") +
                                   "; the data has " + std::to_string(examples.width) + " features and " +
                                   std::to_string(examples.classes) + " classes, for which there are mclr and dnn");
    const bool ten = examples.classes <= 10;
    if (name == "lenet5") return ten ? Model(nn::LeNet5<10>{}) : Model(nn::LeNet5<62>{});
    if (name == "cnn") return ten ? Model(nn::SmallCnn<10>{}) : Model(nn::SmallCnn<62>{});
    if (name == "flow-cnn") return ten ? Model(nn::flow_cnn<10>()) : Model(nn::flow_cnn<62>());
    return ten ? Model(nn::CifarNet<10>{}) : Model(nn::CifarNet<100>{});
}

}  // namespace lab
