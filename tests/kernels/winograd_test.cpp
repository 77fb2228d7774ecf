// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/conv_winograd.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/reference/conv.hpp>

#include <support/backwards_crew.hpp>
#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace winograd_test {

namespace {

using namespace tessera;
using namespace tessera::support;

struct Problem {
    std::size_t channels, height, width, batch, out;

    kernels::ConvShape shape() const { return {channels, height, width, 3, 1, 1}; }
    std::size_t weights() const { return out * channels * 9; }
    std::size_t images() const { return batch * channels * height * width; }
    std::size_t planes() const { return batch * out * height * width; }
};
// Channels and outputs around every register, panel and chunk; planes that tiles end with and that they do not, in
// one piece and in several blocks; few tiles beside many outputs, and the other way; no image.
const std::vector<Problem> problems{{16, 8, 8, 2, 16}, {1, 4, 4, 1, 1},     {3, 5, 7, 2, 5},      {17, 6, 9, 3, 31},
                                    {64, 4, 4, 3, 64}, {65, 3, 2, 2, 70},   {32, 2, 2, 5, 48},    {20, 1, 1, 2, 33},
                                    {8, 33, 18, 1, 8}, {16, 12, 40, 2, 24}, {130, 4, 4, 2, 33},   {16, 4, 4, 0, 16},
                                    {33, 8, 4, 4, 97}, {4, 7, 260, 1, 3},   {40, 4, 4, 140, 160}, {16, 16, 16, 9, 16}};

struct Numbers {
    std::vector<float> y, dw, dx;
    bool operator==(const Numbers&) const = default;
};
struct Given {
    std::vector<float> x, w, dy;
    explicit Given(const Problem& p)
        : x(toy_numbers<float>(p.images(), 1)),
          w(toy_numbers<float>(p.weights() + p.out, 2)),
          dy(toy_numbers<float>(p.planes(), 3)) {}
};

// Rooms with a guard behind them.
struct Guarded {
    std::vector<float> all;
    explicit Guarded(std::size_t n) : all(n + 17, std::numeric_limits<float>::quiet_NaN()) {
        for (std::size_t i = n; i < all.size(); ++i) all[i] = 7;
    }
    std::vector<float> numbers() const {
        for (std::size_t i = all.size() - 17; i < all.size(); ++i) REQUIRE(all[i] == 7);
        return std::vector<float>(all.begin(), all.end() - 17);
    }
};
Numbers tiled(const Problem& p, const Given& g) {
    Guarded y(p.planes()), dw(p.weights() + p.out), dx(p.images());
    const float* bias = g.w.data() + p.weights();
    kernels::winograd_conv(g.x.data(), g.w.data(), bias, y.all.data(), p.batch, p.shape(), p.out);
    kernels::winograd_weight_gradient(g.dy.data(), g.x.data(), dw.all.data(), dw.all.data() + p.weights(), p.batch,
                                      p.shape(), p.out);
    kernels::winograd_input_gradient(g.dy.data(), g.w.data(), dx.all.data(), p.batch, p.shape(), p.out);
    return {y.numbers(), dw.numbers(), dx.numbers()};
}
// The plain loops, in R.
template <class R>
struct Plain {
    std::vector<R> y, dw, dx;
    Plain(const Problem& p, const Given& g) : y(p.planes()), dw(p.weights() + p.out), dx(p.images()) {
        const auto x = converted<R>(g.x), w = converted<R>(g.w), dy = converted<R>(g.dy);
        kernels::reference::conv(x.data(), w.data(), w.data() + p.weights(), y.data(), p.batch, p.shape(), p.out);
        kernels::reference::conv_weight_gradient(dy.data(), x.data(), dw.data(), p.batch, p.shape(), p.out);
        kernels::reference::conv_input_gradient(dy.data(), w.data(), dx.data(), p.batch, p.shape(), p.out);
    }
};
using Exact = Plain<double>;
// The largest error over the root of the mean square of what is right.
double error(const std::vector<float>& got, const std::vector<double>& exact) {
    double largest = 0, squares = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        const double e = std::abs(static_cast<double>(got[i]) - exact[i]);
        if (!(e <= std::numeric_limits<float>::max())) return e;
        largest = std::max(largest, e);
        squares += exact[i] * exact[i];
    }
    return largest > 0 ? largest / std::sqrt(squares / static_cast<double>(exact.size())) : 0;
}
// Sums of n terms in some order and one transform in, one out, whose steps are below 20 roundings of numbers at most
// 10 times as large as their sum: a bound that a wrong tap, tile or margin is far beyond.
double bound(std::size_t terms) { return 0.5e-6 * (20 + std::sqrt(static_cast<double>(terms))); }

