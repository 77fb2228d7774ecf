// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/prox.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <tessera/divergence/bernoulli.hpp>
#include <tessera/divergence/exponential.hpp>
#include <tessera/divergence/gaussian.hpp>
#include <tessera/divergence/poisson.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/sgd.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/kernel_sets.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace prox_test {

using namespace tessera;
using support::Toy;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes, double>;

Vec<double> inside(std::uint64_t seed) {  // of all the domains
    Vec<double> x;
    for (const double v : support::toy_numbers<double>(Net::parameters, seed)) x.push_back(0.5 + 0.4 * v);
    return x;
}
// Changes the examples after every step.
struct Spoiling : divergence::Gaussian {
    std::vector<std::uint8_t>& bytes;
    template <class R>
    void project(Out<R>) const {
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(byte + 1);
    }
};
}  // namespace

TEST_CASE("a step goes down the slope of f + lambda D") {
    const auto data = support::toy_data();
    const auto share = data[0];
    const Net net;
    Workspace<double> workspace;
    const Context<Net> at{.model = &net, .examples = share.examples, .ids = share.train, .workspace = &workspace};
    const auto b = at.everything();
    const auto mu = inside(2);
    const auto check = [&](const auto& divergence) {
        // The move of one step over its rate, short enough not to leave the domain.
        const auto direction = [&](const Vec<double>& from) {
            constexpr double rate = 1e-4;
            auto x = from;
            nn::descend_prox(at, x, b, 1, rule::Sgd{.rate = rate}, divergence, mu, 3);
            std::vector<double> d;
            for (std::size_t j = 0; j < x.size(); ++j) d.push_back((from[j] - x[j]) / rate);
            return d;
        };
        const auto value = [&](const std::vector<double>& x) {
            Vec<double> unused(x.size());
            return net.gradient(x, b, unused) + 3 * bregman(divergence, Vec<double>(x.begin(), x.end()), mu);
        };
        const auto x = inside(1);
        const auto slope = support::finite_differences(value, {x.begin(), x.end()});
        Vec<double> plain(x.size());
        CHECK(support::relative_error(direction(x), slope) < 1e-6);
        net.gradient(x, b, plain);
        CHECK(support::relative_error({plain.begin(), plain.end()}, slope) > 1e-2);  // the pull is seen
        net.gradient(mu, b, plain);  // at mu there is no pull; 1e-9: the difference of two numbers near 1, over 1e-4
        CHECK(support::relative_error({plain.begin(), plain.end()}, direction(mu)) < 1e-9);
    };
    check(divergence::Gaussian{});
    check(divergence::DiagonalGaussian{Vec<double>(Net::parameters, 0.2)});
    check(divergence::Bernoulli{});
    check(divergence::Poisson{});
    check(divergence::Exponential{});
}

TEST_CASE("descent toward mu: where D is Euclidean the general geometry gives the same numbers") {
    const auto data = support::toy_data();
    const auto share = data[0];
    const Net net;
    Workspace<double> workspace;
    const Context<Net> at{.model = &net, .examples = share.examples, .ids = share.train, .workspace = &workspace};
    const auto b = at.everything();
    const auto mu = inside(2);
    const auto end = [&](const auto& divergence, std::size_t steps, double lambda, double clip = 0) {
        auto x = inside(1);
        nn::descend_prox(at, x, b, steps, rule::Sgd{.rate = 0.02, .clip = clip}, divergence, mu, lambda);
        return x;
    };
    const divergence::DiagonalGaussian ones{Vec<double>(Net::parameters, 1)};
    // The same terms added in another order: 1e-13 relative.
    CHECK(support::distance(end(divergence::Gaussian{}, 5, 10), end(ones, 5, 10)) < 1e-13);
    CHECK(support::distance(end(divergence::Gaussian{}, 5, 10), end(ones, 5, 9)) > 1e-3);
    CHECK(support::same_bits(end(divergence::Poisson{}, 0, 10), inside(1)));
    CHECK(workspace.tally.steps == 20);
    for (const double clip : {0.5, 0.1}) {  // the gradient of f is cut and the pull is not
        CHECK(support::distance(end(divergence::Gaussian{}, 5, 10, clip), end(ones, 5, 10, clip)) < 1e-13);
        CHECK(support::distance(end(ones, 5, 10), end(ones, 5, 10, clip)) > 1e-3);
    }
    CHECK(support::distance(end(ones, 200, 10, 1e-9), mu) < 1e-7);  // without a gradient left the pull has its way
    // The stronger the pull, the nearer to mu. (A step of 0.02 * 4 / 0.1 is still below 2, where it would overshoot.)
    const auto away = [&](double lambda) { return support::distance(end(divergence::Poisson{}, 200, lambda), mu); };
    CHECK(away(4) < away(1));
    CHECK(away(1) < away(0));
    CHECK(away(4) > 0);
}

TEST_CASE_TEMPLATE("five steps on a batch of bytes are five times one step, bit for bit", R, float, double) {
    constexpr std::size_t width = 48, examples = 9;  // three cache lines of floats: rows are read in place
    using Bytes = nn::Mclr<width, Toy::classes, R>;
    std::vector<std::uint8_t> pixels;
    std::vector<std::int32_t> labels;
    std::vector<Index> ids;
    for (std::size_t i = 0; i < examples; ++i) {
        labels.push_back(static_cast<std::int32_t>(i % Toy::classes));
        ids.push_back(static_cast<Index>((5 * i + 3) % examples));
        for (std::size_t j = 0; j < width; ++j) pixels.push_back(static_cast<std::uint8_t>(i * 31 + j * 7));
    }
    const Examples stored{.size = examples, .width = width, .storage = Storage::bytes, .rows = pixels.data(),
                          .shift = 72.97f, .scale = 1 / 90.0f, .labels = labels.data(), .classes = Toy::classes};
    const Bytes net;
    Workspace<R> workspace;
    const Context<Bytes> at{.model = &net, .examples = &stored, .ids = ids, .workspace = &workspace};
    const auto b = at.everything();
    const auto start = support::toy_numbers<R>(Bytes::parameters, 1);
    const auto center = support::toy_numbers<R>(Bytes::parameters, 2);
    const Vec<R> mu(center.begin(), center.end());
    const auto end = [&](std::size_t calls, std::size_t steps) {
        Vec<R> x(start.begin(), start.end());
        for (std::size_t i = 0; i < calls; ++i)
            nn::descend_prox(at, x, b, steps, rule::Sgd{.rate = 0.02}, divergence::Gaussian{}, mu, 2);
        return x;
    };
    support::for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        CHECK(support::same_bits(end(1, 5), end(5, 1)));
        CHECK_FALSE(support::same_bits(end(1, 4), end(5, 1)));

        // Bytes that change after the first step are seen by those who read them again: tiles, and single steps.
        const auto bytes = pixels;
        const auto spoilt = [&](std::size_t calls, std::size_t steps) {
            Vec<R> x(start.begin(), start.end());
            for (std::size_t i = 0; i < calls; ++i)
                nn::descend_prox(at, x, b, steps, rule::Sgd{.rate = 0.02}, Spoiling{{}, pixels}, mu, 2);
            pixels = bytes;
            return x;
        };
        CHECK(support::same_bits(spoilt(1, 5), end(1, 5)) == (set != "amx"));
        CHECK_FALSE(support::same_bits(spoilt(5, 1), end(5, 1)));
    });
}

}  // namespace prox_test
