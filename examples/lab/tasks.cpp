// SPDX-License-Identifier: BSD-3-Clause
#include "tasks.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/data/normalise.hpp>
#include <tessera/data/partition.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/io/fashion_mnist.hpp>
#include <tessera/io/idx.hpp>
#include <tessera/io/npy.hpp>
#include <tessera/io/split_file.hpp>
#include <tessera/nn/additive.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/zoo.hpp>

namespace lab {

namespace {

using tessera::ConfigError;

std::pair<std::string, std::string> two_parts(const std::string& flag, std::string_view text) {
    const auto comma = text.find(',');
    if (comma == std::string_view::npos || comma == 0 || comma + 1 == text.size())
        throw ConfigError(flag + ": two parts with a comma between them are needed after the colon, not '" +
                          std::string(text) + "'");
    return {std::string(text.substr(0, comma)), std::string(text.substr(comma + 1))};
}

double number(const std::string& flag, const std::string& text) {
    double value = 0;
    tessera::detail::read_text(flag, text, value);
    return value;
}

// The numbers of a tensor of any kind, as T.
template <class T>
std::vector<T> numbers_of(const tessera::io::NamedTensor& tensor) {
    using tessera::io::Dtype;
    const auto converted = [](const auto& from) {
        std::vector<T> out;
        for (const auto value : from) out.push_back(static_cast<T>(value));
        return out;
    };
    switch (tensor.dtype) {
        case Dtype::float32: return converted(tensor.as<float>());
        case Dtype::float64: return converted(tensor.as<double>());
        case Dtype::int8: return converted(tensor.as<std::int8_t>());
        case Dtype::int16: return converted(tensor.as<std::int16_t>());
        case Dtype::int32: return converted(tensor.as<std::int32_t>());
        case Dtype::int64: return converted(tensor.as<std::int64_t>());
        case Dtype::uint8: return converted(tensor.as<std::uint8_t>());
        case Dtype::uint16: return converted(tensor.as<std::uint16_t>());
        case Dtype::uint32: return converted(tensor.as<std::uint32_t>());
        case Dtype::uint64: return converted(tensor.as<std::uint64_t>());
    }
    return {};
}

// The labels as classes 0 .. max; the features as they are.
tessera::data::Dataset read_npy_dataset(const std::string& features, const std::string& labels) {
    const auto x = tessera::io::read_npy(features), y = tessera::io::read_npy(labels);
    if (y.shape.size() != 1 || x.shape.empty() || x.shape[0] != y.shape[0])
        throw tessera::IoError(labels, "one label per row of " + features + " is needed");
    std::vector<std::int32_t> classes;
    std::int32_t most = 0;
    for (const auto value : numbers_of<double>(y)) {
        if (!(value >= 0 && value <= 1e6) || value != std::floor(value))
            throw tessera::IoError(labels, "label " + std::to_string(value) + " of example " +
                                               std::to_string(classes.size()) + " is not a class");
        classes.push_back(static_cast<std::int32_t>(value));
        most = std::max(most, classes.back());
    }
    auto rows = numbers_of<float>(x);
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (!std::isfinite(rows[i]))
            throw tessera::IoError(features, "number " + std::to_string(i) + " is not finite");
    return tessera::data::Dataset::own(std::move(rows), std::move(classes), static_cast<std::size_t>(most) + 1);
}

struct Pool {
    tessera::data::Dataset examples;
    std::size_t train_size;  // the rest is the test file
};

Pool read_pool(const std::string& data) {
    if (data == "fashion-mnist") {
        const auto directory = tessera::io::find_fashion_mnist();
        if (!directory)
            throw ConfigError("--data fashion-mnist: the files are not installed; `apt-get install "
                              "dataset-fashion-mnist`, or set TESSERA_DATA_DIR to their directory, or use --data synthetic");
        return {tessera::io::load_fashion_mnist(*directory), tessera::io::fashion_mnist_train_size};
    }
    if (data.starts_with("idx:")) {
        const auto [images, labels] = two_parts("--data idx", std::string_view(data).substr(4));
        auto pool = tessera::io::read_idx_dataset(images, labels, 256);
        return {pool, pool.size() * 6 / 7};
    }
    if (data.starts_with("npy:")) {
        const auto [features, labels] = two_parts("--data npy", std::string_view(data).substr(4));
        auto pool = read_npy_dataset(features, labels);
        return {pool, pool.size() * 6 / 7};
    }
    std::string known;
    for (const auto name : data_names) known.append(known.empty() ? "" : ", ").append(name);
    throw ConfigError("--data " + data + ": there is no such data; known are " + known);
}

namespace nn = tessera::nn;
template <std::size_t In, std::size_t Hidden, std::size_t Classes>
using NormedDnn = nn::Network<float, In,
                              nn::Sequential<nn::Linear<In, Hidden>, nn::LayerNorm<Hidden>, nn::LeakyRelu,
                                             nn::Linear<Hidden, Classes>>>;

}  // namespace

tessera::data::FederatedDataset make_clients(const Options& o) {
    using namespace tessera::data;
    if (o.data->starts_with("synthetic")) {
        if (*o.partition != "natural")
            throw ConfigError("--partition " + *o.partition + ": synthetic clients come with their own data; use natural");
        if (!o.split_file.empty())
            throw ConfigError("--split-file " + o.split_file + ": synthetic clients come with their own data");
        SyntheticSettings s{.alpha = 0.5,
                            .beta = 0.5,
                            .clients = *o.clients,
                            .seed = *o.split_seed,
                            .max_examples = 2000,
                            .validation = o.validation,
                            .unseen = o.unseen};
        if (const auto colon = o.data->find(':'); colon != std::string::npos) {
            const auto [alpha, beta] = two_parts("--data synthetic", std::string_view(*o.data).substr(colon + 1));
            s.alpha = number("--data synthetic, ALPHA", alpha);
            s.beta = number("--data synthetic, BETA", beta);
        } else if (*o.data != "synthetic") {
            throw ConfigError("--data " + *o.data + ": write synthetic or synthetic:ALPHA,BETA");
        }
        return synthetic(s);
    }
    auto [examples, train_size] = read_pool(*o.data);
    if (examples.examples().storage == tessera::Storage::bytes) {
        if (*o.normalise == "standard") examples = standardised(examples);
        else if (*o.normalise == "unit") examples = scaled_to_unit(examples);
        else if (*o.normalise != "none")
            throw ConfigError("--normalise is one of standard, unit, none, not '" + *o.normalise + "'");
    }
    if (!o.split_file.empty() && tessera::io::exists(o.split_file))
        return {examples, tessera::io::read_split(o.split_file, examples)};
    const PartitionSettings settings{.clients = *o.clients,
                                     .seed = *o.split_seed,
                                     .train_size = train_size,
                                     .validation = o.validation,
                                     .unseen = o.unseen};
    auto split = partition_by_name(*o.partition, examples, settings);
    if (!o.split_file.empty()) tessera::io::write_split(o.split_file, split, examples);
    return {std::move(examples), std::move(split)};
}

Model make_model(const std::string& name, const tessera::Examples& examples) {
    const auto is = [&](std::string_view model, std::size_t width, std::size_t classes) {
        return name == model && examples.width == width && examples.classes <= classes;
    };
    if (is("mclr", 784, 10)) return nn::Mclr<784, 10>{};
    if (is("mclr", 784, 62)) return nn::Mclr<784, 62>{};
    if (is("mclr", 60, 10)) return nn::Mclr<60, 10>{};
    if (is("dnn", 784, 10)) return nn::Dnn<784, 100, 10>{};
    if (is("dnn", 784, 62)) return nn::Dnn<784, 100, 62>{};
    if (is("dnn", 60, 10)) return nn::Dnn<60, 20, 10>{};
    if (is("dnn-norm", 784, 10)) return NormedDnn<784, 100, 10>{};
    if (is("dnn-norm", 60, 10)) return NormedDnn<60, 20, 10>{};
    if (is("additive", 784, 10)) return nn::Additive<nn::Dnn<784, 100, 10>, nn::Mclr<784, 10>>{};
    if (is("additive", 60, 10)) return nn::Additive<nn::Dnn<60, 20, 10>, nn::Mclr<60, 10>>{};
    for (const auto known : model_names)
        if (known == name)
            throw ConfigError("--model " + name + ": built for 784 features and up to " +
                              (name == "mclr" || name == "dnn" ? "62" : "10") + " classes or 60 features and 10; "
                              "the data has " + std::to_string(examples.width) + " features and " +
                              std::to_string(examples.classes) + " classes");
    throw ConfigError("--model " + name + ": there is no such model; known are mclr, dnn, dnn-norm, additive");
}

}  // namespace lab
