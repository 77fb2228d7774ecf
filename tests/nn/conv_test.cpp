// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/conv.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/nn/conv_zoo.hpp>
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

double inner(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}
// The worst error of both gradients of <dy, layer(x)>; with only one of them asked for the numbers are the same.
template <class L>
double gradient_error(const L& layer, std::size_t in, double tampered = 0) {
    const Call call{.batch = 3, .in = in};
    const std::size_t out = L::width(in);
    const auto w = toy_numbers<double>(dimension(Layout(L::segments)), 1), x = toy_numbers<double>(3 * in, 2),
               dy = toy_numbers<double>(3 * out, 3);
    const auto outputs = [&](const std::vector<double>& weights, const std::vector<double>& inputs) {
        std::vector<double> y(3 * out, std::nan("")), notes(3 * L::notes(in));
        layer.forward(call, weights.data(), inputs.data(), y.data(), notes.data());
        return y;
    };
    const auto y = outputs(w, x);
    std::vector<double> notes(3 * L::notes(in)), dx(x.size(), std::nan("")), dw(w.size(), std::nan(""));
    layer.backward(call, w.data(), x.data(), y.data(), notes.data(), dy.data(), dx.data(), dw.data());
    auto dx_alone = dx, dw_alone = dw;
    std::fill(dx_alone.begin(), dx_alone.end(), std::nan("")), std::fill(dw_alone.begin(), dw_alone.end(), std::nan(""));
    layer.backward(call, w.data(), x.data(), y.data(), notes.data(), dy.data(), dx_alone.data(),
                   static_cast<double*>(nullptr));
    layer.backward(call, w.data(), x.data(), y.data(), notes.data(), dy.data(), static_cast<double*>(nullptr),
                   dw_alone.data());
    CHECK(dx_alone == dx);
    CHECK((L::segments.empty() || dw_alone == dw));
    dx.front() += tampered;
    const double by_input = relative_error(
        dx, finite_differences([&](const std::vector<double>& at) { return inner(dy, outputs(w, at)); }, x));
    if (w.empty()) return by_input;
    return std::max(by_input, relative_error(dw, finite_differences([&](const std::vector<double>& at) {
                                  return inner(dy, outputs(at, x));
                              }, w)));
}

// 6 x 4 pictures in two channels.
template <class R>
using Net = Network<R, 48, Sequential<Conv2d<2, 6, 4, 3, 3, 1, 1>, Relu, MaxPool2d<3, 6, 4>, Linear<18, 4>>>;

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
    constexpr double tolerance = 1e-6;  // see finite_differences.hpp: the differences are good to about 1e-9
    CHECK(gradient_error(Conv2d<1, 5, 5, 2, 3>{}, 25) < tolerance);
    CHECK(gradient_error(Conv2d<3, 6, 4, 5, 2>{}, 72) < tolerance);
    CHECK(gradient_error(Conv2d<2, 5, 7, 3, 3, 2, 1>{}, 70) < tolerance);
    CHECK(gradient_error(Conv2d<2, 4, 4, 3, 1>{}, 32) < tolerance);
    CHECK(gradient_error(MaxPool2d<2, 6, 8>{}, 96) < tolerance);
    CHECK(gradient_error(MaxPool2d<1, 7, 9, 3>{}, 63) < tolerance);  // a row is left over
    CHECK(gradient_error(Conv2d<1, 5, 5, 2, 3>{}, 25, 1e-3) > 1e-4);
}

TEST_CASE("a convolution by hand: cross-correlation, channels first, weights as torch has them") {
    const Conv2d<2, 2, 3, 1, 2> layer;
    const std::vector<double> x{1, 2, 3, 4, 5, 6, /* second channel */ 1, 0, 0, 0, 1, 0};
    const std::vector<double> w{1, 10, 100, 1000, /* second channel */ 0.5, 0, 0, 0.25, /* bias */ -1};
    std::vector<double> y(2);
    layer.forward({.batch = 1, .in = 12}, w.data(), x.data(), y.data(), static_cast<double*>(nullptr));
    CHECK(y == std::vector<double>{1 + 20 + 400 + 5000 + 0.5 + 0.25 - 1, 2 + 30 + 500 + 6000 - 1});
    std::vector<double> top(1);
    MaxPool2d<1, 2, 3>{}.forward({.batch = 1, .in = 6}, w.data(), x.data(), top.data(), static_cast<double*>(nullptr));
    CHECK(top[0] == 5);  // the third column is left over
}

TEST_CASE("the published networks have the published parameters and costs") {
    static_assert(LeNet5<26>::parameters == 439'096 && LeNet5<27>::parameters == 439'597);
    static_assert(SmallCnn<62>::parameters == 115'646);
    static_assert(decltype(flow_cnn<62>())::parameters == 1'206'590);
    static_assert(CifarNet<10>::parameters == 62'006 && CifarNet<10, 100>::parameters == 64'102);
    static_assert(Vgg11<10>::parameters == 9'231'114);
    CHECK(LeNet5<26>{}.forward_flops() == 4'617'246);
    CHECK(Vgg11<10>{}.forward_flops() == 305'690'634);
    const auto net = flow_cnn<62>();
    CHECK(net.layers().layer<5>().rate == 0.25);
    CHECK(net.layers().layer<8>().rate == 0.5);
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

TEST_CASE("a last layer may read its own outputs in backward") {
    using Last = Network<double, 48, Sequential<Conv2d<2, 6, 4, 4, 3, 1, 1>, MaxPool2d<4, 6, 4, 4>>>;
    CHECK(conformance::check_gradients(Last{}).empty());

    using Pooled = Network<double, 6, Sequential<Linear<6, 16>, MaxPool2d<4, 2, 2>>>;
    const Pooled net;
    const auto data = toy_dataset<double>(5, 6, 4);
    const auto ids = first_ids(5);
    const Batch<double> batch(data.examples(), ids);
    Mask mask(Pooled::parameters, true);
    for (std::size_t j = 0; j < 96; j += 2) mask.set(j, false);
    const Sparse<Pooled> sparse(net, mask, 5, Arithmetic::sparse), dense(net, mask, 5, Arithmetic::dense);
    const auto x = packed(Vec<double>(initial_parameters(net, Key{3})), mask);
    Vec<double> a(x.size()), b(x.size()), all(Pooled::parameters), at_zeros(Pooled::parameters);
    CHECK(sparse.gradient(x, batch, a) == doctest::Approx(dense.gradient(x, batch, b)).epsilon(1e-14));
    CHECK(support::distance(a, b) < 1e-14);  // both are sums of a few terms below 1
    sparse.full_gradient(x, batch, all);
    net.gradient(sparse.whole(x), batch, at_zeros);
    CHECK(support::distance(all, at_zeros) < 1e-14);
    auto moved = x;
    sparse.step(moved, batch, {.rate = 0.5});
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
