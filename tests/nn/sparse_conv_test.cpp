// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/masked.hpp>

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/rule/sgd.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/kernel_sets.hpp>
#include <support/masked_place.hpp>
#include <support/toy_numbers.hpp>

namespace sparse_conv_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

// Blocks from the picture to the loss: windows of two and of three, of which one leaves a margin.
struct PlainRecipe {
    static constexpr Shape in = Shape(2, 11, 10);
    static constexpr auto layers = chain(Conv2d{.outputs = 4, .kernel = 3}, Relu{}, MaxPool2d{},
                                         Conv2d{.outputs = 5, .kernel = 2, .pad = 1}, LeakyRelu{}, MaxPool2d{3},
                                         Linear{7}, Relu{}, Linear{3});
};
template <class R>
using Plain = Fixed<PlainRecipe, R>;
constexpr auto normed(std::size_t channels, std::size_t kernel, std::size_t stride, std::size_t groups) {
    return chain(Conv2d{.outputs = channels, .kernel = kernel, .stride = stride, .pad = kernel / 2, .bias = false}, GroupNorm{groups});
}
// Residual blocks with a stride, no biases, norms by rows between convolutions, a sum of blocks and rows, mean pools.
struct ResidualRecipe {
    static constexpr Shape in = Shape(3, 8, 8);
    static constexpr auto layers =
        chain(Conv2d{.outputs = 4, .kernel = 3, .pad = 1, .bias = false}, GroupNorm{2}, Relu{},
              residual(chain(normed(4, 3, 1, 2), Relu{}, normed(4, 3, 1, 2))), Relu{},
              residual(chain(normed(6, 3, 2, 3), Relu{}, normed(6, 3, 1, 3)), normed(6, 1, 2, 3)), Relu{},
              residual(chain(Conv2d{.outputs = 6, .kernel = 1}, Relu{})), MeanPool{}, Linear{3});
};
template <class R>
using Residual = Fixed<ResidualRecipe, R>;

// The weight that decides where active ones are faster, in tenths of all, by the shape.
bool pays(std::size_t ones, const kernels::ConvShape& s, std::size_t out, std::size_t batch) {
    return nn::detail::sparse_conv_pays<float>(ones, s, out, batch);
}

}  // namespace

TEST_CASE_TEMPLATE("L-SPA-7: sparse convolutions are dense ones on zero-filled weights", R, float, double) {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (const auto how : {Arithmetic::sparse, Arithmetic::table})
            for (const double density : {0.1, 0.5, 1.0}) {
                check_against_dense<Plain<R>>(20, density, how);
                check_against_dense<Residual<R>>(33, density, how);
            }
    });
    check_against_dense<Plain<R>>(1, 0, Arithmetic::sparse);  // nothing is left but the loss of constants
}

TEST_CASE("the networks of FedSpa: masked gradients are those at zero-filled weights") {
    for (const double density : {0.1, 0.5, 1.0}) {
        check_against_dense<LeNet5<10>>(20, density, Arithmetic::sparse);
        check_against_dense<LeNet5<10>>(32, density, Arithmetic::table);
    }
    check_against_dense<Vgg11<10>>(2, 0.2, Arithmetic::sparse);
}

TEST_CASE("a sparse convolution's gradient is the slope of the loss, by differences in each active coordinate") {
    const Place<Plain<double>> at(9, 0.4);
    const auto point = toy_numbers<double>(at.packed.size(), 8);  // no bias is 0, so no ReLU stands at its kink
    const Sparse<Plain<double>> sparse(at.model, at.mask, 9, Arithmetic::sparse);
    Vec<double> gradient(at.packed.size());
    sparse.gradient(point, at.batch(), gradient);
    const auto slope = finite_differences(
        [&](const std::vector<double>& x) {
            Vec<double> unused(x.size());
            return sparse.gradient(In<double>(x.data(), x.size()), at.batch(), unused);
        },
        point, 1e-6);
    CHECK(relative_error({gradient.begin(), gradient.end()}, slope) < 1e-6);
    auto tampered = std::vector<double>(gradient.begin(), gradient.end());
    tampered[3] += 1e-3;
    CHECK(relative_error(tampered, slope) > 1e-6);
}

TEST_CASE("after many steps of LeNet5 sparse and dense arithmetic stand at the same point, fused or not") {
    Place<LeNet5<10>> at(64, 0.2);
    const Sparse<LeNet5<10>> sparse(at.model, at.mask, 32, Arithmetic::sparse);
    const Sparse<LeNet5<10>> dense(at.model, at.mask, 32, Arithmetic::dense);
    const rule::Sgd rule{.rate = 0.05, .momentum = 0.9, .weight_decay = 5e-4};
    const auto a = trained(at, sparse, at.packed, 32, 4, rule), b = trained(at, dense, at.packed, 32, 4, rule);
    // 8 steps of 0.05 with momentum, of gradients below 1 that differ by their rounding.
    CHECK(distance(a, b) < 1e-5);
    CHECK(distance(a, at.packed) > 1e-2);
    CHECK(same_bits(a, trained(at, TwoPass<LeNet5<10>>{&sparse}, at.packed, 32, 4, rule)));
    CHECK_FALSE(same_bits(a, b));  // other kernels did run
}

TEST_CASE("the table of convolutions knows what the dense kernel is") {
    const kernels::ConvShape three{64, 32, 32, 3, 1, 1}, deep{256, 8, 8, 3, 1, 1}, five{20, 12, 12, 5, 1, 0};
    const std::size_t weights = 64 * three.taps(), deeps = 256 * deep.taps(), fives = 50 * five.taps();
    CHECK(kernels::winograd_pays<float>(three, 64));
    // A tenth of many channels always, everything never; Winograd's tiles are hard to beat, by few channels hardly at all;
    // part of a register costs a whole one.
    for (const std::size_t batch : {16u, 32u, 64u}) {
        CHECK(pays(weights / 30, three, 64, batch));
        CHECK_FALSE(pays(weights / 10, three, 64, batch));
        CHECK(pays(deeps / 10, deep, 256, batch));
        CHECK_FALSE(pays(deeps / 2, deep, 256, batch));
        CHECK(pays(fives / 2, five, 50, batch));
        CHECK_FALSE(pays(fives, five, 50, batch));
    }
    CHECK_FALSE(pays(fives / 2, five, 50, 8));
    CHECK_FALSE(pays(deeps / 10, deep, 256, 1));
    // What it says is what runs.
    const auto gradient = [](std::size_t batch, Arithmetic how) {
        const Place<Plain<float>> at(batch, 0.3);
        Vec<float> out(at.packed.size());
        Sparse<Plain<float>>(at.model, at.mask, batch, how).gradient(at.packed, at.batch(), out);
        return out;
    };
    CHECK(same_bits(gradient(1, Arithmetic::table), gradient(1, Arithmetic::dense)));
    CHECK_FALSE(same_bits(gradient(32, Arithmetic::table), gradient(32, Arithmetic::dense)));
}

}  // namespace sparse_conv_test
