// SPDX-License-Identifier: BSD-3-Clause
// Data and models by name.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <tessera/data/dataset.hpp>
#include <tessera/nn/any_model.hpp>

#include "options.hpp"

namespace lab {

using Model = tessera::nn::AnyModel<float>;

inline constexpr std::array<std::string_view, 4> data_names{"fashion-mnist", "synthetic:ALPHA,BETA",
                                                            "idx:IMAGES,LABELS", "npy:FEATURES,LABELS"};
inline constexpr std::array<std::string_view, 4> model_names{"mclr", "dnn", "dnn-norm", "additive"};

tessera::data::FederatedDataset make_clients(const Options& options);
Model make_model(const std::string& name, const tessera::Examples& examples);

}  // namespace lab
