// SPDX-License-Identifier: BSD-3-Clause
// The contract of a layer, and recipes.
#include <tessera/nn/layer_check.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/nn/conv.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/recipe.hpp>

#include <support/kernel_sets.hpp>
#include <support/one_layer.hpp>
#include <support/toy_numbers.hpp>

namespace layer_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using nn::Pass;
using support::OneLayer;
using support::toy_numbers;

// A user's layer: one number per channel multiplies its plane.
struct Scale {
    static constexpr Offers offers = offer::nothing;

    constexpr void infer(Spec& s) const {
        s.expect(s.in[0].rank == 3, "Scale reads planes");
        s.parameter({.name = "scale", .shape = {s.in[0].sizes[0], 1, 1, 1}, .value = 1});
        s.out = s.in[0];
        s.backward_reads = Reads::x;
    }
    template <class R>
    void forward(const Pass<R>& p) const {
        for (std::size_t i = 0; i < p.read(); ++i) p.y[i] = p.w[channel(p, i)] * p.x()[i];
    }
    template <class R>
    void backward(const Pass<R>& p) const {
        for (std::size_t c = 0; p.dw && c < p.in().sizes[0]; ++c) p.dw[c] = 0;
        for (std::size_t i = 0; i < p.read(); ++i) {
            if (p.dw) p.dw[channel(p, i)] += p.dy[i] * p.x()[i];
            if (p.dx()) p.dx()[i] = p.w[channel(p, i)] * p.dy[i];
        }
    }

private:
    template <class R>
    static std::size_t channel(const Pass<R>& p, std::size_t i) {
        return i / (p.in().sizes[1] * p.in().sizes[2]) % p.in().sizes[0];
    }
};

// Mistakes.
struct Forgetful : Scale {  // says that it needs no x
    constexpr void infer(Spec& s) const {
        Scale::infer(s);
        s.backward_reads = Reads::nothing;
    }
};
struct Sloppy : Scale {  // leaves the first number of dx unwritten
    template <class R>
    void backward(const Pass<R>& p) const {
        const R before = p.dx() ? p.dx()[0] : R(0);
        Scale::backward(p);
        if (p.dx()) p.dx()[0] = before;
    }
};
struct Wrong : Scale {  // half the gradient
    template <class R>
    void backward(const Pass<R>& p) const {
        Scale::backward(p);
        for (std::size_t c = 0; p.dw && c < p.in().sizes[0]; ++c) p.dw[c] /= 2;
    }
};

using Names = std::vector<std::string>;
Names names(Layout layout) {
    Names all;
    for (const auto& s : layout) all.push_back(std::string(s.name.view()) + " " + std::string(name_of(s.part)));
    return all;
}

}  // namespace

TEST_CASE("relu and leaky relu: worked by hand") {
    const std::vector<double> x{-2, 0, 3, -0.5}, dy{1, 2, 3, 4};
    OneLayer<Relu> relu({}, 2, {}, x);
    CHECK(relu.y() == std::vector<double>{0, 0, 3, 0});
    CHECK(relu.dx(dy) == std::vector<double>{0, 0, 3, 0});
    CHECK(LeakyRelu{}.slope == 0.1);
    OneLayer<LeakyRelu> leaky({.slope = 0.25}, 2, {}, x);
    CHECK(leaky.y() == std::vector<double>{-0.5, 0, 3, -0.125});
    CHECK(leaky.dx(dy) == std::vector<double>{0.25, 0.5, 3, 1});
}

TEST_CASE("linear: worked by hand") {
    // W = [1 0 2; -1 1 0], b = [10 20]
    OneLayer<Linear> layer({2}, 3, {1, 0, 2, -1, 1, 0, 10, 20}, {1, 2, 3, -1, 0, 4});
    CHECK(layer.y() == std::vector<double>{17, 21, 17, 21});
    CHECK(layer.dx({1, 2, 3, -1}) == std::vector<double>{-1, 2, 2, 4, -1, 6});
    CHECK(layer.dw({1, 2, 3, -1}) == std::vector<double>{-2, 2, 15, 3, 4, 2, 4, 1});
    CHECK(layer.spec().flops == 2 * 6 + 2);
}

