// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/conv.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/pool.hpp>
#include <tessera/kernels/reference/conv.hpp>

#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace conv_test {

namespace {

using namespace tessera;
using namespace tessera::support;

struct Problem {
    kernels::ConvShape s;
    std::size_t batch, out;
};
// Planes around every register, kernels of 1 to 9, strides, margins; no image, one pixel, one channel.
const std::vector<Problem> problems{
    {{1, 1, 1, 1}, 1, 1},           {{1, 5, 5, 5}, 2, 3},           {{3, 6, 7, 3}, 3, 5},
    {{2, 9, 20, 2}, 2, 4},          {{1, 20, 19, 5}, 2, 20},        {{4, 12, 12, 5}, 3, 17},
    {{2, 8, 8, 3, 1, 1}, 2, 6},     {{3, 7, 9, 3, 2, 1}, 2, 8},     {{1, 28, 28, 5, 1, 2}, 1, 7},
    {{2, 11, 10, 4, 3, 0}, 3, 2},   {{2, 10, 11, 7, 2, 3}, 1, 9},   {{5, 6, 6, 1}, 4, 33},
    {{1, 12, 40, 9}, 1, 3},         {{16, 5, 5, 3, 1, 1}, 2, 16},   {{2, 4, 4, 3}, 0, 5},
    {{1, 3, 3, 3, 1, 4}, 2, 2},     {{1, 2, 34, 1, 1, 0}, 1, 1},    {{1, 9, 9, 2, 5, 0}, 2, 3}};

// Numbers that do not begin at a register's address, and what lies behind must not change.
template <class R>
struct Room {
    std::vector<R> all;
    std::size_t n;
    explicit Room(std::size_t size) : all(size + 20, R(7)), n(size) {
        for (std::size_t i = 0; i < n; ++i) all[i + 1] = std::numeric_limits<R>::quiet_NaN();
    }
    explicit Room(const std::vector<R>& from) : Room(from.size()) { std::copy(from.begin(), from.end(), data()); }
    R* data() { return all.data() + 1; }
    std::vector<R> numbers() const { return std::vector<R>(all.begin() + 1, all.begin() + 1 + std::ptrdiff_t(n)); }
    bool intact() const {
        bool same = all[0] == 7;
        for (std::size_t i = n + 1; i < all.size(); ++i) same = same && all[i] == 7;
        return same;
    }
};

// Each kernel against the plain loop in the wider type. Returns which one is wrong.
template <class R>
std::string wrong(const Problem& p, R tampered = 0) {
    using W = Wide<R>;
    const auto& s = p.s;
    const std::size_t images = p.batch * s.image(), planes = p.batch * p.out * s.pixels();
    const std::size_t weights = p.out * s.taps();
    const auto x = toy_numbers<R>(images, 1), w = toy_numbers<R>(weights + p.out, 2), dy = toy_numbers<R>(planes, 3);
    const auto wx = converted<W>(x), ww = converted<W>(w), wdy = converted<W>(dy);
    const auto ax = magnitudes(wx), aw = magnitudes(ww), ady = magnitudes(wdy);
    Room<R> in(x), at(w), slopes(dy), y(planes), dw(weights + p.out), dx(images);
    at.data()[0] += tampered;

    std::vector<W> exact(planes), terms(planes);
    kernels::conv<R>(in.data(), at.data(), at.data() + weights, y.data(), p.batch, s, p.out);
    kernels::reference::conv(wx.data(), ww.data(), ww.data() + weights, exact.data(), p.batch, s, p.out);
    kernels::reference::conv(ax.data(), aw.data(), aw.data() + weights, terms.data(), p.batch, s, p.out);
    if (!y.intact() || !within(y.numbers(), exact, terms, s.taps() + 1)) return "forward";

    exact.assign(weights + p.out, 0), terms = exact;
    kernels::conv_weight_gradient<R>(slopes.data(), in.data(), dw.data(), p.batch, s, p.out);
    kernels::reference::conv_weight_gradient(wdy.data(), wx.data(), exact.data(), p.batch, s, p.out);
    kernels::reference::conv_weight_gradient(ady.data(), ax.data(), terms.data(), p.batch, s, p.out);
    if (!dw.intact() || !within(dw.numbers(), exact, terms, p.batch * (s.pixels() + 1))) return "weight gradient";

    exact.assign(images, 0), terms = exact;
    kernels::conv_input_gradient<R>(slopes.data(), at.data(), dx.data(), p.batch, s, p.out);
    kernels::reference::conv_input_gradient(wdy.data(), ww.data(), exact.data(), p.batch, s, p.out);
    kernels::reference::conv_input_gradient(ady.data(), aw.data(), terms.data(), p.batch, s, p.out);
    if (!dx.intact() || !within(dx.numbers(), exact, terms, p.out + s.kernel * s.kernel)) return "input gradient";
    return "nothing";
}

struct Planes {
    std::size_t planes, height, width, kernel;
};
const std::vector<Planes> pools{{1, 2, 2, 2},   {3, 24, 24, 2}, {2, 8, 8, 2},   {1, 5, 7, 2},  {2, 12, 70, 2},
                                {4, 10, 10, 2}, {1, 9, 9, 3},   {2, 7, 11, 3},  {1, 3, 3, 1},  {1, 8, 130, 4},
                                {1, 6, 34, 2},  {0, 4, 4, 2},   {5, 2, 3, 2}};

template <class R>
std::string wrong_pool(const Planes& p, std::vector<R> x, R tampered = 0) {
    const std::size_t windows = p.planes * (p.height / p.kernel) * (p.width / p.kernel);
    const auto dy = toy_numbers<R>(windows, 5);
    std::vector<R> plain(windows), slopes(x.size());
    kernels::reference::max_pool(x.data(), plain.data(), p.planes, p.height, p.width, p.kernel);
    kernels::reference::max_pool_gradient(x.data(), dy.data(), slopes.data(), p.planes, p.height, p.width, p.kernel);
    if (windows > 0) plain[0] += tampered;
    const auto same = [](const std::vector<R>& a, const std::vector<R>& b) {
        for (std::size_t i = 0; i < a.size(); ++i)
            if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) return false;
        return a.size() == b.size();
    };
    Room<R> in(x), y(windows), dx(x.size()), from(dy);
    kernels::max_pool(in.data(), y.data(), p.planes, p.height, p.width, p.kernel);
    if (!y.intact() || !same(y.numbers(), plain)) return "pool";
    kernels::max_pool_gradient(in.data(), y.data(), from.data(), dx.data(), p.planes, p.height, p.width, p.kernel);
    if (!dx.intact() || !same(dx.numbers(), slopes)) return "gradient";
    return "nothing";
}

}  // namespace

