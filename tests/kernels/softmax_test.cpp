// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/softmax.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/softmax.hpp>

#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace softmax_test {

namespace {

using namespace tessera;
using namespace tessera::support;

// exp(x - 0) of each number, by way of rows (0, x): the largest entry of a row is 0.
template <class R>
std::vector<R> exponentials(const std::vector<R>& x) {
    std::vector<R> z(2 * x.size()), top(x.size()), sum(x.size()), out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) z[2 * i + 1] = x[i];
    kernels::softmax_rows(z.data(), x.size(), 2, top.data(), sum.data(), nullptr);
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = z[2 * i + 1];
    return out;
}

double worst_ulps(const std::vector<float>& x, const std::vector<float>& got) {
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = std::exp(static_cast<double>(x[i]));
        const auto near = static_cast<float>(exact);
        const double ulp = static_cast<double>(std::nextafter(near, 2 * near)) - static_cast<double>(near);
        worst = std::max(worst, std::abs(static_cast<double>(got[i]) - exact) / ulp);
    }
    return worst;
}

}  // namespace

TEST_CASE("softmax: the float exponential is within 2 ulp from -87 to 0, and 0 below") {
    std::vector<float> x;
    for (int i = 0; i <= 870'000; ++i) x.push_back(-static_cast<float>(i) * 1e-4f);
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        const auto got = exponentials(x);
        CHECK(got[0] == 1.0f);
        CHECK(worst_ulps(x, got) <= 2);
        for (const float v :
             exponentials<float>({-87.01f, -88, -104, -1e4f, -1e30f, -std::numeric_limits<float>::infinity()}))
            CHECK(v == 0.0f);
        auto off = got;
        off[4321] *= 1.000001f;
        CHECK(worst_ulps(x, off) > 2);
    });
}

TEST_CASE_TEMPLATE("softmax: rows of any length agree with the plain loop", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t rows : {0u, 1u, 2u, 3u, 20u})
            for (const std::size_t classes : {1u, 2u, 3u, 7u, 8u, 9u, 10u, 15u, 16u, 17u, 33u, 62u, 256u, 1003u}) {
                CAPTURE(classes);
                auto z = toy_numbers<R>(rows * classes, 1);
                for (R& v : z) v *= 30;
                auto exact = converted<Wide<R>>(z);
                std::vector<R> top(rows), sum(rows);
                std::vector<Wide<R>> exact_top(rows), exact_sum(rows);
                kernels::softmax_rows(z.data(), rows, classes, top.data(), sum.data(), nullptr);
                kernels::reference::softmax_rows(exact.data(), rows, classes, exact_top.data(), exact_sum.data());
                // The argument is at most 60 in size and rounded once, which moves its exponential by 60 roundings;
                // the exponential itself has 2 ulp, or 4 roundings.
                CHECK(within(z, exact, exact, 64));
                CHECK(within(sum, exact_sum, exact_sum, 64 + classes));
                CHECK(converted<Wide<R>>(top) == exact_top);
            }
    });
}

TEST_CASE_TEMPLATE("softmax: a row's bits do not depend on its place", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        const auto z = toy_numbers<R>(13 * 7, 1);
        auto together = z;
        std::vector<R> top(13), sum(13);
        kernels::softmax_rows(together.data(), 13, 7, top.data(), sum.data(), nullptr);
        for (std::size_t i = 0; i < 13; ++i) {
            std::vector<R> alone(z.begin() + static_cast<std::ptrdiff_t>(7 * i),
                                 z.begin() + static_cast<std::ptrdiff_t>(7 * i + 7));
            R own_top = 0, own_sum = 0;
            kernels::softmax_rows(alone.data(), 1, 7, &own_top, &own_sum, nullptr);
            CHECK(own_sum == sum[i]);
            CHECK(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<std::ptrdiff_t>(7 * i)));
        }
    });
}

TEST_CASE_TEMPLATE("softmax: a NaN among the outputs is not hidden", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        std::vector<R> z{1, std::numeric_limits<R>::quiet_NaN(), 0, 2}, top(1), sum(1);
        kernels::softmax_rows(z.data(), 1, 4, top.data(), sum.data(), nullptr);
        CHECK(std::isnan(sum[0]));
    });
}

TEST_CASE_TEMPLATE("leaky relu: forward and backward are the plain loop's, bit for bit", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t n : {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 65u})
            for (const R slope : {R(0), R(0.1), R(1)}) {
                auto x = toy_numbers<R>(n + 1, 1);
                const auto dy = toy_numbers<R>(n + 1, 2);
                if (n > 2) x[1] = 0, x[2] = -std::numeric_limits<R>::infinity();
                std::vector<R> y(n), y2(n), dx(n), dx2(n);
                kernels::leaky_relu(x.data() + 1, y.data(), n, slope);
                kernels::reference::leaky_relu(x.data() + 1, y2.data(), n, slope);
                kernels::leaky_relu_gradient(x.data() + 1, dy.data() + 1, dx.data(), n, slope);
                kernels::reference::leaky_relu_gradient(x.data() + 1, dy.data() + 1, dx2.data(), n, slope);
                CHECK(y == y2);
                CHECK(dx == dx2);
                if (n > 8 && slope != 1) CHECK(y != std::vector<R>(x.begin() + 1, x.end()));
            }
    });
}

}  // namespace softmax_test
