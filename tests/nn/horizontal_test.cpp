// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/recipe.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace horizontal_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

// Five numbers are everybody's, three are private.
constexpr auto branches = horizontal(5, chain(Linear{4}, LeakyRelu{}), Linear{2});
struct NetRecipe {
    static constexpr Shape in = 8;
    static constexpr auto layers = chain(branches, Linear{4});
};
template <class R>
using Net = Fixed<NetRecipe, R>;

}  // namespace

TEST_CASE("each branch reads its slice, and the outputs stand side by side") {
    const Network<double> net(3, horizontal(2, Linear{1}, Linear{2}));
    const std::vector<double> w{1, 10, 0.5, /* own */ 2, 3, -1, -2};
    const auto data = data::Dataset::own(std::vector<double>{1, 2, 3, 4, 5, 6}, {0, 0}, 3);
    const auto ids = first_ids(2);
    std::vector<double> y(6);
    net.logits(w, Batch<double>(data.examples(), ids), y);
    CHECK(y == std::vector<double>{21.5, 5, 7, 54.5, 11, 16});
    CHECK_THROWS_WITH_AS(Network<double>(2, horizontal(2, Linear{1}, Linear{2})),
                         "nn::horizontal: the cut must leave numbers on both sides", ConfigError);
}

TEST_CASE("the personal branch is an adapter, the shared one keeps its parts") {
    std::vector<std::string> names;
    for (const auto& s : Net<float>::segments)
        names.push_back(std::string(s.name.view()) + " " + std::string(name_of(s.part)));
    CHECK(names == std::vector<std::string>{"0.shared.0.weight input", "0.shared.0.bias input", "0.own.weight adapter",
                                            "0.own.bias adapter", "1.weight head", "1.bias head"});
    CHECK(on<scope::Adapter>(Net<float>{}).size(0) == 8);
}

TEST_CASE("gradients agree with differences") {
    CHECK(conformance::check_gradients(Net<double>{}).empty());
    CHECK(conformance::check_gradients(Net<float>{}).empty());
    // Below another layer, so that the gradient with respect to its input is asked for.
    CHECK(conformance::check_gradients(Network<double>(6, chain(Linear{8}, branches, Linear{4}))).empty());
    CHECK(conformance::layer(branches, 8) == conformance::Complaints{});
}

TEST_CASE("private features reach the server through nobody's branch but the client's own") {
    // With the personal branch at 0 and never trained, the shared part cannot depend on the private features.
    const auto shared_after = [](float private_scale, bool trained) {
        const auto data = toy_data();
        auto rows = data.pool().examples();
        std::vector<float> x;
        std::vector<std::int32_t> labels(rows.labels, rows.labels + rows.size);
        for (std::size_t i = 0; i < rows.size * rows.width; ++i)
            x.push_back(static_cast<const float*>(rows.rows)[i] * (i % 8 >= 5 ? private_scale : 1.0f));
        const data::FederatedDataset scaled{data::Dataset::own(std::move(x), std::move(labels), Toy::classes),
                                            data.split()};
        auto start = initial_parameters(Net<float>{}, Key{3});
        const Coordinates own = on<scope::Adapter>(Net<float>{});
        scatter(Vec<float>(8), own, start);
        Federation<FedAlt<scope::Adapter>, Net<float>> run{
            {}, scaled, {.order = {.epochs_v = trained ? 1u : 0u}}, {.seed = 2, .batch = 5}, start};
        run.run(3, sample::Everyone{});
        return run.server().w;
    };
    CHECK(same_bits(shared_after(1, false), shared_after(2, false)));
    CHECK_FALSE(same_bits(shared_after(1, true), shared_after(2, true)));  // the control: a trained branch is read
}

}  // namespace horizontal_test
