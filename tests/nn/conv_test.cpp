// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/conv.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/recipe.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace nn_conv_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

// 6 x 4 pictures in two channels.
struct NetRecipe {
    static constexpr Shape in = Shape(2, 6, 4);
    static constexpr auto layers = chain(Conv2d{.outputs = 3, .kernel = 3, .pad = 1}, Relu{}, MaxPool2d{}, Linear{4});
};
template <class R>
using Net = Fixed<NetRecipe, R>;

data::FederatedDataset pictures() {
    std::vector<std::uint8_t> rows(60 * 48);
    std::vector<std::int32_t> labels(60);
    Stream draw(Key{5});
    data::Split split;
    split.clients.resize(4);
    for (std::size_t i = 0; i < 60; ++i) {
        labels[i] = static_cast<std::int32_t>(i % 4);
        for (std::size_t j = 0; j < 48; ++j)
            rows[i * 48 + j] = static_cast<std::uint8_t>(draw.below(100) + (j % 4 == i % 4 ? 150 : 0));
        auto& client = split.clients[i / 15];
        client.key = i / 15;
        (i % 5 == 0 ? client.test : client.train).push_back(static_cast<Index>(i));
    }
    return {data::Dataset::own(std::move(rows), std::move(labels), 4).normalised(0, 1 / 255.0f), std::move(split)};
}

}  // namespace

TEST_CASE("gradients agree with differences in double") {
    const conformance::Complaints none;
    CHECK(conformance::layer(Conv2d{.outputs = 2, .kernel = 3}, Shape(1, 5, 5)) == none);
    CHECK(conformance::layer(Conv2d{.outputs = 5, .kernel = 2}, Shape(3, 6, 4)) == none);
    CHECK(conformance::layer(Conv2d{.outputs = 3, .kernel = 3, .stride = 2, .pad = 1}, Shape(2, 5, 7)) == none);
    CHECK(conformance::layer(Conv2d{.outputs = 3, .kernel = 1}, Shape(2, 4, 4)) == none);
    CHECK(conformance::layer(MaxPool2d{}, Shape(2, 6, 8)) == none);
    CHECK(conformance::layer(MaxPool2d{3}, Shape(1, 7, 9)) == none);  // a row is left over
}

