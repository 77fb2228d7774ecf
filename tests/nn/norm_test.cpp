// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/norm.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/nn/activation.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>

#include <support/finite_differences.hpp>
#include <support/one_layer.hpp>
#include <support/toy_numbers.hpp>

namespace norm_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

std::vector<double> outputs(const GroupNorm& layer, Shape in, const std::vector<double>& w, const std::vector<double>& x) {
    return OneLayer<GroupNorm>(layer, in, w, x).y();
}

struct NormedRecipe {
    static constexpr Shape in = 8;
    static constexpr auto layers = chain(Linear{6}, GroupNorm{}, LeakyRelu{}, Linear{4});
};
template <class R>
using Normed = Fixed<NormedRecipe, R>;

}  // namespace

TEST_CASE("scale 1 and shift 0 give mean 0 and variance 1 in every group") {
    const Shape in(6, 2, 2);
    std::vector<double> w(12, 0.0);
    std::fill_n(w.begin(), 6, 1.0);
    const auto y = outputs(GroupNorm{2}, in, w, toy_numbers<double>(48, 4));
    for (std::size_t group = 0; group < 4; ++group) {
        double mean = 0, square = 0;
        for (std::size_t j = 0; j < 12; ++j) {
            mean += y[group * 12 + j] / 12;
            square += y[group * 12 + j] * y[group * 12 + j] / 12;
        }
        CHECK(std::abs(mean) < 1e-14);                      // rounding of twelve terms
        CHECK(square == doctest::Approx(1).epsilon(1e-4));  // eps = 1e-5 beside a variance near 1/3
        CHECK(square < 1);                                  // and it does act
    }
    const auto whole = outputs(GroupNorm{1}, in, w, toy_numbers<double>(48, 4));
    CHECK(relative_error(y, whole) > 1e-3);  // the grouping matters
}

TEST_CASE("an affine change of a group's inputs changes nothing, scale and shift act per channel") {
    const GroupNorm layer{.groups = 2, .eps = 0};
    const std::vector<double> w{1, 2, 3, 4, 10, 20, 30, 40}, x{1, 3, -1, 5}, moved{7 + 2 * 1, 7 + 2 * 3, -1, 5};
    const auto y = outputs(layer, 4, w, x);
    CHECK(y == std::vector<double>{10 - 1, 20 + 2, 30 - 3, 40 + 4});
    CHECK(outputs(layer, 4, w, moved) == y);
}

TEST_CASE("gradients agree with differences in double") {
    const conformance::Complaints none;
    CHECK(conformance::layer(GroupNorm{1}, 5) == none);
    CHECK(conformance::layer(GroupNorm{3}, 6) == none);
    CHECK(conformance::layer(GroupNorm{2}, Shape(4, 1, 3)) == none);
    CHECK(conformance::layer(GroupNorm{4}, Shape(4, 3, 1)) == none);  // a group for each channel
}

TEST_CASE("in a network: parts, first values, fused steps") {
    CHECK(conformance::check_gradients(Normed<double>{}).empty());
    CHECK(conformance::check_gradients(Normed<float>{}).empty());
    static_assert(FusedModel<Normed<float>>);
    static_assert(select<scope::Norm>(Normed<float>::segments).size(0) == 12);
    static_assert(Normed<float>::segments[2].name == Name("1.weight"));
    const auto x = initial_parameters(Normed<float>{}, Key{1});
    const auto norm = gather(x, on<scope::Norm>(Normed<float>{}));
    CHECK(norm == Vec<float>{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("a fused step of the norm alone moves nothing else and is the plain step") {
    const Normed<double> net;
    const auto data = toy_dataset<double>(6, 8, 4);
    const auto ids = first_ids(6);
    const Batch<double> batch(data.examples(), ids);
    const auto before = initial_parameters(net, Key{2});
    auto x = before;
    Vec<double> g(x.size()), velocity(x.size());
    net.gradient(x, batch, g);
    const Step<double> step{.terms = {.on = on<scope::Norm>(net), .prox_center = before, .prox_weight = 0.5},
                            .rate = 0.3,
                            .decay = 0.1,
                            .momentum = 0.5,
                            .velocity = &velocity};
    REQUIRE(net.fuses(step));
    net.fused_step(x, batch, step);
    const auto own = on<scope::Norm>(net);
    for (std::size_t j = 0; j < x.size(); ++j) {
        if (!own.touches({j, j + 1})) CHECK(x[j] == before[j]);
        else
            CHECK(x[j] == doctest::Approx(before[j] - 0.3 * (g[j] + 0.1 * before[j])).epsilon(1e-12));  // two roundings
    }
    CHECK(x != before);
}

}  // namespace norm_test
