// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/layer.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/nn/activation.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/sequential.hpp>

#include <support/finite_differences.hpp>
#include <support/kernel_sets.hpp>
#include <support/toy_numbers.hpp>

namespace layers_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using namespace tessera::support;

template <class L>
constexpr std::size_t parameters = dimension(Layout(L::segments));

// A layer with its inputs: forward once, backward as often as wanted.
template <class L, class R = double>
class Pass {
public:
    Pass(L layer, Call call, std::vector<R> w, std::vector<R> x)
        : layer_(std::move(layer)), call_(call), w_(std::move(w)), x_(std::move(x)) {
        y_.assign(call.batch * L::width(call.in), std::numeric_limits<R>::quiet_NaN());
        notes_.assign(call.batch * L::notes(call.in), std::numeric_limits<R>::quiet_NaN());
        layer_.forward(call_, w_.data(), x_.data(), y_.data(), notes_.data());
    }
    const std::vector<R>& y() const { return y_; }
    std::vector<R> dx(const std::vector<R>& dy) const { return backward(dy, true, false).first; }
    std::vector<R> dw(const std::vector<R>& dy) const { return backward(dy, false, true).second; }
    std::pair<std::vector<R>, std::vector<R>> backward(const std::vector<R>& dy, bool want_dx = true,
                                                       bool want_dw = true) const {
        std::vector<R> dx(x_.size(), std::numeric_limits<R>::quiet_NaN()),
            dw(w_.size(), std::numeric_limits<R>::quiet_NaN());
        layer_.backward(call_, w_.data(), x_.data(), y_.data(), notes_.data(), dy.data(), want_dx ? dx.data() : nullptr,
                        want_dw ? dw.data() : nullptr);
        return {dx, dw};
    }

private:
    L layer_;
    Call call_;
    std::vector<R> w_, x_, y_, notes_;
};

double inner(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

// The worst error of both gradients of <dy, layer(x)>. `tampered` makes one of them wrong.
template <class L>
double gradient_error(const L& layer, const Call& call, double tampered = 0) {
    const auto w = toy_numbers<double>(parameters<L>, 1), x = toy_numbers<double>(call.batch * call.in, 2);
    const auto dy = toy_numbers<double>(call.batch * L::width(call.in), 3);
    auto [dx, dw] = Pass<L>(layer, call, w, x).backward(dy);
    if (!dx.empty()) dx.front() *= 1 + tampered;
    const auto by_input = [&](const std::vector<double>& at) { return inner(dy, Pass<L>(layer, call, w, at).y()); };
    const auto by_weight = [&](const std::vector<double>& at) { return inner(dy, Pass<L>(layer, call, at, x).y()); };
    return std::max(relative_error(dx, finite_differences(by_input, x)),
                    relative_error(dw, finite_differences(by_weight, w)));
}

constexpr double tolerance = 1e-6;  // see finite_differences.hpp: the differences themselves are good to about 1e-9

Call evaluation(std::size_t batch, std::size_t in) { return {.batch = batch, .in = in}; }
Call training(std::size_t batch, std::size_t in, std::uint64_t seed = 1) {
    return {.batch = batch, .in = in, .training = true, .draw = Key{seed}};
}

Dropout dropping(double rate) {
    Dropout d;
    d.rate = rate;
    return d;
}

using Block = Sequential<Linear<6, 5>, Relu, Dropout>;
using Nested = Sequential<Linear<4, 6>, LeakyRelu, Block, Linear<5, 3>>;

// A user's own layers, with what they have in common in a base.
struct Elementwise {
    static constexpr std::array<Segment, 0> segments{};
    static constexpr std::size_t width(std::size_t in) { return in; }
    static constexpr std::size_t notes(std::size_t) { return 0; }
    static constexpr double flops(std::size_t) { return 0; }
};
template <class R>
void multiply(const Call& call, double factor, const R* x, R* y) {
    for (std::size_t i = 0; y && i < call.batch * call.in; ++i) y[i] = static_cast<R>(factor) * x[i];
}
struct Doubling : Elementwise {
    template <class R>
    void forward(const Call& call, const R*, const R* x, R* y, R*) const {
        multiply(call, 2, x, y);
    }
    template <class R>
    void backward(const Call& call, const R*, const R*, const R*, const R*, const R* dy, R* dx, R*) const {
        multiply(call, 2, dy, dx);
    }
};
struct Amplifier : Elementwise {
    double gain = 3;
    template <class R>
    void forward(const Call& call, const R*, const R* x, R* y, R*) const {
        multiply(call, gain, x, y);
    }
    template <class R>
    void backward(const Call& call, const R*, const R*, const R*, const R*, const R* dy, R* dx, R*) const {
        multiply(call, gain, dy, dx);
    }
};
struct NoBackward {
    static constexpr std::array<Segment, 0> segments{};
    static constexpr std::size_t width(std::size_t in) { return in; }
    static constexpr std::size_t notes(std::size_t) { return 0; }
    static constexpr double flops(std::size_t) { return 0; }
    template <class R>
    void forward(const Call&, const R*, const R*, R*, R*) const {}
};
struct NoSegments : NoBackward {
    template <class R>
    void backward(const Call&, const R*, const R*, const R*, const R*, const R*, R*, R*) const {}
    static constexpr int segments = 0;
};

}  // namespace

