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

TEST_CASE("a full covariance by hand: S = (4 2; 2 5), S^-1 = (5 -2; -2 4) / 16") {
    const auto all = divergence::FullGaussian::of({4, 2, 2, 5});
    CHECK(all.factor == Vec<double>{2, 1, 2});
    const Vec<double> x{3, -1}, y{1, 1};
    CHECK(bregman(all, x, y) == doctest::Approx((5 * 4 + 2 * 2 * 4 + 4 * 4) / 32.0));  // x - y = (2, -2)
    Vec<double> s(2), mu = x;
    all.gradient(In<double>(x), Out<double>(s));
    CHECK(support::distance(s, {17.0 / 16, -10.0 / 16}) < 1e-15);
    all.mean(Out<double>(s));
    CHECK(support::distance(s, x) < 1e-15);
    all.envelope(Out<double>(mu), In<double>(y));
    CHECK(support::distance(mu, {14.0 / 16, -12.0 / 16}) < 1e-15);
    // Diagonal, it is the diagonal's; with what couples them it is not.
    const auto step = support::geometry_step(DiagonalGaussian{{4, 0.5}});
    CHECK(support::apart(support::geometry_step(divergence::FullGaussian::of({4, 0, 0, 0.5})), step) < 1e-14);
    CHECK(support::apart(support::geometry_step(divergence::FullGaussian::of({4, 1, 1, 0.5})), step) > 1e-3);
}

TEST_CASE("covariances that are none are refused") {
    using divergence::FullGaussian;
    CHECK_THROWS_WITH_AS(FullGaussian::of({1, 0, 0}), doctest::Contains("is no square"), ConfigError);
    CHECK_THROWS_WITH_AS(FullGaussian::of({1, 2, 0, 1}), doctest::Contains("symmetric"), ConfigError);
    CHECK_THROWS_WITH_AS(FullGaussian::of({1, 2, 2, 1}), doctest::Contains("positive definite"), ConfigError);
    using Method = FedBreD<prior::Identity, FullGaussian>;
    CHECK_THROWS_WITH_AS(support::geometry_run(Method{.divergence = FullGaussian::of({1})}, {0, 0}),
                         doctest::Contains("of 2 parameters has 3 numbers, this one 1"), ConfigError);
    CHECK_THROWS_WITH_AS(support::geometry_run(Method{.divergence = {{1, 0, -1}}}, {0, 0}),
                         doctest::Contains("above 0 on its diagonal"), ConfigError);
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
