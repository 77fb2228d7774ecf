// SPDX-License-Identifier: BSD-3-Clause
// Data and models by name.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/nn/any_model.hpp>

#include "options.hpp"
#include "pools.hpp"

namespace lab {

using Model = tessera::nn::AnyModel<float>;

inline constexpr auto model_names = std::to_array<std::string_view>({"mclr",
                                                                     "dnn",
                                                                     "dnn3",
                                                                     "dnn-norm",
                                                                     "dnn-adapter",
                                                                     "additive",
                                                                     "lenet5",
                                                                     "cnn",
                                                                     "flow-cnn",
                                                                     "cifarnet",
                                                                     "cifar-cnn",
                                                                     "vgg11",
                                                                     "resnet8",
                                                                     "resnet8-adapter",
                                                                     "resnet18",
                                                                     "resnet34",
                                                                     "flow-resnet18",
                                                                     "fedalt-resnet18",
                                                                     "perada-resnet18",
                                                                     "perada-resnet34",
                                                                     "vit-s16",
                                                                     "small-vit",
                                                                     "small-vit-adapter",
                                                                     "char-lstm",
                                                                     "word-lstm",
                                                                     "flow-lstm",
                                                                     "flow-word-lstm",
                                                                     "transformer",
                                                                     "transformer-adapter",
                                                                     "fedalt-transformer",
                                                                     "speech-transformer"});

inline constexpr std::array<std::string_view, 5> loss_names{"softmax", "binary", "squared", "huber", "ctc"};
inline constexpr std::array<std::string_view, 4> backend_names{"simd", "reference", "eigen", "xtensor-blas"};
inline constexpr std::array<std::string_view, 4> normalise_names{"standard", "unit", "each", "none"};

// Fills --normalise by what the data are, and refuses what cannot be done with them.
void settle_normalisation(Options& options);

// Examples that the server has and no client does.
struct PublicData {
    tessera::data::Dataset examples;
    std::vector<tessera::Index> ids;
};

// What --normalise made of the features: a shift and a scale for all pixels, or one of each for every feature.
struct Reading {
    std::vector<float> shift{}, scale{};  // of (x - shift) * scale; empty where examples are read as they are
    std::vector<double> target_shift{}, target_scale{};  // of real targets, alike
};

struct Clients {
    tessera::data::FederatedDataset data;
    std::vector<std::string> names{};  // one for each, where the data have names
    tessera::data::Dataset as_read{};  // before it was normalised or made to look different to each
    Reading reading{};
};

// Takes from a --split-file that is there how it was dealt, and refuses flags that say otherwise, and data that come
// dealt.
void adopt_split_file(Options& options, const std::string& data);
// "+rotation:45" of "dirichlet:0.3+rotation:45": what does not deal.
std::string look_in(const std::string& partition);
Clients make_clients(const Options& options);
// The same clients, less what --aux held-out:SHARE takes of each one's training examples for the server.
tessera::data::FederatedDataset less_held_out(tessera::data::FederatedDataset clients, const Options& options);
// The same clients with the copies of their training images that --augment asks for.
tessera::data::FederatedDataset augmented(tessera::data::FederatedDataset clients, const Options& options);
// What --aux names besides the clients' own examples; null where it does not. Pixels are read as the clients' are.
std::shared_ptr<const PublicData> make_public_data(const Options& options, const tessera::Examples& like,
                                                   const Reading& reading);
// In one line, what there is to learn from: examples, features, classes, clients.
std::string data_in_words(const Options& options, const Clients& clients);
// Names of the classes; empty where they have none.
std::vector<std::string> class_names_of(const Options& options);
// A model by its name, perhaps with settings, "resnet18:width=32,adapters=serial", or described layer by layer:
// "conv 32 5, pool, conv 64 5, pool, linear 512, linear".
// `loss` and `backend` by their words; empty ones are what the labels call for, and simd.
Model make_model(const std::string& name, const tessera::Examples& examples, const std::string& loss = {},
                 const std::string& backend = {});
// Refuses a description that is none; nothing is asked of the data.
void check_described_model(const std::string& text);
constexpr bool describes_model(std::string_view text) {
    return text.find(':') == text.npos && text.find_first_of(" ,") != text.npos;
}
// First values from a file that --weights names, and in one line what was read. `first` are those of what it has not:
// adapters, and the head where a new one is asked for.
struct FirstValues {
    tessera::Vec<float> parameters{};
    std::string said{};
};
FirstValues read_first_values(const Options& options, const Model& model, tessera::Vec<float> first);
std::string weights_file_of(const std::string& weights);
// What its layers are called in other programs.
std::span<const tessera::Renamed> weight_names_of(const std::string& model);

}  // namespace lab