TEST_CASE("layers are layers, near-misses are not") {
    static_assert(Layer<Linear<3, 2>, float> && Layer<Linear<3, 2>, double>);
    static_assert(Layer<Relu, float> && Layer<LeakyRelu, float> && Layer<Dropout, double>);
    static_assert(Layer<Nested, float> && Layer<Sequential<>, float>);
    static_assert(Layer<Doubling, double>);
    static_assert(!Layer<NoBackward, float>);
    static_assert(!Layer<NoSegments, float>);
    static_assert(!Layer<int, float>);
}

TEST_CASE("relu and leaky relu: worked by hand") {
    const std::vector<double> x{-2, 0, 3, -0.5}, dy{1, 2, 3, 4};
    const Pass<Relu> relu(Relu{}, evaluation(2, 2), {}, x);
    CHECK(relu.y() == std::vector<double>{0, 0, 3, 0});
    CHECK(relu.dx(dy) == std::vector<double>{0, 0, 3, 0});
    LeakyRelu leaky;
    CHECK(leaky.slope == 0.1);
    leaky.slope = 0.25;
    const Pass<LeakyRelu> pass(leaky, evaluation(2, 2), {}, x);
    CHECK(pass.y() == std::vector<double>{-0.5, 0, 3, -0.125});
    CHECK(pass.dx(dy) == std::vector<double>{0.25, 0.5, 3, 1});
}

TEST_CASE("linear: worked by hand") {
    // W = [1 0 2; -1 1 0], b = [10 20]
    const Pass<Linear<3, 2>> pass({}, evaluation(2, 3), {1, 0, 2, -1, 1, 0, 10, 20}, {1, 2, 3, -1, 0, 4});
    CHECK(pass.y() == std::vector<double>{17, 21, 17, 21});
    CHECK(pass.dx({1, 2, 3, -1}) == std::vector<double>{-1, 2, 2, 4, -1, 6});
    CHECK(pass.dw({1, 2, 3, -1}) == std::vector<double>{-2, 2, 15, 3, 4, 2, 4, 1});
}

TEST_CASE("gradients by differences: every layer, every kernel set") {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for (const std::size_t batch : {1u, 7u}) {
            CAPTURE(batch);
            CHECK(gradient_error(Linear<5, 3>{}, evaluation(batch, 5)) < tolerance);
            CHECK(gradient_error(Linear<33, 4>{}, evaluation(batch, 33)) < tolerance);
            CHECK(gradient_error(Linear<5, 3, backend::Reference>{}, evaluation(batch, 5)) < tolerance);
            CHECK(gradient_error(Relu{}, evaluation(batch, 6)) < tolerance);
            CHECK(gradient_error(LeakyRelu{}, evaluation(batch, 6)) < tolerance);
            CHECK(gradient_error(dropping(0.5), training(batch, 6)) < tolerance);
            CHECK(gradient_error(dropping(0.25), evaluation(batch, 6)) < tolerance);
            CHECK(gradient_error(Nested{}, evaluation(batch, 4)) < tolerance);
            CHECK(gradient_error(Nested{}, training(batch, 4)) < tolerance);
            CHECK(gradient_error(Sequential<Nested, Sequential<Relu>>{}, training(batch, 4)) < tolerance);
            CHECK(gradient_error(Sequential<>{}, training(batch, 4)) < tolerance);
            CHECK(gradient_error(Sequential<Doubling, Linear<4, 2>>{}, training(batch, 4)) < tolerance);
        }
    });
}