TEST_CASE("a convolution by hand: cross-correlation, channels first, weights as torch has them") {
    const std::vector<double> x{1, 2, 3, 4, 5, 6, /* second channel */ 1, 0, 0, 0, 1, 0};
    const std::vector<double> w{1, 10, 100, 1000, /* second channel */ 0.5, 0, 0, 0.25, /* bias */ -1};
    CHECK(OneLayer<Conv2d>({.outputs = 1, .kernel = 2}, Shape(2, 2, 3), w, x).y() ==
          std::vector<double>{1 + 20 + 400 + 5000 + 0.5 + 0.25 - 1, 2 + 30 + 500 + 6000 - 1});
    CHECK(OneLayer<MaxPool2d>({}, Shape(1, 2, 3), {}, {1, 2, 3, 4, 5, 6}).y() ==
          std::vector<double>{5});  // a column left over
    CHECK(OneLayer<MeanPool>({}, Shape(2, 1, 3), {}, {1, 2, 3, 4, 5, 9}).y() == std::vector<double>{2, 6});
}

TEST_CASE("a gradient that is not wanted is not computed, and the other is the same") {
    const auto alone = [](auto layer, Shape in, std::size_t parameters, std::size_t out) {
        OneLayer one(layer, in, toy_numbers<double>(parameters, 1), toy_numbers<double>(3 * in.size(), 2));
        const auto dy = toy_numbers<double>(3 * out, 3);
        const auto both = one.backward(dy);
        CHECK(one.dx(dy) == both.first);
        CHECK(one.dw(dy) == both.second);
        CHECK(std::isnan(one.backward(dy, false, true).first[0]));
        CHECK(std::isnan(one.backward(dy, true, false).second[0]));
    };
    alone(Linear{3}, 4, 15, 3);
    alone(Conv2d{.outputs = 2, .kernel = 3, .pad = 1}, Shape(2, 3, 4), 2 * 18 + 2, 24);
    alone(GroupNorm{2}, Shape(4, 3, 1), 8, 12);
}

TEST_CASE("dropout: the identity in evaluation; in training as often as asked, and unbiased") {
    const Key draw{1}, other{2};
    const auto x = toy_numbers<double>(100, 1), dy = toy_numbers<double>(100, 2);
    OneLayer<Dropout> idle({0.5}, 10, {}, x);
    CHECK(idle.y() == x);
    CHECK(idle.dx(dy) == dy);
    CHECK(OneLayer<Dropout>({0.0}, 10, {}, x, &draw).y() == x);
    const std::size_t n = 40'000;
    const std::vector<double> ones(n, 1.0);
    for (const double rate : {0.25, 0.5, 0.9}) {
        CAPTURE(rate);
        OneLayer<Dropout> layer({rate}, 100, {}, ones, &draw);
        std::size_t dropped = 0, wrong = 0;
        double sum = 0;
        for (const double y : layer.y()) {
            dropped += y == 0;
            wrong += y != 0 && y != 1 / (1 - rate);
            sum += y;
        }
        CHECK(wrong == 0);
        // Four standard errors of a binomial; the mean's is that divided by 1 - rate.
        const double error = 4 * std::sqrt(rate * (1 - rate) / static_cast<double>(n));
        CHECK(std::abs(static_cast<double>(dropped) / static_cast<double>(n) - rate) < error);
        CHECK(std::abs(sum / static_cast<double>(n) - 1) < error / (1 - rate));
        CHECK(layer.dx(ones) == layer.y());  // backward drops what forward dropped
        CHECK(OneLayer<Dropout>({rate}, 100, {}, ones, &other).y() != layer.y());
    }
}

