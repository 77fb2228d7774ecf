// SPDX-License-Identifier: BSD-3-Clause
// Predict only: a trained model out of a file, and nothing of the training library.
//
//   tessera::Predictor<tessera::nn::Mclr<784, 10>> model("models.safetensors", "client/12/");
//   const auto p = model(pixels);          // probabilities
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include <tessera/core/batch.hpp>
#include <tessera/core/error.hpp>
#include <tessera/io/model_file.hpp>

namespace tessera {

template <class Net>
class Predictor {
public:
    using R = typename Net::Real;

    explicit Predictor(const std::string& path, const std::string& prefix = {}, Net net = {})
        : net_(std::move(net)), parameters_(io::read_parameters<R>(path, net_.layout(), prefix)) {}

    // Probabilities of one example, or its real targets as the model has them. Its numbers are normalised as the
    // training data was.
    Vec<R> operator()(std::span<const R> example) const {
        if constexpr (requires { Net::inputs; })
            detail::require(example.size() == Net::inputs, "an example of " + std::to_string(example.size()) +
                                                               " numbers was given, the model reads " +
                                                               std::to_string(Net::inputs));
        constexpr auto storage = sizeof(R) == 4 ? Storage::float32 : Storage::float64;
        const Examples one{.size = 1, .width = example.size(), .storage = storage, .rows = example.data()};
        const Index zero = 0;
        Vec<R> out(net_.outputs());
        net_.predict(parameters_, Batch<R>(one, {&zero, 1}), out);
        if constexpr (requires { net_.objective(); })
            if (!net_.objective().speaks_logarithms()) return out;
        for (R& v : out) v = std::exp(v);
        return out;
    }

private:
    Net net_;
    Vec<R> parameters_;
};

}  // namespace tessera
