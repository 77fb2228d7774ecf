// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/layer_norm.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/nn/activation.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/norm.hpp>

#include <support/finite_differences.hpp>
#include <support/one_layer.hpp>
#include <support/toy_numbers.hpp>

namespace layer_norm_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

template <class R>
std::vector<double> outputs(const auto& layer, Shape in, const std::vector<double>& w, const std::vector<double>& x) {
    const OneLayer<std::remove_cvref_t<decltype(layer)>, R> one(layer, in, {w.begin(), w.end()}, {x.begin(), x.end()});
    return {one.y().begin(), one.y().end()};
}

}  // namespace

TEST_CASE_TEMPLATE("rows of the last dimension have mean 0 and variance 1, then scale and shift of their own", R, float,
                   double) {
    const double close = sizeof(R) == 4 ? 1e-6 : 1e-14;  // a handful of roundings of numbers near 1
    const std::vector<double> w{1, 2, 10, 20}, x{1, 3, 5, 1};
    // mean 2, deviation 1; mean 3, deviation 2
    CHECK(relative_error(outputs<R>(LayerNorm{.eps = 1e-15}, Shape(2, 2), w, x), {9, 22, 11, 18}) < close);
    CHECK(relative_error(outputs<R>(LayerNorm{.eps = 1e-15}, 2, w, x), {9, 22, 11, 18}) < close);
    CHECK(relative_error(outputs<R>(LayerNorm{.eps = 3}, 2, w, {1, 3}), {10 - 0.5, 20 + 1}) < close);
    CHECK(relative_error(outputs<R>(LayerNorm{.eps = 1e-15, .affine = false}, 2, {}, x), {-1, 1, 1, -1}) < close);
    const auto rows = toy_numbers<double>(2 * 3 * 4, 7);
    const std::vector<double> plain{1, 1, 1, 1, 0, 0, 0, 0};
    CHECK(relative_error(outputs<R>(LayerNorm{}, Shape(2, 3, 4), plain, rows),
                         outputs<R>(LayerNorm{}, Shape(6, 4), plain, rows)) == 0);
    // a vector is one group of GroupNorm, which sums in R
    CHECK(relative_error(outputs<R>(LayerNorm{}, 4, plain, rows), outputs<R>(GroupNorm{}, 4, plain, rows)) < 10 * close);
}

TEST_CASE("gradients agree with differences in double") {
    const conformance::Complaints none;
    CHECK(conformance::layer(LayerNorm{}, 5) == none);
    CHECK(conformance::layer(LayerNorm{.eps = 0.1}, Shape(3, 4)) == none);
    CHECK(conformance::layer(LayerNorm{.affine = false}, Shape(3, 4)) == none);
    CHECK(conformance::layer(LayerNorm{}, Shape(2, 3, 4)) == none);
}

TEST_CASE("one scale and shift for a group, or none at all") {
    const std::vector<double> x{1, 3, -1, 5};
    const GroupNorm pairs{.eps = 0, .affine = Affine::group, .each = 2};
    CHECK(outputs<double>(pairs, 4, {2, 3, 10, 20}, x) == std::vector<double>{8, 12, 17, 23});
    CHECK(outputs<double>(GroupNorm{.groups = 2, .eps = 0, .affine = Affine::none}, 4, {}, x) ==
          std::vector<double>{-1, 1, -1, 1});
    const conformance::Complaints none;
    CHECK(conformance::layer(pairs, Shape(4, 2, 3)) == none);
    CHECK(conformance::layer(GroupNorm{.groups = 3, .affine = Affine::group}, 6) == none);
    CHECK(conformance::layer(GroupNorm{.groups = 2, .affine = Affine::none}, Shape(4, 2, 2)) == none);
    CHECK(parameters(Shape(64, 8, 8), GroupNorm{.affine = Affine::group, .each = 2}) == 64);
    CHECK(parameters(Shape(64, 8, 8), GroupNorm{.each = 2}) == 128);
    CHECK_FALSE(fits(Shape(3, 8, 8), GroupNorm{.each = 2}));
}

TEST_CASE_TEMPLATE("GELU: the exact form, its approximation, and their slopes", R, float, double) {
    // x Phi(x) with Phi of -4, -1, 0.5 and 2 from tables of the normal distribution to 16 digits
    const std::vector<double> x{-4, -1, 0, 0.5, 2};
    const std::vector<double> exact{-4 * 3.167124183311992e-05, -0.1586552539314571, 0, 0.5 * 0.6914624612740131,
                                    2 * 0.9772498680518208};
    const auto y = outputs<R>(Gelu{}, 5, {}, x);
    const std::vector<double> bent{-7.024594819227126e-05, -0.15880800939172324, 0.0, 0.34571400982514394, 1.954597694087775};
    const auto rough = outputs<R>(Gelu{.tanh = true}, 5, {}, x);
    for (std::size_t i = 0; i < 5; ++i) {
        const double close = sizeof(R) == 4 ? 2e-6 : 1e-12;  // of what is left, also far below 0; a tanh near -1 keeps less
        CHECK(std::fabs(y[i] - exact[i]) <= close * std::fabs(exact[i]));
        CHECK(std::fabs(rough[i] - bent[i]) <= (i == 0 ? 2e-3 : close) * std::fabs(bent[i]));
        if (i != 2) CHECK(std::fabs(y[i] - bent[i]) > 1e-6 * std::fabs(bent[i]));  // two functions
    }
    const conformance::Complaints none;
    CHECK(conformance::layer(Gelu{}, Shape(3, 4)) == none);
    CHECK(conformance::layer(Gelu{.tanh = true}, Shape(3, 4)) == none);
}

}  // namespace layer_norm_test