TEST_CASE("draws are keyed by the place in nested recipes") {
    const std::vector<float> ones(200, 1.0f);
    const auto data = data::Dataset::own(ones, std::vector<std::int32_t>(2, 0), 100);
    const auto ids = support::first_ids(2);
    const Key draw{4};
    const Batch<float> batch(data.examples(), ids, {}, &draw);
    const auto dropped = [&](const auto& recipe) {
        std::vector<float> out(200);
        Network<float>(100, recipe).logits(std::vector<float>{}, batch, out);
        return out;
    };
    const auto by_hand = [&](Key key) { return OneLayer<Dropout, float>({}, 100, {}, ones, &key).y(); };
    CHECK(dropped(Dropout{}) == by_hand(draw));
    CHECK(dropped(chain(Relu{}, Dropout{})) == by_hand(draw(1)));
    CHECK(dropped(chain(Relu{}, chain(Relu{}, Relu{}, Dropout{}))) == by_hand(draw(1)(2)));
    CHECK(dropped(chain(chain(Dropout{}), Relu{})) == by_hand(draw(0)(0)));
    // Two in a row keep a quarter, not the half that equal draws would keep: 50 of 200, deviation 6.1.
    const auto twice = dropped(chain(Dropout{}, Dropout{}));
    CHECK(std::abs(static_cast<double>(std::count(twice.begin(), twice.end(), 4.0f)) - 50) < 25);
}

TEST_CASE("layers keep their law: gradients, rooms, fused steps, clipped sums, masks") {
    support::for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        const conformance::Complaints none;
        CHECK(conformance::layer(Linear{4}, 6) == none);
        CHECK(conformance::layer(Linear{.outputs = 4, .bias = false}, 6) == none);
        CHECK(conformance::layer(Linear{4}, Shape(3, 5)) == none);
        CHECK(conformance::layer(Linear{40}, Shape(2, 50)) == none);
        CHECK(conformance::layer(Relu{}, 6) == none);
        CHECK(conformance::layer(LeakyRelu{}, 6) == none);
        CHECK(conformance::layer(Dropout{0.3}, 6) == none);
        CHECK(conformance::layer(Conv2d{.outputs = 3, .kernel = 3, .pad = 1}, Shape(2, 5, 4)) == none);
        CHECK(conformance::layer(Conv2d{.outputs = 3, .kernel = 2, .stride = 2, .bias = false}, Shape(2, 5, 4)) ==
              none);
        CHECK(conformance::layer(MaxPool2d{}, Shape(2, 5, 4)) == none);
        CHECK(conformance::layer(MeanPool{}, Shape(2, 5, 4)) == none);
        CHECK(conformance::layer(GroupNorm{2}, Shape(4, 3, 2)) == none);
        CHECK(conformance::layer(GroupNorm{1}, 6) == none);
        CHECK(conformance::layer(Scale{}, Shape(2, 3, 2)) == none);
    });
}

TEST_CASE("recipes keep the law of a layer") {
    const conformance::Complaints none;
    CHECK(conformance::layer(residual(chain(Linear{6}, Relu{}, Linear{6})), 6) == none);
    CHECK(conformance::layer(residual(chain(Conv2d{.outputs = 4, .kernel = 3, .pad = 1}, GroupNorm{2}, Relu{}),
                                      Conv2d{.outputs = 4, .kernel = 1}),
                             Shape(2, 4, 3)) == none);
    CHECK(conformance::layer(adapter(chain(Linear{3}, Relu{}, Linear{6})), 6) == none);
    CHECK(conformance::layer(repeat(3, chain(Linear{5}, Relu{})), 6) == none);
    CHECK(conformance::layer(again(3, Linear{6}), 6) == none);
    CHECK(conformance::layer(again(2, Conv2d{.outputs = 2, .kernel = 3, .pad = 1}), Shape(2, 4, 3)) == none);
    CHECK(conformance::layer(residual(again(2, Linear{6}), residual(Relu{})), 6) == none);
}

TEST_CASE("a layer that breaks the law is found") {
    CHECK(!conformance::layer(Forgetful{}, Shape(2, 3, 2)).empty());
    CHECK(!conformance::layer(Sloppy{}, Shape(2, 3, 2)).empty());
    CHECK(!conformance::layer(Wrong{}, Shape(2, 3, 2)).empty());
}