TEST_CASE_TEMPLATE("convolutions of every kernel set agree with the plain loops", R, float, double) {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (std::size_t i = 0; i < problems.size(); ++i) {
            CAPTURE(i);
            CHECK(wrong<R>(problems[i]) == "nothing");
        }
        CHECK(wrong<R>(problems[2], R(1e-2)) == "forward");
        CHECK(wrong<R>(problems[14], R(1e-2)) == "nothing");  // no image to see it
    });
}

TEST_CASE_TEMPLATE("an image's numbers do not depend on the batch around it", R, float, double) {
    for_each_kernel_set([&](auto) {
        const kernels::ConvShape s{2, 9, 11, 3, 1, 1};
        const auto x = toy_numbers<R>(3 * s.image(), 1), w = toy_numbers<R>(4 * s.taps() + 4, 2);
        const std::size_t one = 4 * s.pixels();
        std::vector<R> all(3 * one), alone(one);
        kernels::conv(x.data(), w.data(), w.data() + 4 * s.taps(), all.data(), 3, s, 4);
        kernels::conv(x.data() + 2 * s.image(), w.data(), w.data() + 4 * s.taps(), alone.data(), 1, s, 4);
        CHECK(std::vector<R>(all.end() - std::ptrdiff_t(one), all.end()) == alone);
        CHECK(std::vector<R>(all.begin(), all.begin() + std::ptrdiff_t(one)) != alone);
    });
}

TEST_CASE_TEMPLATE("pools of every kernel set are those of the plain loops, ties and NaN too", R, float, double) {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (std::size_t i = 0; i < pools.size(); ++i) {
            CAPTURE(i);
            const auto& p = pools[i];
            auto x = toy_numbers<R>(p.planes * p.height * p.width, 4);
            CHECK(wrong_pool<R>(p, x) == "nothing");
            auto ties = x;
            for (R& v : ties) v = std::round(2 * v) / 2;  // as behind a ReLU: many are equal
            CHECK(wrong_pool<R>(p, ties) == "nothing");
            for (std::size_t j = 0; j < x.size(); j += 7) x[j] = std::numeric_limits<R>::quiet_NaN();
            CHECK(wrong_pool<R>(p, x) == "nothing");
        }
        CHECK(wrong_pool<R>(pools[1], toy_numbers<R>(3 * 24 * 24, 4), R(1)) == "pool");
    });
}

// Sums of numbers that are whole quarters are exact in any order.
TEST_CASE_TEMPLATE("sums of planes, and planes of one number", R, float, double) {
    for_each_kernel_set([&](auto set) {
        CAPTURE(set);
        for (const std::size_t planes : {0u, 1u, 3u, 16u, 37u})
            for (const std::size_t size : {1u, 4u, 16u, 31u, 49u, 64u, 130u}) {
                CAPTURE(planes);
                CAPTURE(size);
                std::vector<R> x = toy_numbers<R>(planes * size, 6), sums(planes);
                for (R& v : x) v = std::round(4 * v) / 4;
                for (std::size_t i = 0; i < planes * size; ++i) sums[i / size] += x[i];
                Room<R> got(planes), filled(planes * size);
                kernels::plane_sums(x.data(), got.data(), planes, size, R(0.5));
                CHECK(got.intact());
                for (std::size_t i = 0; i < planes; ++i) CHECK(got.numbers()[i] == R(0.5) * sums[i]);
                kernels::fill_planes(sums.data(), filled.data(), planes, size, R(0.25));
                CHECK(filled.intact());
                const auto all = filled.numbers();
                for (std::size_t i = 0; i < planes * size; ++i)
                    if (all[i] != R(0.25) * sums[i / size]) FAIL_CHECK("a plane has another number");
            }
    });
}

}  // namespace conv_test
