// SPDX-License-Identifier: BSD-3-Clause
// The quadratic program behind FedPAC's heads: vectors by hand, the conditions of an optimum, degenerate problems.
#include <tessera/method/detail/simplex.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include <tessera/core/random.hpp>

#include <support/bits.hpp>

namespace simplex_test {

using namespace tessera;
using tessera::detail::without_small;

namespace {
Vec<double> least(const Vec<double>& q) {
    const auto n = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(q.size()))));
    return tessera::detail::SimplexQuadratic(q, n).minimise();
}
bool near(const Vec<double>& got, const Vec<double>& expected) {
    return support::distance(got, expected) < 1e-14;  // a few roundings of numbers below 1, in well-posed problems
}

// How far a is from the conditions of Karush, Kuhn and Tucker, in parts of Q's largest entry: slopes equal a'Qa where
// a > 0 and are not less elsewhere. For a convex problem that is all.
double from_optimal(const Vec<double>& q, const Vec<double>& a) {
    const std::size_t n = a.size();
    double value = 0, worst = std::fabs(std::accumulate(a.begin(), a.end(), 0.0) - 1);
    Vec<double> slope(n);
    for (std::size_t j = 0; j < n; ++j) {
        slope[j] = std::inner_product(a.begin(), a.end(), q.begin() + static_cast<std::ptrdiff_t>(j * n), 0.0);
        value += a[j] * slope[j];
        worst = std::max(worst, -a[j]);
    }
    const double scale = std::max(*std::max_element(q.begin(), q.end()), 1e-300);
    for (std::size_t j = 0; j < n; ++j)
        worst = std::max(worst, (a[j] > 0 ? std::fabs(slope[j] - value) : value - slope[j]) / scale);
    return worst;
}

// B B' of n rows of `rank` normal numbers, and a diagonal.
Vec<double> gram(std::size_t n, std::size_t rank, double diagonal, std::uint64_t seed) {
    Stream draw(Key{seed});
    Vec<double> rows(n * rank), q(n * n);
    for (double& each : rows) each = draw.normal() + 0.5;
    for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t l = 0; l < n; ++l)
            for (std::size_t k = 0; k < rank; ++k) q[j * n + l] += rows[j * rank + k] * rows[l * rank + k];
        q[j * n + j] += diagonal * draw.uniform();
    }
    return q;
}
}  // namespace

TEST_CASE("by hand: inside, on an edge, in a corner") {
    CHECK(near(least({1, 0, 0, 0, 2, 0, 0, 0, 4}), {4.0 / 7, 2.0 / 7, 1.0 / 7}));  // inverse variances
    CHECK(near(least({2, 1, 1, 2}), {0.5, 0.5}));
    CHECK(near(least({2, -1, -1, 1}), {0.4, 0.6}));   // Q^-1 1 = (2, 3)
    CHECK(least({1, 2, 2, 5}) == Vec<double>{1, 0});  // at the corner the other slope is 2, above 1
    CHECK(least({5, 2, 2, 1}) == Vec<double>{0, 1});
    // The points 1, 2 and (0, 1) of the plane: 2 does not help, and between the others 0 is nearest in the middle.
    CHECK(near(least({1, 2, 0, 2, 4, 0, 0, 0, 1}), {0.5, 0, 0.5}));
    CHECK(least({1, 2, 3, 2, 5, 7, 3, 7, 10}) == Vec<double>{1, 0, 0});  // the points (1, 0), (2, 1) and (3, 1)
    CHECK_FALSE(near(least({1, 0, 0, 0, 2, 0, 0, 0, 4}), {1.0 / 3, 1.0 / 3, 1.0 / 3}));
}

TEST_CASE("many small problems, so many that in some of them a weight that left has to come back") {
    std::size_t sparse = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const auto q = gram(6, 3, 0.5, seed);
        const auto a = least(q);
        CHECK(from_optimal(q, a) < 1e-12);
        sparse += std::count(a.begin(), a.end(), 0.0) > 0;
    }
    CHECK(sparse > 50);  // else the cases would ask little
    CHECK(sparse < 200);
}

TEST_CASE("random problems end at an optimum, whatever their size and rank") {
    for (const std::size_t n : {1u, 2u, 3u, 10u, 40u})
        for (const std::size_t rank : {1u, 2u, 5u, 60u})
            for (const double diagonal : {0.0, 1e-9, 1e-3, 1.0, 1e3}) {
                const auto q = gram(n, rank, diagonal, 1000 * n + rank);
                CAPTURE(n);
                CAPTURE(rank);
                CAPTURE(diagonal);
                // n eps on the diagonal, and as much again from the factors of a matrix that is barely definite.
                CHECK(from_optimal(q, least(q)) < 1e-11);
            }
}

TEST_CASE("the conditions see what is not optimal") {
    const Vec<double> q{1, 0, 0, 0, 2, 0, 0, 0, 4};
    CHECK(from_optimal(q, least(q)) < 1e-14);
    CHECK(from_optimal(q, Vec<double>(3, 1.0 / 3)) > 0.01);
    CHECK(from_optimal(q, {1, 0, 0}) > 0.01);
    CHECK(from_optimal(q, {4.0 / 7, 2.0 / 7, 0.99 / 7}) > 1e-3);
    CHECK(from_optimal({2, -1, -1, 1}, {0, 1}) > 0.01);
}

TEST_CASE("degenerate problems: one weight, nothing to choose, equal points, scales") {
    CHECK(least({3}) == Vec<double>{1});
    CHECK(least({0}) == Vec<double>{1});
    CHECK(least(Vec<double>(16)) == Vec<double>(4, 0.25));
    // Equal points with nothing on the diagonal: every a is as good. Nobody is left out.
    const auto equals = least(Vec<double>(25, 7.0));
    CHECK(*std::min_element(equals.begin(), equals.end()) > 0.1);
    CHECK(std::fabs(std::accumulate(equals.begin(), equals.end(), 0.0) - 1) < 1e-14);
    auto equal = Vec<double>(9, 7.0);
    for (const std::size_t j : {0u, 4u, 8u}) equal[j] += 1;
    CHECK(near(least(equal), Vec<double>(3, 1.0 / 3)));
    const Vec<double> q{2, -1, -1, 1};
    for (const double scale : {1e-200, 1e-20, 1e20, 1e200}) {
        auto scaled = q;
        for (double& each : scaled) each *= scale;
        CHECK(near(least(scaled), least(q)));
    }
    // Not positive semi-definite, as only rounding can make it: still weights.
    const auto a = least({1, 1 + 1e-15, 1 + 1e-15, 1});
    CHECK(a[0] >= 0);
    CHECK(a[1] >= 0);
    CHECK(std::fabs(a[0] + a[1] - 1) < 1e-14);
}

TEST_CASE("small weights are left out, and the others are a whole again") {
    CHECK(near(without_small({0.0009, 0.4991, 0.5}, 1e-3), {0, 0.4991 / 0.9991, 0.5 / 0.9991}));
    CHECK(without_small({0.001, 0.499, 0.5}, 1e-3)[0] > 0);
    CHECK(without_small({1, 0}, 1e-3) == Vec<double>{1, 0});
    CHECK(without_small(Vec<double>(2000, 0.0005), 1e-3) == Vec<double>(2000, 0.0005));
}

}  // namespace simplex_test