TEST_CASE("gradients by differences: an entry that is off by two in a million is noticed") {
    CHECK(gradient_error(Linear<5, 3>{}, evaluation(1, 5), 2e-6) > tolerance);
    CHECK(gradient_error(Nested{}, training(7, 4), 1e-3) > tolerance);
}

TEST_CASE("a gradient that is not wanted is not computed, and the other is the same") {
    const auto w = toy_numbers<double>(parameters<Nested>, 1), x = toy_numbers<double>(3 * 4, 2);
    const auto dy = toy_numbers<double>(3 * 3, 3);
    const Pass<Nested> pass({}, training(3, 4), w, x);
    const auto both = pass.backward(dy);
    CHECK(pass.dx(dy) == both.first);
    CHECK(pass.dw(dy) == both.second);
    CHECK(std::isnan(pass.backward(dy, false, true).first[0]));
    CHECK(std::isnan(pass.backward(dy, true, false).second[0]));
}

TEST_CASE("dropout: the identity in evaluation") {
    const auto x = toy_numbers<double>(100, 1), dy = toy_numbers<double>(100, 2);
    const Pass<Dropout> pass(dropping(0.5), evaluation(10, 10), {}, x);
    CHECK(pass.y() == x);
    CHECK(pass.dx(dy) == dy);
    CHECK(Pass<Dropout>(dropping(0), training(10, 10), {}, x).y() == x);
    CHECK(Pass<Dropout>(dropping(0.5), training(10, 10), {}, x).y() != x);
}

TEST_CASE("dropout: in training a number is dropped or scaled, as often as asked, and unbiased") {
    const std::size_t n = 40'000;
    const std::vector<double> ones(n, 1.0);
    for (const double rate : {0.25, 0.5, 0.9}) {
        CAPTURE(rate);
        const Pass<Dropout> pass(dropping(rate), training(n / 100, 100), {}, ones);
        std::size_t dropped = 0, other = 0;
        double sum = 0;
        for (const double y : pass.y()) {
            dropped += y == 0;
            other += y != 0 && y != 1 / (1 - rate);
            sum += y;
        }
        CHECK(other == 0);
        // Four standard errors of a binomial; the mean's is that divided by 1 - rate.
        const double error = 4 * std::sqrt(rate * (1 - rate) / static_cast<double>(n));
        CHECK(std::abs(static_cast<double>(dropped) / static_cast<double>(n) - rate) < error);
        CHECK(std::abs(sum / static_cast<double>(n) - 1) < error / (1 - rate));
        CHECK(pass.dx(ones) == pass.y());  // backward drops what forward dropped
    }
}

TEST_CASE("dropout: the draw decides, and each layer of a stack has its own") {
    const std::vector<double> ones(200, 1.0);
    const auto drop = [&](std::uint64_t seed) { return Pass<Dropout>({}, training(2, 100, seed), {}, ones).y(); };
    CHECK(drop(1) == drop(1));
    CHECK(drop(1) != drop(2));
    // Two of them in a row keep a quarter, not the half that equal draws would keep: 50 of 200, deviation 6.1.
    const auto twice = Pass<Sequential<Dropout, Dropout>>({}, training(2, 100), {}, ones).y();
    CHECK(std::abs(static_cast<double>(std::count(twice.begin(), twice.end(), 4.0)) - 50) < 25);
}

TEST_CASE("sequential: does what its layers do one after the other") {
    const auto w = toy_numbers<double>(parameters<Nested>, 1), x = toy_numbers<double>(2 * 4, 2);
    const auto step = [&](auto layer, std::size_t offset, const std::vector<double>& from) {
        using L = decltype(layer);
        const auto begin = w.begin() + static_cast<std::ptrdiff_t>(offset);
        const std::vector<double> own(begin, begin + static_cast<std::ptrdiff_t>(parameters<L>));
        return Pass<L>(layer, evaluation(2, from.size() / 2), own, from).y();
    };
    auto y = step(Linear<4, 6>{}, 0, x);
    y = step(LeakyRelu{}, 0, y);
    y = step(Linear<6, 5>{}, 30, y);
    y = step(Relu{}, 0, y);
    y = step(Linear<5, 3>{}, 65, y);
    CHECK(Pass<Nested>({}, evaluation(2, 4), w, x).y() == y);
}

