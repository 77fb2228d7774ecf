// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/prox.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <tessera/divergence/bernoulli.hpp>
#include <tessera/divergence/exponential.hpp>
#include <tessera/divergence/gaussian.hpp>
#include <tessera/divergence/poisson.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/sgd.hpp>

#include <support/bits.hpp>
#include <support/finite_differences.hpp>
#include <support/toy_data.hpp>
#include <support/toy_numbers.hpp>

namespace prox_test {

using namespace tessera;
using support::Toy;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes, double>;
static_assert(Model<nn::Prox<Net, divergence::Poisson>>);

Vec<double> inside(std::uint64_t seed) {  // of all the domains
    Vec<double> x;
    for (const double v : support::toy_numbers<double>(Net::parameters, seed)) x.push_back(0.5 + 0.4 * v);
    return x;
}
}  // namespace

TEST_CASE("the objective is f + lambda D, and its gradient is the slope of that") {
    const auto data = support::toy_data();
    const auto share = data[0];
    const Batch<double> b(*share.examples, share.train);
    const Net net;
    const auto x = inside(1), mu = inside(2);
    const auto check = [&](const auto& divergence) {
        const nn::Prox objective(net, divergence, In<double>(mu), 3);
        Vec<double> gradient(x.size()), plain(x.size());
        const double loss = objective.gradient(x, b, gradient);
        CHECK(std::fabs(loss - net.gradient(x, b, plain) - 3 * bregman(divergence, x, mu)) < 1e-12);
        const auto value = [&](const std::vector<double>& at) {
            Vec<double> unused(at.size());
            return objective.gradient(at, b, unused);
        };
        const std::vector<double> at(x.begin(), x.end());
        const auto slope = support::finite_differences(value, at);
        CHECK(support::relative_error({gradient.begin(), gradient.end()}, slope) < 1e-6);
        CHECK(support::relative_error({plain.begin(), plain.end()}, slope) > 1e-2);  // the pull is seen
        objective.gradient(mu, b, gradient);
        net.gradient(mu, b, plain);
        CHECK(support::same_bits(gradient, plain));  // at mu there is no pull
    };
    check(divergence::Gaussian{});
    check(divergence::DiagonalGaussian{Vec<double>(Net::parameters, 0.2)});
    check(divergence::Bernoulli{});
    check(divergence::Poisson{});
    check(divergence::Exponential{});
}

TEST_CASE("layout, outputs and predictions are the model's own") {
    const auto data = support::toy_data();
    const auto share = data[0];
    const Batch<double> b(*share.examples, share.test);
    const Net net;
    const auto x = inside(1), mu = inside(2);
    const divergence::Poisson poisson;
    const nn::Prox objective(net, poisson, In<double>(mu), 3);
    CHECK(objective.outputs() == net.outputs());
    CHECK(dimension(objective) == Net::parameters);
    Vec<double> got(share.test.size() * Toy::classes), expected(got.size());
    objective.predict(x, b, got);
    net.predict(x, b, expected);
    CHECK(support::same_bits(got, expected));
}

TEST_CASE("descent toward mu: as a term of the step where D is Euclidean, the same numbers as an objective") {
    const auto data = support::toy_data();
    const auto share = data[0];
    const Net net;
    Workspace<double> workspace;
    const Site<Net> at{.model = &net, .examples = share.examples, .ids = share.train, .workspace = &workspace};
    const auto b = at.everything();
    const auto mu = inside(2);
    const rule::Sgd rule{.rate = 0.02};
    const auto end = [&](const auto& divergence, std::size_t steps, double lambda) {
        auto x = inside(1);
        nn::descend_prox(at, x, b, steps, rule, divergence, mu, lambda);
        return x;
    };
    const divergence::DiagonalGaussian ones{Vec<double>(Net::parameters, 1)};
    // The same terms added in another order: 1e-13 relative.
    CHECK(support::distance(end(divergence::Gaussian{}, 5, 10), end(ones, 5, 10)) < 1e-13);
    CHECK(support::distance(end(divergence::Gaussian{}, 5, 10), end(ones, 5, 9)) > 1e-3);
    CHECK(support::same_bits(end(divergence::Poisson{}, 0, 10), inside(1)));
    CHECK(workspace.tally.steps == 20);
    // The stronger the pull, the nearer to mu. (A step of 0.02 * 4 / 0.1 is still below 2, where it would overshoot.)
    const auto away = [&](double lambda) { return support::distance(end(divergence::Poisson{}, 200, lambda), mu); };
    CHECK(away(4) < away(1));
    CHECK(away(1) < away(0));
    CHECK(away(4) > 0);
}

}  // namespace prox_test
