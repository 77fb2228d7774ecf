// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/loss.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <tessera/conformance.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/recipe.hpp>
#include <tessera/nn/zoo.hpp>

#include <support/finite_differences.hpp>

namespace loss_test {

using namespace tessera;
using nn::BinaryCrossEntropy;

namespace {
constexpr std::size_t classes = 3;

// Four examples of two features; every class has both kinds.
data::Dataset several() {
    return data::Dataset::multi_label(std::vector<double>{0.5, -1, 2, 0.3, -0.7, 0.9, 1.1, 1.3},
                                      {1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1}, classes);
}
const std::vector<Index> four{0, 1, 2, 3};
const std::vector<double> scores{0.4, -1.2, 2, 0.1, 0, -0.3, 3, 1.5, -2, -0.6, 0.7, 0.2};

double loss_of(const Batch<double>& batch, std::vector<double> z) {
    return BinaryCrossEntropy::gradient<double>(batch, z);
}
}  // namespace

TEST_CASE("the loss of several labels is the mean of their cross-entropies") {
    const auto data = several();
    const Batch<double> batch(data.examples(), four);
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t c = 0; c < classes; ++c) {
            const double p = 1 / (1 + std::exp(-scores[i * classes + c]));
            sum -= std::log(batch.in_class(i, c) ? p : 1 - p);
        }
    CHECK(std::fabs(loss_of(batch, scores) - sum / 12) < 1e-14);  // a dozen additions of numbers near 1
    CHECK(loss_of(Batch<double>(data.examples(), {}), {}) == 0);
}

TEST_CASE("by hand: an example's weight multiplies its part of the loss, not the number of examples") {
    const auto data = data::Dataset::multi_label(std::vector<double>{0, 0}, {1, 0, 0, 1}, 2);
    const std::vector<Index> both{0, 1};
    const std::vector<double> weights{3, 0.5};
    const Batch<double> batch(data.examples(), both, weights);
    // Right or wrong by ln 3: losses of ln(4/3) and ln 4. The first example is (right, right), the second (right, wrong).
    const double s = std::log(3.0), right = std::log(4.0 / 3), wrong = std::log(4.0);
    CHECK(loss_of(batch, {s, -s, -s, -s}) == doctest::Approx((3 * 2 * right + 0.5 * (right + wrong)) / 4).epsilon(1e-14));
}

TEST_CASE("its gradient is that of differences, also with weights") {
    const auto data = several();
    const std::vector<double> weights{1, 0.25, 2, 0};
    for (const bool weighted : {false, true}) {
        const Batch<double> batch(data.examples(), four, weighted ? In<double>(weights) : In<double>{});
        auto slope = scores;
        BinaryCrossEntropy::gradient<double>(batch, slope);
        const auto expected = support::finite_differences([&](const auto& z) { return loss_of(batch, z); }, scores);
        CHECK(support::relative_error(slope, expected) < 1e-6);
        auto wrong = slope;
        wrong[0] *= 1.001;
        CHECK(support::relative_error(wrong, expected) > 1e-6);
    }
}

TEST_CASE("a network with this loss obeys the laws of models") {
    const nn::Network<double, BinaryCrossEntropy> net(2, nn::recipe::dnn(5, classes));
    const auto data = several();
    CHECK(conformance::check_gradients(net, Batch<double>(data.examples(), four)).empty());
}

TEST_CASE("scores of any size give finite losses, and predictions that keep their digits") {
    const auto data = data::Dataset::multi_label(std::vector<double>{0, 0}, {1, 0, 0, 1}, 2);
    const std::vector<Index> both{0, 1};
    const Batch<double> batch(data.examples(), both);
    std::vector<double> z{1000, 1000, -1000, -1000};
    CHECK(BinaryCrossEntropy::gradient<double>(batch, z) == 500);  // right, 1000, right, 1000: a mean over four
    CHECK(z == std::vector<double>{0, 0.25, 0, -0.25});

    std::vector<double> p{40, -40, 0, 1.5};
    BinaryCrossEntropy::predict<double>(p, 2);
    CHECK(p[0] == doctest::Approx(-std::exp(-40.0)).epsilon(1e-14));  // log(1 / (1 + e^-40)) would be 0
    CHECK(p[1] == -40 - std::exp(-40.0));
    CHECK(p[2] == doctest::Approx(-std::log(2.0)).epsilon(1e-15));
    CHECK(std::exp(p[3]) == doctest::Approx(1 / (1 + std::exp(-1.5))).epsilon(1e-15));
}

