// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/blend.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <tessera/nn/zoo.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace blend_test {

using namespace tessera;
using support::Toy;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes, double>;
static_assert(Model<nn::Blend<Net>>);

Vec<double> numbers(std::uint64_t seed) {
    const auto x = support::toy_numbers<double>(Net::parameters, seed);
    return Vec<double>(x.begin(), x.end());
}
}  // namespace

TEST_CASE("gradient in v and slope in alpha, by differences") {
    const auto data = support::toy_data();
    const auto share = data[0];
    const Batch<double> b(*share.examples, share.train);
    const Net net;
    const auto v = numbers(1), w = numbers(2);
    for (const double alpha : {0.2, 0.7, 1.0}) {
        nn::Blend<Net> blend{&net, &w, alpha};
        Vec<double> gradient(v.size());
        const double loss = blend.gradient(v, b, gradient);
        const auto in_v = [&](const std::vector<double>& at) {
            Vec<double> unused(at.size());
            return blend.gradient(at, b, unused);
        };
        const auto slope = support::finite_differences(in_v, {v.begin(), v.end()});
        CHECK(support::relative_error({gradient.begin(), gradient.end()}, slope) < 1e-6);
        const auto in_alpha = [&](const std::vector<double>& at) {
            Vec<double> unused(v.size());
            return nn::Blend<Net>{&net, &w, at[0]}.gradient(v, b, unused);
        };
        CHECK(in_alpha({alpha}) == loss);
        CHECK(support::relative_error({blend.slope(v, b)}, support::finite_differences(in_alpha, {alpha})) < 1e-6);
        CHECK(std::fabs(blend.slope(v, b)) > 1e-3);
    }
}

TEST_CASE("alpha = 1 is the model at v, alpha = 0 the model at w, bit for bit") {
    const auto data = support::toy_data();
    const auto share = data[0];
    const Batch<double> b(*share.examples, share.test);
    const Net net;
    const auto v = numbers(1), w = numbers(2);
    Vec<double> got(share.test.size() * Toy::classes), expected(got.size());
    for (const bool own : {true, false}) {
        nn::Blend<Net>{&net, &w, own ? 1.0 : 0.0}.predict(v, b, got);
        net.predict(own ? v : w, b, expected);
        CHECK(support::same_bits(got, expected));
    }
    nn::Blend<Net>{&net, &w, 0.5}.predict(v, b, got);
    CHECK_FALSE(support::same_bits(got, expected));
}

TEST_CASE("it follows a w that moves") {
    const Net net;
    const auto v = numbers(1);
    auto w = numbers(2);
    const nn::Blend<Net> blend{&net, &w, 0.25};
    const auto before = blend.mix(v);
    w[3] += 4;
    const auto after = blend.mix(v);
    CHECK(std::fabs(after[3] - before[3] - 3) < 1e-14);
    CHECK(after[4] == before[4]);
}

}  // namespace blend_test