TEST_CASE("the published networks have the published parameters and costs") {
    static_assert(LeNet5<26>::parameters == 439'096 && LeNet5<27>::parameters == 439'597);
    static_assert(SmallCnn<62>::parameters == 115'646);
    static_assert(FlowCnn<62>::parameters == 1'206'590);
    static_assert(CifarNet<10>::parameters == 62'006 && CifarNet<10, 100>::parameters == 64'102);
    static_assert(Vgg11<10>::parameters == 9'231'114);
    CHECK(LeNet5<26>{}.forward_flops() == 4'617'246);
    CHECK(Vgg11<10>{}.forward_flops() == 305'690'634);
    // Any size of picture will do.
    static_assert(parameters(Shape(3, 64, 64), recipe::vgg11(200)) == 9'231'114 - 5'130 + 409'800);
    CHECK(Network<float>(Shape(1, 32, 32), recipe::lenet5(47)).outputs() == 47);
}

TEST_CASE("in a network: parts, first values, fused steps, one by one") {
    CHECK(conformance::check_gradients(Net<double>{}).empty());
    CHECK(conformance::check_gradients(Net<float>{}).empty());
    CHECK(conformance::check_gradients(CifarNet<10, 84, double>{}).empty());
    static_assert(FusedModel<Net<float>>);
    static_assert(Net<float>::segments[0].part == Part::input && Net<float>::segments[2].part == Part::head);
    const auto x = initial_parameters(Net<float>{}, Key{1});
    const float bound = 1 / std::sqrt(18.0f);  // 2 x 3 x 3 taps
    const auto largest = std::max_element(x.begin(), x.begin() + 57, [](float a, float b) {
        return std::abs(a) < std::abs(b);
    });
    CHECK(std::abs(*largest) <= bound);
    CHECK(std::abs(*largest) > 0.8f * bound);  // of 57 draws
}

TEST_CASE("tiles and direct sums are the same layer, a batch's gradient is the mean of its examples' either way") {
    const auto net = [](bool direct) {
        return Network<float>(Shape(3, 9, 8), chain(Conv2d{.outputs = 16, .kernel = 3, .pad = 1}, Relu{},
                                                    Conv2d{.outputs = 20, .kernel = 3, .pad = 1, .direct = direct},
                                                    GroupNorm{4}, Relu{}, MeanPool{}, Linear{4}));
    };
    const auto tiled = net(false), direct = net(true);
    CHECK(conformance::check_gradients(tiled).empty());
    const auto data = toy_dataset<float>(6, 216, 4);
    const auto ids = first_ids(6);
    const Vec<float> x = initial_parameters(tiled, Key{3});
    Vec<float> a(x.size()), b(x.size()), one(x.size()), sum(x.size());
    tiled.gradient(x, Batch<float>(data.examples(), ids), a);
    direct.gradient(x, Batch<float>(data.examples(), ids), b);
    CHECK(support::distance(a, b) < 1e-6);  // sums of a few hundred terms that make less than 1
    CHECK_FALSE(same_bits(a, b));
    for (const Index id : ids) {
        tiled.gradient(x, Batch<float>(data.examples(), std::span<const Index>(&id, 1)), one);
        for (std::size_t j = 0; j < one.size(); ++j) sum[j] += one[j] / 6;
    }
    CHECK(support::distance(sum, a) < 1e-6);
    const Network<double> exact(Shape(16, 4, 4), chain(Conv2d{.outputs = 16, .kernel = 3, .pad = 1}, Linear{2}));
    const Network<double> plain(Shape(16, 4, 4),
                                chain(Conv2d{.outputs = 16, .kernel = 3, .pad = 1, .direct = true}, Linear{2}));
    const auto more = toy_dataset<double>(2, 256, 2);
    const Vec<double> w = initial_parameters(exact, Key{3});
    Vec<double> c(w.size()), d(w.size());
    exact.gradient(w, Batch<double>(more.examples(), first_ids(2)), c);
    plain.gradient(w, Batch<double>(more.examples(), first_ids(2)), d);
    CHECK(same_bits(c, d));  // double is always direct
}

TEST_CASE("a last layer may read its own outputs in backward") {
    const Network<double> pooled(Shape(2, 6, 4), chain(Conv2d{.outputs = 4, .kernel = 3, .pad = 1}, MaxPool2d{4}));
    CHECK(conformance::check_gradients(pooled).empty());

    const Network<double> net(6, chain(Linear{16}, LeakyRelu{}, Linear{4}, LeakyRelu{}));
    const auto data = toy_dataset<double>(5, 6, 4);
    const auto ids = first_ids(5);
    const Batch<double> batch(data.examples(), ids);
    const std::size_t d = dimension(net);
    Mask mask(d, true);
    for (std::size_t j = 0; j < 96; j += 2) mask.set(j, false);
    const Sparse<Network<double>> sparse(net, mask, 5, Arithmetic::sparse), dense(net, mask, 5, Arithmetic::dense);
    const auto x = packed(Vec<double>(initial_parameters(net, Key{3})), mask);
    Vec<double> a(x.size()), b(x.size()), all(d), at_zeros(d);
    CHECK(sparse.gradient(x, batch, a) == doctest::Approx(dense.gradient(x, batch, b)).epsilon(1e-14));
    CHECK(support::distance(a, b) < 1e-14);  // both are sums of a few terms below 1
    sparse.full_gradient(x, batch, all);
    net.gradient(sparse.whole(x), batch, at_zeros);
    CHECK(support::distance(all, at_zeros) < 1e-14);
    auto moved = x;
    sparse.fused_step(moved, batch, {.rate = 0.5});
    for (std::size_t j = 0; j < x.size(); ++j) CHECK(std::abs(moved[j] - (x[j] - 0.5 * b[j])) < 1e-14);
}

TEST_CASE("trained by FedAvg on bytes, and sparse by FedSpa") {
    const auto clients = pictures();
    Federation<FedAvg<>, Net<float>> run{{}, clients, {.local = {.rate = 0.5}, .epochs = 3}, {.seed = 1, .batch = 4}};
    run.run(20, sample::Everyone{});
    const auto right = evaluate<Which::global>(run).accuracy(Average::pooled).value.get();
    CHECK(right == 1);

    using Sparse = FedSpa<mask::RandomStatic>;
    const auto sparse = [&](Arithmetic how) {
        Federation<Sparse, Net<float>> spa{
            {}, clients, {.masking = {.density = 0.5}, .local = {.rate = 0.5}, .epochs = 3, .arithmetic = how},
            {.seed = 1, .batch = 4, .rounds = 5}};
        spa.run(5, sample::Everyone{});
        return spa.server().w;
    };
    const auto a = sparse(Arithmetic::sparse), b = sparse(Arithmetic::dense);
    CHECK(support::distance(a, b) < 1e-5);  // 15 epochs of other roundings
    CHECK_FALSE(same_bits(a, run.server().w));
}

}  // namespace nn_conv_test