TEST_CASE("one label, two classes: softmax of (0, z) has the loss of one yes-or-no question") {
    const auto marked = data::Dataset::multi_label(std::vector<double>{0, 0}, {1, 0}, 1);
    const auto labelled = data::Dataset::own(std::vector<double>{0, 0}, {1, 0}, 2);
    const std::vector<Index> both{0, 1};
    std::vector<double> one{0.7, -1.3}, two{0, 0.7, 0, -1.3};
    const double a = BinaryCrossEntropy::gradient<double>(Batch<double>(marked.examples(), both), one);
    const double b = nn::SoftmaxCrossEntropy::gradient<double>(Batch<double>(labelled.examples(), both), two);
    CHECK(std::fabs(a - b) < 1e-15);
    CHECK(std::fabs(one[0] - two[1]) < 1e-15);
    CHECK(std::fabs(one[1] - two[3]) < 1e-15);
}

TEST_CASE("examples of the other kind are refused with a sentence") {
    const auto labelled = data::Dataset::own(std::vector<double>{0}, {0}, 2);
    const auto marked = data::Dataset::multi_label(std::vector<double>{0}, {0, 1}, 2);
    const std::vector<Index> one{0};
    std::vector<double> two(2), three(3);
    CHECK_THROWS_WITH_AS(BinaryCrossEntropy::gradient<double>(Batch<double>(labelled.examples(), one), two),
                         doctest::Contains("one for each output"), ConfigError);
    CHECK_THROWS_AS(BinaryCrossEntropy::gradient<double>(Batch<double>(marked.examples(), one), three), ConfigError);
    CHECK_THROWS_WITH_AS(nn::SoftmaxCrossEntropy::gradient<double>(Batch<double>(marked.examples(), one), two),
                         doctest::Contains("needs one class an example"), ConfigError);
    const auto many = data::Dataset::own(std::vector<double>{0}, {0}, 200);
    CHECK_THROWS_WITH_AS(nn::SoftmaxCrossEntropy::gradient<double>(Batch<double>(many.examples(), one), two),
                         doctest::Contains("needs an output for each class"), ConfigError);
    CHECK_NOTHROW(nn::SoftmaxCrossEntropy::gradient<double>(Batch<double>(labelled.examples(), one), three));
}

TEST_CASE("regressions: squared errors and Huber's, by hand and by differences") {
    const auto data = data::Dataset::regression(std::vector<double>{0, 0, 0}, std::vector<double>{1, 2, 3});
    const std::vector<Index> all{0, 1, 2};
    const std::vector<double> weights{1, 2, 0.5}, z{1.5, 2.25, 0};  // misses of 0.5, 0.25 and -3
    const Batch<double> batch(data.examples(), all, weights);
    auto slope = z;
    CHECK(nn::SquaredError::gradient<double>(batch, slope) == doctest::Approx((0.125 + 0.0625 + 2.25) / 3).epsilon(1e-14));
    CHECK(slope[2] == doctest::Approx(0.5 * -3 / 3).epsilon(1e-14));
    slope = z;
    CHECK(nn::Huber<>::gradient<double>(batch, slope) == doctest::Approx((0.125 + 0.0625 + 1.25) / 3).epsilon(1e-14));
    CHECK(slope[2] == doctest::Approx(0.5 * -1 / 3).epsilon(1e-14));
    const auto value = [&](std::vector<double> at) { return nn::Huber<>::gradient<double>(batch, at); };
    CHECK(support::relative_error(slope, support::finite_differences(value, z)) < 1e-6);
    const nn::Network<double, nn::SquaredError> net(1, nn::recipe::dnn(4, 1));
    CHECK(conformance::check_gradients(net, batch).empty());
    const auto classes = data::Dataset::own(std::vector<double>{0, 0, 0}, {0, 1, 0}, 2);
    CHECK_THROWS_WITH_AS(nn::SquaredError::gradient<double>(Batch<double>(classes.examples(), all), slope),
                         "nn::SquaredError needs an output for each real target of an example", ConfigError);
}

}  // namespace loss_test