TEST_CASE("parameters are counted in constant expressions") {
    constexpr auto dnn = chain(Linear{100}, LeakyRelu{}, Linear{10});
    static_assert(parameters(784, dnn) == 79'510);
    static_assert(output(784, dnn) == Shape(10));
    static_assert(parameters(784, chain(Linear{100}, LeakyRelu{}, bottleneck(32), Linear{10})) == 79'510 + 6'532);
    static_assert(parameters(60, chain(again(5, Linear{60}), Linear{10})) == 60 * 60 + 60 + 610);
    static_assert(parameters(60, repeat(3, Linear{60})) == 3 * (60 * 60 + 60));
    static_assert(output(Shape(3, 32, 32), chain(Conv2d{.outputs = 8, .kernel = 3, .stride = 2, .pad = 1})) ==
                  Shape(8, 16, 16));
    CHECK(Network<float>(784, dnn).layout().size() == 4);
}

TEST_CASE("segments are named by their place, parts by their layer") {
    const Network<float> net(4, chain(Linear{6}, LeakyRelu{}, chain(Linear{5}, Relu{}), bottleneck(2), GroupNorm{1},
                                      residual(Linear{5}), Linear{3}));
    CHECK(names(net.layout()) == Names{"0.weight input", "0.bias input", "2.0.weight body", "2.0.bias body",
                                       "3.0.weight adapter", "3.0.bias adapter", "3.2.weight adapter",
                                       "3.2.bias adapter", "4.weight norm", "4.bias norm", "5.inner.weight body",
                                       "5.inner.bias body", "6.weight head", "6.bias head"});
    CHECK(net.routes(MixAt::layer).blocks == 6);
    CHECK(net.routes(MixAt::output).blocks == 1);
    CHECK(net.feature_width() == 5);
    const Network<float> single(4, Linear{3});
    CHECK(names(single.layout()) == Names{"weight head", "bias head"});
    CHECK_FALSE(single.aligns());
    const Network<float> twelve(1, repeat(12, Linear{1}));
    CHECK(twelve.layout()[23].name.view() == "11.bias");
}

TEST_CASE("sentences") {
    CHECK_THROWS_WITH_AS(Network<float>(0, chain(Linear{3})), "nn: a width is 0; each must be at least 1", ConfigError);
    CHECK_THROWS_WITH_AS(Network<float>(5, chain(Linear{0})), "nn::Linear: a width is 0; each must be at least 1",
                         ConfigError);
    CHECK_THROWS_WITH_AS(Network<float>(5, chain()), "nn: a network needs at least one layer", ConfigError);
    CHECK_THROWS_WITH_AS(Network<float>(5, chain(Conv2d{})),
                         "nn::Conv2d: it reads planes; say the shape of the input as channels, height, width",
                         ConfigError);
    CHECK_THROWS_WITH_AS(Network<float>(Shape(1, 2, 2), chain(Conv2d{})),
                         "nn::Conv2d: the kernel is larger than the planes with their margins", ConfigError);
    CHECK_THROWS_WITH_AS(Network<float>(5, chain(residual(Linear{4}))),
                         "nn::Add: what is added up must have one shape; does the inner layer keep it?", ConfigError);
    CHECK_THROWS_WITH_AS(Network<float>(5, again(2, Linear{4})),
                         "nn: layers that share parameters must have the same ones; does the shape change?",
                         ConfigError);
    CHECK_THROWS_WITH_AS(Network<float>(5, chain(GroupNorm{2})), "nn::GroupNorm: the groups must divide the channels",
                         ConfigError);
}

TEST_CASE("any backend multiplies for any network") {
    const auto recipe =
        chain(Conv2d{.outputs = 3, .kernel = 3, .stride = 2, .pad = 1}, Relu{}, Linear{5}, Relu{}, Linear{3});
    const Shape in(2, 5, 4);
    const conformance::detail::LayerBatch<double> data(in.size(), 3, 1);
    const Network<double> simd(in, recipe), reference(in, recipe, nn::backend_for<double, backend::Reference>());
    const auto w = conformance::detail::layer_parameters<double>(dimension(simd));
    Vec<double> g(w.size()), h(w.size());
    const double loss = simd.gradient(w, data.batch(), g);
    CHECK(reference.gradient(w, data.batch(), h) == doctest::Approx(loss).epsilon(1e-14));
    CHECK(conformance::detail::distance(g, h) < 1e-14);
    CHECK(conformance::check_gradients(reference, data.batch()) == conformance::Complaints{});
}

}  // namespace layer_test