// Under UndefinedBehaviorSanitizer (Clang's sees it) it fails where an offset is added to the null pointer.
TEST_CASE("sequential: a lone layer without notes takes a null pointer for them, and adds nothing to it") {
    using Lone = Sequential<Linear<2, 3>>;
    static_assert(Lone::notes(2) == 0);
    const std::vector<double> w{1, 2, 3, 4, 5, 6, 0.5, 0, 0}, x{1, -1, 2, 0};
    std::vector<double> y(6);
    const Call call{.batch = 2, .in = 2};
    Lone{}.forward(call, w.data(), x.data(), y.data(), static_cast<double*>(nullptr));
    CHECK(y == std::vector<double>{-0.5, -1, -1, 2.5, 6, 10});
}

TEST_CASE("sequential: without layers it is the identity") {
    const std::vector<double> x{1, 2, 3, 4};
    const Pass<Sequential<>> pass({}, evaluation(2, 2), {}, x);
    CHECK(pass.y() == x);
    CHECK(pass.dx({5, 6, 7, 8}) == std::vector<double>{5, 6, 7, 8});
    static_assert(Sequential<>::width(7) == 7 && Sequential<>::notes(7) == 0 && Sequential<>::flops(7) == 0);
}

TEST_CASE("sequential: keeps the settings of its layers") {
    const Sequential<Dropout, LeakyRelu> layers(dropping(0), [] {
        LeakyRelu leaky;
        leaky.slope = 0.5;
        return leaky;
    }());
    CHECK(Pass<Sequential<Dropout, LeakyRelu>>(layers, training(1, 2), {}, {-2, 2}).y() == std::vector<double>{-1, 2});
}

TEST_CASE("sequential: default settings survive in any company") {
    // GCC 12 zeroes them when layers with the same empty base are value-initialised together.
    CHECK(Pass<Sequential<Doubling, Amplifier>>({}, evaluation(1, 1), {}, {2}).y() == std::vector<double>{12});
    CHECK(Pass<Sequential<Doubling, Relu, Amplifier>>({}, evaluation(1, 1), {}, {2}).y() == std::vector<double>{12});
    const Sequential<Sequential<Doubling, Amplifier>, Doubling, Amplifier> nested, copy = nested;
    CHECK(Pass(copy, evaluation(1, 1), {}, std::vector<double>{2}).y() == std::vector<double>{72});
    const auto y = Pass<Sequential<Relu, Dropout, Relu>>({}, training(1, 100), {}, std::vector<double>(100, 1.0)).y();
    CHECK(std::count(y.begin(), y.end(), 0.0) + std::count(y.begin(), y.end(), 2.0) == 100);
    CHECK(std::abs(static_cast<double>(std::count(y.begin(), y.end(), 0.0)) - 50) < 20);  // deviation 5
}

TEST_CASE("sequential: widths, notes and operations add up") {
    static_assert(Nested::width(4) == 3);
    static_assert(Nested::width(5) == 0);  // does not fit
    static_assert(Sequential<Linear<4, 6>, Linear<5, 3>>::width(4) == 0);
    // Outputs of all but the last: 6 + 6 + 5; the block's own: 5 + 5 between its layers and 5 factors.
    static_assert(Nested::notes(4) == 6 + 6 + 5 + (5 + 5 + 5));
    static_assert(Linear<3, 2>::flops(3) == 2 * 6 + 2);
    static_assert(Nested::flops(4) == (2 * 24 + 6) + (2 * 30 + 5) + (2 * 15 + 3));
}

TEST_CASE("sequential: segments follow each other and are named by their place") {
    constexpr auto s = Nested::segments;
    static_assert(s.size() == 6);
    const std::vector<std::string> names{"0.weight", "0.bias", "2.0.weight", "2.0.bias", "3.weight", "3.bias"};
    const std::vector<std::size_t> offsets{0, 24, 30, 60, 65, 80};
    for (std::size_t i = 0; i < s.size(); ++i) {
        CHECK(s[i].name.view() == names[i]);
        CHECK(s[i].offset == offsets[i]);
    }
    CHECK(s[2].shape[0] == 5);
    CHECK(s[2].shape[1] == 6);
    CHECK(s[2].rank == 2);
    CHECK(s[2].fan_in == 6);
    CHECK(s[3].fan_in == 6);
    static_assert(parameters<Nested> == 30 + 35 + 18);

    using L = Linear<1, 1>;
    constexpr auto many = Sequential<L, L, L, L, L, L, L, L, L, L, L, L>::segments;
    CHECK(many[18].name.view() == "9.weight");
    CHECK(many[20].name.view() == "10.weight");
    CHECK(many[23].name.view() == "11.bias");
}

}  // namespace layers_test
