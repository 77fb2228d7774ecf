// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/coherence.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <support/toy_numbers.hpp>

namespace coherence_test {

using namespace tessera;

namespace {
template <class R = double>
double gce(const std::vector<Vec<R>>& directions) {
    return report::coherence(std::span<const Vec<R>>(directions));
}
Vec<double> direction(std::size_t n, std::uint64_t seed) {
    const auto x = support::toy_numbers<double>(n, seed);
    return Vec<double>(x.begin(), x.end());
}
}  // namespace

TEST_CASE("orthogonal directions have coherence 0, exactly") {
    CHECK(gce({{3, 0, 0}, {0, 1e-8, 0}, {0, 0, -7e5}}) == 0);
    CHECK(gce<float>({{1, 1}, {1, -1}}) == 0);
    CHECK(gce({{4, 2}}) == 0);
    CHECK(gce({}) == 0);
}

TEST_CASE("dependent directions have coherence 1, exactly") {
    CHECK(gce({{1, 2, 3}, {-2, -4, -6}}) == 1);
    CHECK(gce({{0.1, 0.7}, {0.3, 0.2}, {0.9, -0.5}}) == 1);  // three in a plane
    CHECK(gce({{1, 2}, {0, 0}}) == 1);
    const auto x = direction(50, 1), y = direction(50, 2);
    auto mixed = x;
    for (std::size_t j = 0; j < x.size(); ++j) mixed[j] = 0.3 * x[j] - 1.7 * y[j];
    CHECK(gce({x, y, mixed}) == 1);
    mixed[7] += 0.1;
    CHECK(gce({x, y, mixed}) < 1);
}

TEST_CASE("in between, the determinant by hand") {
    // Two directions at an angle: det = 1 - cos^2.
    for (const double angle : {0.1, 0.5, 1.2}) {
        const double expected = std::cos(angle) * std::cos(angle);
        CHECK(std::fabs(gce({{2, 0}, {5 * std::cos(angle), 5 * std::sin(angle)}}) - expected) < 1e-14);
    }
    // Three with pairwise cosine 1/2: det = 1 + 2/8 - 3/4 = 1/2.
    CHECK(std::fabs(gce({{1, 1, 0}, {1, 0, 1}, {0, 1, 1}}) - 0.5) < 1e-14);
}

TEST_CASE("length, sign and order do not matter") {
    const auto x = direction(30, 1), y = direction(30, 2), z = direction(30, 3);
    auto long_x = x;
    for (double& v : long_x) v *= -1e6;
    const double value = gce({x, y, z});
    CHECK(value > 0.01);
    CHECK(value < 0.99);
    CHECK(std::fabs(gce({long_x, y, z}) - value) < 1e-13);  // other roundings of the same sums
    CHECK(std::fabs(gce({z, x, y}) - value) < 1e-13);
}

TEST_CASE("sixty directions, nearly alike and nearly orthogonal") {
    // e_0 + e_i / 100: det is about 60 * 1e-4^59.
    std::vector<Vec<double>> alike;
    for (std::size_t i = 0; i < 60; ++i) {
        Vec<double> x(61);
        x[0] = 1;
        x[i + 1] = 1e-2;
        alike.push_back(x);
    }
    CHECK(gce(alike) > 1 - 1e-12);
    std::vector<Vec<double>> apart;
    for (std::size_t i = 0; i < 60; ++i) {
        Vec<double> x(60);
        x[i] = 1;
        x[0] += 1e-3;
        apart.push_back(x);
    }
    // det = 1 - sum of about 59 * 1e-6 to first order.
    CHECK(std::fabs(gce(apart) - 59e-6) < 1e-6);
}

TEST_CASE("per direction, a hundred directions are still told apart") {
    const auto each = [](double common) {  // e_0 common + e_i, a hundred of them
        std::vector<Vec<double>> all;
        for (std::size_t i = 0; i < 100; ++i) {
            Vec<double> x(101);
            x[0] = common;
            x[i + 1] = 1;
            all.push_back(x);
        }
        return all;
    };
    const auto per = [](const std::vector<Vec<double>>& all) {
        return report::coherence_per_direction(std::span<const Vec<double>>(all));
    };
    // Gram matrix (1 - c) I + c 11' with c = common^2 / (1 + common^2): det = (1 - c)^99 (1 + 99 c).
    for (const double common : {1.0, 2.0}) {
        const double c = common * common / (1 + common * common);
        const double expected = 1 - std::exp((99 * std::log(1 - c) + std::log(1 + 99 * c)) / 100);
        CHECK(std::fabs(per(each(common)) - expected) < 1e-12);  // a hundred logarithms
        CHECK(gce(each(common)) == 1);                           // what it is without the root
    }
    CHECK(per(each(0)) == 0);
    CHECK(per({{1, 2}, {2, 4}}) == 1);
    CHECK(per({}) == 0);
}

TEST_CASE("directions of different length are refused") {
    CHECK_THROWS_AS(gce({{1, 2}, {1, 2, 3}}), ConfigError);
}

}  // namespace coherence_test
