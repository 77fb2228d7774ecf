// SPDX-License-Identifier: BSD-3-Clause
// The contract of a layer, and recipes.
#include <tessera/nn/layer_check.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/nn/ops/conv.hpp>
#include <tessera/nn/ops/norm.hpp>
#include <tessera/nn/recipe.hpp>

#include <support/kernel_sets.hpp>
#include <support/toy_numbers.hpp>

namespace op_test {

namespace {

using namespace tessera;
using namespace tessera::nn::next;
using tessera::nn::Shape;

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
        CHECK(conformance::layer(Conv2d{.outputs = 3, .kernel = 2, .stride = 2, .bias = false}, Shape(2, 5, 4)) == none);
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
    CHECK(names(net.layout()) ==
          Names{"0.weight input", "0.bias input", "2.0.weight body", "2.0.bias body", "3.0.weight adapter",
                "3.0.bias adapter", "3.2.weight adapter", "3.2.bias adapter", "4.weight norm", "4.bias norm",
                "5.0.weight body", "5.0.bias body", "6.weight head", "6.bias head"});
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
                         "nn: layers that share parameters must have the same ones; does the shape change?", ConfigError);
    CHECK_THROWS_WITH_AS(Network<float>(5, chain(GroupNorm{2})), "nn::GroupNorm: the groups must divide the channels",
                         ConfigError);
}

TEST_CASE("any backend multiplies for any network") {
    const auto recipe = chain(Conv2d{.outputs = 3, .kernel = 3, .stride = 2, .pad = 1}, Relu{}, Linear{5}, Relu{}, Linear{3});
    const Shape in(2, 5, 4);
    const conformance::detail::LayerBatch<double> data(in.size(), 3);
    const Network<double> simd(in, recipe), reference(in, recipe, nn::on<double, backend::Reference>());
    const auto w = conformance::detail::layer_parameters<double>(dimension(simd));
    Vec<double> g(w.size()), h(w.size());
    const double loss = simd.gradient(w, data.batch(), g);
    CHECK(reference.gradient(w, data.batch(), h) == doctest::Approx(loss).epsilon(1e-14));
    CHECK(conformance::detail::distance(g, h) < 1e-14);
    CHECK(conformance::check_gradients(reference, data.batch()) == conformance::Complaints{});
}

}  // namespace op_test
