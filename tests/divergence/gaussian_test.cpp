// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/divergence/gaussian.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <support/bits.hpp>
#include <support/geometry.hpp>

namespace gaussian_test {

using namespace tessera;
using divergence::DiagonalGaussian;
using divergence::Gaussian;

TEST_CASE("D is half the squared distance, weighted by the inverse variances") {
    const Vec<double> x{1, -2, 0.5}, y{0, 1, 0.5};
    CHECK(std::fabs(bregman(Gaussian{}, x, y) - 5) < 1e-15);                      // (1 + 9) / 2
    CHECK(std::fabs(bregman(DiagonalGaussian{{2, 3, 7}}, x, y) - 1.75) < 1e-15);  // (1/2 + 9/3) / 2
    CHECK(bregman(Gaussian{}, x, x) == 0);
    CHECK(bregman(DiagonalGaussian{{2, 3, 7}}, x, x) == 0);
    CHECK(bregman(DiagonalGaussian{{1, 1, 1}}, x, y) == bregman(Gaussian{}, x, y));
}

TEST_CASE("gradient and mean are inverse, and the envelope is S^-1 (mu - theta)") {
    const DiagonalGaussian wide{{4, 0.25}};
    const Vec<double> x{3, -1}, theta{1, 1};
    Vec<double> s(2), mu = x;
    wide.gradient(In<double>(x), Out<double>(s));
    CHECK(s == Vec<double>{0.75, -4});
    wide.mean(Out<double>(s));
    CHECK(s == x);
    wide.envelope(Out<double>(mu), In<double>(theta));
    CHECK(mu == Vec<double>{0.5, -8});
    mu = x;
    Gaussian{}.envelope(Out<double>(mu), In<double>(theta));
    CHECK(mu == Vec<double>{2, -2});
}

TEST_CASE("one local step by hand") {
    const auto by_hand = support::geometry_step_by_hand([](double x) { return x / 4; }, [](double) { return 0.25; });
    CHECK(support::apart(support::geometry_step(DiagonalGaussian{{4, 0.5}}), by_hand) < 1e-15);
    CHECK(support::apart(support::geometry_step(DiagonalGaussian{{0.5, 4}}), by_hand) > 1e-3);
    const auto plain = support::geometry_step_by_hand([](double x) { return x; }, [](double) { return 1.0; });
    CHECK(support::apart(support::geometry_step(Gaussian{}), plain) < 1e-15);
}

TEST_CASE("variances that do not fit are refused before round one") {
    using Method = FedBreD<prior::Identity, DiagonalGaussian>;
    CHECK_THROWS_WITH_AS(support::geometry_run(Method{.divergence = {{1, 1, 1}}}, {0, 0}),
                         doctest::Contains("variance has 3 entries, the model has 2 parameters"), ConfigError);
    CHECK_THROWS_WITH_AS(support::geometry_run(Method{}, {0, 0}), doctest::Contains("variance has 0 entries"),
                         ConfigError);
    CHECK_THROWS_WITH_AS(support::geometry_run(Method{.divergence = {{1, 0}}}, {0, 0}),
                         doctest::Contains("every variance must be above 0"), ConfigError);
    CHECK_NOTHROW(support::geometry_run(Method{.divergence = {{1, 2}}}, {0, 0}));
}

}  // namespace gaussian_test
