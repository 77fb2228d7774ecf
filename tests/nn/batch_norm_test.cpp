// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/batch_norm.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/network.hpp>

#include <support/finite_differences.hpp>
#include <support/one_layer.hpp>
#include <support/toy_numbers.hpp>

namespace batch_norm_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

const Key draw{5};

template <class R>
constexpr double rounding = sizeof(R) == 4 ? 1e-5 : 1e-12;  // a mean, a variance and a root of numbers near 1

// torch's words for it, channel by channel of [row][channel][place].
struct Expected {
    std::vector<double> y, mean, variance;
};
Expected by_hand(const std::vector<double>& x, const std::vector<double>& w, std::size_t channels, std::size_t plane,
                 double momentum, double eps) {
    Expected e{std::vector<double>(x.size()), {}, {}};
    const std::size_t rows = x.size() / channels / plane;
    const double n = static_cast<double>(rows * plane);
    for (std::size_t c = 0; c < channels; ++c) {
        double mean = 0, biased = 0;
        const auto each = [&](auto&& f) {
            for (std::size_t r = 0; r < rows; ++r)
                for (std::size_t k = 0; k < plane; ++k) f((r * channels + c) * plane + k);
        };
        each([&](std::size_t j) { mean += x[j] / n; });
        each([&](std::size_t j) { biased += (x[j] - mean) * (x[j] - mean) / n; });
        each([&](std::size_t j) { e.y[j] = (x[j] - mean) / std::sqrt(biased + eps) * w[c] + w[channels + c]; });
        e.mean.push_back((1 - momentum) * w[2 * channels + c] + momentum * mean);
        e.variance.push_back((1 - momentum) * w[3 * channels + c] + momentum * biased * n / (n - 1));
    }
    return e;
}

}  // namespace

TEST_CASE_TEMPLATE("training: batch statistics, and running ones that take torch's step", R, float, double) {
    for (const Shape& in : {Shape(3), Shape(2, 3), Shape(3, 2, 2)}) {
        const std::size_t channels = 3, plane = in.rank == 3 ? 4 : 1;
        const auto x = toy_numbers<double>(5 * in.size(), 3), w = toy_numbers<double>(4 * channels, 4);
        OneLayer<BatchNorm, R> layer({.momentum = 0.3, .eps = 1e-3}, in, {w.begin(), w.end()}, {x.begin(), x.end()},
                                     &draw);
        const auto expected = by_hand(x, w, channels, plane, 0.3, 1e-3);
        CHECK(relative_error(std::vector<double>(layer.y().begin(), layer.y().end()), expected.y) < rounding<R>);
        const auto dw = layer.dw(std::vector<R>(x.size(), R(1)));
        for (std::size_t c = 0; c < channels; ++c) {
            const auto after = [&](std::size_t j) { return w[j] - static_cast<double>(dw[j]); };
            CHECK(after(2 * channels + c) == doctest::Approx(expected.mean[c]).epsilon(rounding<R>));
            CHECK(after(3 * channels + c) == doctest::Approx(expected.variance[c]).epsilon(rounding<R>));
        }
    }
}

TEST_CASE("evaluation reads running statistics, each example by itself, and moves none") {
    const std::vector<double> w{2, 3, 10, 20, 0.5, -1, 4, 9}, x{1.5, 2, 0.5, -1};
    OneLayer<BatchNorm> layer({.eps = 1e-12}, 2, w, x);
    const auto y = layer.y();
    const std::vector<double> expected{10 + 2 * (1.5 - 0.5) / 2, 20 + 3 * (2.0 + 1) / 3, 10, 20};
    CHECK(relative_error(y, expected) < 1e-11);  // eps beside variances of 4 and 9
    const auto [dx, dw] = layer.backward({1, 1, 1, 1});
    CHECK(relative_error(dx, {1, 1, 1, 1}) < 1e-11);
    for (std::size_t j = 4; j < 8; ++j) CHECK(dw[j] == 0);
    // and it is another thing than training
    CHECK(relative_error(OneLayer<BatchNorm>({.eps = 1e-12}, 2, w, x, &draw).y(), expected) > 0.1);
}

TEST_CASE("one number a channel has no variance: as in evaluation, and nothing moves") {
    const std::vector<double> w{2, 3, 10, 20, 0.5, -1, 4, 9}, x{1.5, 2};
    OneLayer<BatchNorm> alone({}, 2, w, x, &draw);
    CHECK(alone.y() == OneLayer<BatchNorm>({}, 2, w, x).y());
    const auto dw = alone.dw({1, 1});
    for (std::size_t j = 4; j < 8; ++j) CHECK(dw[j] == 0);
    OneLayer<BatchNorm> plane({}, Shape(1, 1, 2), {1, 0, 0, 1}, {3, 5}, &draw);  // two numbers do
    CHECK(plane.dw({1, 1})[2] == doctest::Approx(0.1 * (0 - 4)));
    CHECK(plane.dw({1, 1})[3] == doctest::Approx(0.1 * (1 - 2)));
}

TEST_CASE("a variance below zero, whoever made it, leaves numbers finite") {
    const OneLayer<BatchNorm> layer({}, 1, {1, 0, 0, -3}, {1});
    CHECK(layer.y()[0] == doctest::Approx(1 / std::sqrt(1e-5)));
}

TEST_CASE("it keeps the law of layers: differences, poisoned rooms, fused steps, masks") {
    const conformance::Complaints none;
    CHECK(conformance::layer(BatchNorm{}, 5) == none);
    CHECK(conformance::layer(BatchNorm{.momentum = 0.7, .eps = 0.1}, Shape(3, 2, 4)) == none);
    CHECK(conformance::layer(BatchNorm{}, Shape(4, 3)) == none);
    const Network<double> net(Shape(2, 4, 4), chain(Conv2d{.outputs = 3}, BatchNorm{}, Relu{}, MeanPool{}, Linear{3}));
    const auto data = toy_dataset<double>(6, 32, 3);
    const auto ids = first_ids(6);
    const Key key{8};
    CHECK(conformance::check_gradients(net, Batch<double>(data.examples(), ids, {}, &key)) == none);
    CHECK(conformance::check_gradients(net, Batch<double>(data.examples(), ids)) == none);
}

TEST_CASE("names, parts and first values are torch's; settings are judged") {
    const Network<float> net(4, chain(Linear{3}, BatchNorm{}, Linear{2}));
    const auto layout = net.layout();
    CHECK(layout[4].name == Name("1.running_mean"));
    CHECK(layout[5].name == Name("1.running_var"));
    CHECK(layout[4].part == Part::buffer);
    CHECK(layout[2].part == Part::norm);
    const auto x = initial_parameters(net, Key{1});
    CHECK(gather(x, on<scope::Norm>(net)) == Vec<float>{1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1});
    const auto refuses = [](const BatchNorm& norm) {
        try {
            Network<float>(3, chain(norm, Linear{2}));
        } catch (const ConfigError&) {
            return true;
        }
        return false;
    };
    CHECK(refuses({.momentum = 1.5}));
    CHECK(refuses({.eps = 0}));
    CHECK_FALSE(refuses({.momentum = 1}));
}

}  // namespace batch_norm_test