std::string wrong(const Problem& p, const Numbers& got, const Exact& exact) {
    const auto far = [&](const auto& a, const auto& b, std::size_t terms) { return !(error(a, b) <= bound(terms)); };
    if (far(got.y, exact.y, 9 * p.channels)) return "forward";
    if (far(got.dw, exact.dw, p.batch * p.height * p.width)) return "weight gradient";
    if (far(got.dx, exact.dx, 9 * p.out)) return "input gradient";
    return "nothing";
}

}  // namespace

TEST_CASE("tiles of every kernel set agree with the plain loops") {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (std::size_t i = 0; i < problems.size(); ++i) {
            CAPTURE(i);
            const Given g(problems[i]);
            CHECK(wrong(problems[i], tiled(problems[i], g), Exact(problems[i], g)) == "nothing");
        }
        Given g(problems[3]);
        const Exact exact(problems[3], g);
        g.w[40] += 1e-2f;
        CHECK(wrong(problems[3], tiled(problems[3], g), exact) == "forward");
        g = Given(problems[3]);
        g.dy.back() += 1e-2f;
        CHECK(wrong(problems[3], tiled(problems[3], g), exact) == "weight gradient");
    });
}

// Tap by tap, as most libraries do. (Our own direct kernel adds blocks of 128 and is 2 to 4 times finer; and the slope
// of a weight that is a sum of 64 terms or fewer may have 3 times the error.)
TEST_CASE("the largest error is at most twice that of direct sums in float") {
    for (const Problem& p : {Problem{64, 16, 16, 2, 64}, Problem{128, 8, 8, 2, 128}, Problem{256, 8, 8, 6, 24}}) {
        const Given g(p);
        const Exact exact(p, g);
        const Plain<float> direct(p, g);
        CAPTURE(p.channels);
        for_each_kernel_set([&](auto set) {
            CAPTURE(set);
            const Numbers got = tiled(p, g);
            CHECK(error(got.y, exact.y) <= 2 * error(direct.y, exact.y));
            CHECK(error(got.dx, exact.dx) <= 2 * error(direct.dx, exact.dx));
            CHECK(error(got.dw, exact.dw) <= 2 * error(direct.dw, exact.dw));
            CHECK(error(got.y, exact.y) > 0);
        });
    }
}

TEST_CASE("an image's numbers do not depend on the batch around it, nor any on the crew") {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (const Problem& p : {Problem{24, 9, 12, 9, 40}, Problem{70, 4, 4, 8, 130}, Problem{16, 4, 4, 150, 160}}) {
            const Given g(p);
            const Numbers all = tiled(p, g);
            Problem one = p;
            one.batch = 1;
            Given last = g;
            last.x.erase(last.x.begin(), last.x.end() - static_cast<std::ptrdiff_t>(one.images()));
            last.dy.erase(last.dy.begin(), last.dy.end() - static_cast<std::ptrdiff_t>(one.planes()));
            const Numbers alone = tiled(one, last);
            const auto ends = [](const std::vector<float>& a, const std::vector<float>& b) {
                return std::equal(b.begin(), b.end(), a.end() - static_cast<std::ptrdiff_t>(b.size()));
            };
            CHECK(ends(all.y, alone.y));
            CHECK(ends(all.dx, alone.dx));
            CHECK_FALSE(std::equal(alone.y.begin(), alone.y.end(), all.y.begin()));
            BackwardsCrew two(2), lazy(2, true);
            const Crew::Use helped(&two);
            CHECK(tiled(p, g) == all);
            CHECK(two.pieces > 0);
            const Crew::Use forgetful(&lazy);
            CHECK_FALSE(tiled(p, g) == all);
        }
    });
}

}  // namespace winograd_test
