// SPDX-License-Identifier: BSD-3-Clause
// What holds for every convex function; a user's own among them.
#include <tessera/divergence/general.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include <tessera/divergence/bernoulli.hpp>
#include <tessera/divergence/exponential.hpp>
#include <tessera/divergence/gaussian.hpp>
#include <tessera/divergence/poisson.hpp>

#include <support/finite_differences.hpp>
#include <support/toy_numbers.hpp>

namespace general_test {

using namespace tessera;

namespace {
// A user's own: the fourth power, convex on all of R, flat at 0.
struct Quartic {
    static constexpr std::string_view name = "Quartic";
    static constexpr double low = -std::numeric_limits<double>::infinity(), high = -low;
    static auto value(auto x) { return x * x * x * x / 4; }
    static auto slope(auto x) { return x * x * x; }
    static auto curvature(auto x) { return 3 * x * x; }
    static auto mean(auto s) { return std::cbrt(s); }
};

Vec<double> inside(std::uint64_t seed) {  // of all the domains
    Vec<double> x;
    for (const double v : support::toy_numbers<double>(40, seed)) x.push_back(0.5 + 0.45 * v);
    return x;
}
}  // namespace

static_assert(Divergence<divergence::Gaussian, float> && Divergence<divergence::DiagonalGaussian, double>);
static_assert(Divergence<divergence::Poisson, float> && Divergence<divergence::General<Quartic>, double>);
static_assert(!Divergence<Nothing, double>);
static_assert(is_euclidean<divergence::Gaussian> && !is_euclidean<divergence::Poisson>);

TEST_CASE("L-BRED-13 D(x, x) = 0 and D(x, y) > 0") {
    const auto check = [](const auto& divergence) {
        for (std::uint64_t seed = 1; seed < 20; ++seed) {
            const auto x = inside(seed), y = inside(seed + 100);
            CHECK(bregman(divergence, x, x) == 0);
            CHECK(bregman(divergence, x, y) > 1e-3);
        }
    };
    check(divergence::Gaussian{});
    check(divergence::DiagonalGaussian{Vec<double>(40, 0.3)});
    check(divergence::Bernoulli{});
    check(divergence::Poisson{});
    check(divergence::Exponential{});
    check(divergence::General<Quartic>{});
}

TEST_CASE("the gradient is the slope of the value, the envelope its second derivative, mean its inverse") {
    const auto check = [](const auto& divergence) {
        const auto x = inside(7), theta = inside(8);
        Vec<double> slope(x.size()), ahead(x.size()), behind(x.size());
        divergence.gradient(In<double>(x), Out<double>(slope));
        const std::vector<double> at(x.begin(), x.end());
        const auto value = [&](const std::vector<double>& v) { return divergence.value(In<double>(v)); };
        CHECK(support::relative_error({slope.begin(), slope.end()}, support::finite_differences(value, at)) < 1e-7);

        auto mu = x;
        divergence.envelope(Out<double>(mu), In<double>(theta));
        constexpr double h = 1e-5;  // central: h^2 phi'''' / phi'' is below 1e-6 here
        auto up = x, down = x;
        for (double& v : up) v += h;
        for (double& v : down) v -= h;
        divergence.gradient(In<double>(up), Out<double>(ahead));
        divergence.gradient(In<double>(down), Out<double>(behind));
        for (std::size_t j = 0; j < x.size(); ++j) {
            const double expected = (ahead[j] - behind[j]) / (2 * h) * (x[j] - theta[j]);
            CHECK(std::fabs(mu[j] - expected) < 1e-5 * std::fabs(expected) + 1e-12);
        }
        auto mean = slope;
        divergence.mean(Out<double>(mean));
        for (std::size_t j = 0; j < x.size(); ++j) CHECK(std::fabs(mean[j] - x[j]) < 1e-14);
    };
    check(divergence::Gaussian{});
    check(divergence::DiagonalGaussian{Vec<double>(40, 0.3)});
    check(divergence::Bernoulli{});
    check(divergence::Poisson{});
    check(divergence::Exponential{});
    check(divergence::General<Quartic>{});
}

TEST_CASE("projection moves what is outside to the margin and nothing else") {
    const double inf = std::numeric_limits<double>::infinity();
    Vec<double> x{-3, 0, 1e-9, 0.25, 1e30};
    divergence::Poisson{.margin = 1e-3}.project(Out<double>(x));
    CHECK(x == Vec<double>{1e-3, 1e-3, 1e-3, 0.25, 1e30});
    Vec<double> y{-1e300, 0, inf};
    divergence::General<Quartic>{}.project(Out<double>(y));
    CHECK(y == Vec<double>{-1e300, 0, inf});
    CHECK_THROWS_WITH_AS(divergence::General<Quartic>{}.admit(In<double>(y)),
                         doctest::Contains("a Quartic prior lives on"),
                         ConfigError);  // no number is infinite
    Vec<double> broken{std::nan("")};
    divergence::Bernoulli{}.project(Out<double>(broken));
    CHECK(std::isnan(broken[0]));  // not hidden: the visit counts as diverged
}

}  // namespace general_test
