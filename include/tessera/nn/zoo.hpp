// SPDX-License-Identifier: BSD-3-Clause
// Ready networks: recipes for any number of classes, and the same with widths that are known when compiling.
//
//   const Network<float> net(examples.width, recipe::dnn(100, classes));
//   const Dnn<784, 100, 10> same;
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/recipe.hpp>

namespace tessera::nn {

namespace recipe {

// Multinomial logistic regression.
constexpr auto mclr(std::size_t classes) { return chain(Linear{classes}); }
// One hidden layer with a leaky ReLU of slope 0.1.
constexpr auto dnn(std::size_t hidden, std::size_t classes) {
    return chain(Linear{hidden}, LeakyRelu{}, Linear{classes});
}
// The same with a bottleneck adapter after the hidden layer.
constexpr auto adapted_dnn(std::size_t hidden, std::size_t classes, std::size_t rank) {
    return chain(Linear{hidden}, LeakyRelu{}, bottleneck(rank), Linear{classes});
}

}  // namespace recipe

namespace detail {
template <std::size_t In, std::size_t Classes>
struct MclrRecipe {
    static constexpr Shape in = In;
    static constexpr auto layers = recipe::mclr(Classes);
};
template <std::size_t In, std::size_t Hidden, std::size_t Classes>
struct DnnRecipe {
    static constexpr Shape in = In;
    static constexpr auto layers = recipe::dnn(Hidden, Classes);
};
template <std::size_t In, std::size_t Hidden, std::size_t Classes, std::size_t Rank>
struct AdaptedDnnRecipe {
    static constexpr Shape in = In;
    static constexpr auto layers = recipe::adapted_dnn(Hidden, Classes, Rank);
};

// Linear layers of these widths, with a leaky ReLU between two of them.
struct MlpRecipe {
    std::vector<std::size_t> widths;
    double slope;

    template <class B>
    int add(B& to, int v) const {
        for (std::size_t i = 0; i < widths.size(); ++i) {
            if (i > 0) v = to.element(2 * i - 1, LeakyRelu{slope}, v);
            v = to.element(2 * i, Linear{widths[i]}, v);
        }
        return v;
    }
};
}  // namespace detail

template <std::size_t In, std::size_t Classes, class R = float>
using Mclr = Fixed<detail::MclrRecipe<In, Classes>, R>;
template <std::size_t In, std::size_t Hidden, std::size_t Classes, class R = float>
using Dnn = Fixed<detail::DnnRecipe<In, Hidden, Classes>, R>;
template <std::size_t In, std::size_t Hidden, std::size_t Classes, std::size_t Rank, class R = float>
using AdaptedDnn = Fixed<detail::AdaptedDnnRecipe<In, Hidden, Classes, Rank>, R>;

// As many linear layers as there are widths behind the inputs: {in, classes} is mclr, {in, hidden, classes} dnn.
template <class R = float>
Network<R> mlp(std::span<const std::size_t> widths, double slope = 0.1) {
    if (widths.size() < 2)
        throw ConfigError("nn::mlp: widths are the inputs, any hidden layers and the outputs; " +
                          std::to_string(widths.size()) + " of them are too few");
    return Network<R>(widths[0], detail::MlpRecipe{{widths.begin() + 1, widths.end()}, slope});
}
template <class R = float>
Network<R> mlp(std::initializer_list<std::size_t> widths, double slope = 0.1) {
    return mlp<R>(std::span<const std::size_t>(widths.begin(), widths.size()), slope);
}

}  // namespace tessera::nn
