// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/per_fedavg.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/core/denormals.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/rule/adam.hpp>
#include <tessera/rule/sam.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>
#include <support/unfused.hpp>

namespace per_fedavg_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
using Bare = support::Unfused<Net>;
constexpr Settings usual{.seed = 3, .batch = 5};
using QuadraticRun = Federation<PerFedAvg<>, support::Quadratic<>>;

double one_step(PerFedAvg<> method, double from = 0) {
    method.steps = 1;
    QuadraticRun run{{}, support::quadratic_data({{{2, 1}}}), method, {.batch = 0}, Vec<double>{from}};
    run.round(sample::Everyone{});
    return run.server().w[0];
}
}  // namespace

TEST_CASE("V-BRED-3 first order: look-ahead 0.2, new w 0.16") {
    CHECK(std::fabs(one_step({.local = {.rate = 0.1}, .alpha = 0.1}) - 0.16) < 1e-15);
    CHECK(std::fabs(one_step({.local = {.rate = 0.1}, .alpha = 0.2}) - 0.16) > 1e-2);
}

TEST_CASE("Hessian-free: on a quadratic the exact gradient of f(w - alpha grad f(w))") {
    // (1 - alpha a) g(ahead) = 0.8 * -1.6; differences are exact on a quadratic up to rounding over delta.
    const PerFedAvg<> exact{.local = {.rate = 0.1}, .alpha = 0.1, .meta_gradient = MetaGradient::hessian_free};
    CHECK(std::fabs(one_step(exact) - 0.128) < 1e-12);
    auto other = exact;
    other.delta = 0.5;
    CHECK(std::fabs(one_step(other) - 0.128) < 1e-12);
    CHECK(std::fabs(one_step({.local = {.rate = 0.1}, .alpha = 0.1}) - 0.128) > 1e-2);
}

TEST_CASE("L-BASE-3 alpha = 0 is FedAvg with steps of its rule on every second batch") {
    const support::PortableKernels without_fma;  // a loop written by hand then rounds as the kernels do
    const auto same = [](double alpha, std::size_t which) {
        const PerFedAvg<> method{.local = {.rate = 0.1}, .alpha = alpha, .steps = 4};
        Federation<PerFedAvg<>, Bare> run{{}, toy_data({.clients = 1}), method, usual};
        Vec<float> w = run.setup().initial, g(w.size());
        Cursor cursor;
        for (int r = 0; r < 3; ++r) {
            run.round(sample::Everyone{});
            const FlushDenormals flush;
            Workspace<float> workspace;
            const auto at = run.setup().context(run.data()[0], 0, static_cast<std::size_t>(r), workspace);
            const auto batches = at.stream(cursor, 8);
            for (std::size_t i = which; i < 8; i += 2) {
                at.gradient(w, batches[i], g);
                for (std::size_t j = 0; j < w.size(); ++j) w[j] -= 0.1F * g[j];
            }
            if (!same_bits(run.server().w, w)) return false;
        }
        return true;
    };
    CHECK(same(0, 1));
    CHECK_FALSE(same(0, 0));
    CHECK_FALSE(same(0.01, 1));
}

TEST_CASE("the step of the meta-gradient is any rule's") {
    // w = 0, f = (w - 1)^2: ahead 0.2, slope -1.6; momentum 1/2 in the second step, Adam's first step is its rate.
    const auto after = [](const auto& method) {
        Federation<std::remove_cvref_t<decltype(method)>, support::Quadratic<>> run{
            {}, support::quadratic_data({{{2, 1}}}), method, {.batch = 0}, Vec<double>{0}};
        run.round(sample::Everyone{});
        return run.server().w[0];
    };
    const double first = 0.16, second = first - 0.1 * (0.5 * -1.6 + 2 * (first - 0.1 * 2 * (first - 1) - 1));
    CHECK(after(PerFedAvg<>{.local = {.rate = 0.1, .momentum = 0.5}, .alpha = 0.1, .steps = 2}) ==
          doctest::Approx(second));
    CHECK(after(PerFedAvg<fold::Mean, rule::Adam>{.local = {.rate = 0.1}, .alpha = 0.1, .steps = 1}) ==
          doctest::Approx(0.1));
    // Radius 0.5 up the meta-gradient from 0: the slope at -0.5, which is 2 (0.8 (-0.5 - 1)) = -2.4.
    CHECK(after(PerFedAvg<fold::Mean, rule::Sam<>>{
              .local = {.base = {.rate = 0.1}, .radius = 0.5}, .alpha = 0.1, .steps = 1}) == doctest::Approx(0.24));
}

TEST_CASE("served by both: one step of alpha, then one of the rule") {
    QuadraticRun run{{}, support::quadratic_data({{{2, 1}}}),
                     {.local = {.rate = 0.05}, .alpha = 0.1, .tune_steps = 7, .by_both = true}, {.batch = 0}, Vec<double>{0}};
    Workspace<double> workspace;
    const double one = 0.2, both = one - 0.05 * 2 * (one - 1);
    run.at_client(0, workspace, [&](const auto& client, auto received, auto& space) {
        CHECK(client.serve(std::move(received), 0, space).parameters[0] == doctest::Approx(both));
    });
}

TEST_CASE("L-GEN-3 one full-batch step with alpha = 0 is FedAvg") {
    // The same examples in another order: a few roundings of float a round.
    const auto gap = [](double alpha) {
        const Settings full{.seed = 3, .batch = 0};
        Federation<PerFedAvg<>, Bare> per{{}, toy_data(), {.local = {.rate = 0.1}, .alpha = alpha, .steps = 1}, full};
        Federation<FedAvg<>, Bare> average{{}, toy_data(), {.local = {.rate = 0.1}}, full};
        per.run(4, sample::Everyone{});
        average.run(4, sample::Everyone{});
        return support::distance(per.server().w, average.server().w);
    };
    CHECK(gap(0) < 1e-6);
    CHECK(gap(0.1) > 1e-3);
}

TEST_CASE("L-GEN-4 steps of size 0 change nothing") {
    Federation<PerFedAvg<>, Net> still{{}, toy_data(), {.local = {.rate = 0}}, usual}, moving{{}, toy_data(), {}, usual};
    still.run(2, sample::Uniform{4});
    moving.run(2, sample::Uniform{4});
    CHECK(same_bits(still.server().w, still.setup().initial));
    CHECK_FALSE(same_bits(moving.server().w, still.setup().initial));
}

TEST_CASE("serving takes steps on training batches, and test data decides nothing") {
    const auto shown = [](std::size_t steps, double test_target) {
        data::Split split;
        split.clients.resize(1);
        split.clients[0].key = 1;
        split.clients[0].train = {0};
        split.clients[0].test = {1};
        const data::FederatedDataset data{data::Dataset::regression({2, 2}, {1, test_target}), split};
        QuadraticRun run{{}, data, {.alpha = 0.1, .tune_steps = steps}, {.batch = 0}, Vec<double>{0}};
        Workspace<double> workspace;
        return run.at_client(0, workspace, [&](const auto& client, auto received, auto& space) {
            double out = 0;
            client.serve(std::move(received), 0, space)(Batch<double>(*data[0].examples, data[0].test),
                                                        Out<double>(&out, 1));
            return out;
        });
    };
    CHECK(shown(0, 5) == 0);
    CHECK(std::fabs(shown(1, 5) - 0.2) < 1e-15);
    CHECK(std::fabs(shown(2, 5) - 0.36) < 1e-15);
    CHECK(shown(2, 5) == shown(2, -5));
}

TEST_CASE("L-GEN-8 translation equivariance") {
    const auto end = [](double shift, MetaGradient order) {
        const auto data = support::quadratic_data({{{1, shift}, {2, 1 + shift}}, {{3, 4 + shift}}});
        const PerFedAvg<> method{.local = {.rate = 0.05}, .alpha = 0.1, .meta_gradient = order};
        QuadraticRun run{{}, data, method, {.batch = 1}, Vec<double>{5 + shift}};
        run.run(5, sample::Everyone{});
        return run.server().w[0] - shift;
    };
    CHECK(std::fabs(end(2.75, MetaGradient::first_order) - end(0, MetaGradient::first_order)) < 1e-12);  // rounding
    CHECK(std::fabs(end(2.75, MetaGradient::hessian_free) - end(0, MetaGradient::hessian_free)) < 1e-10);  // over delta
    CHECK(std::fabs(end(0, MetaGradient::hessian_free) - end(0, MetaGradient::first_order)) > 1e-3);
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-9") {
    constexpr conformance::MethodLaws tuned{.rate_zero_serves = false};  // tuning goes by alpha
    CHECK(support::broken_laws(PerFedAvg<>{.local = {.rate = 0.05}, .alpha = 0.05, .steps = 3}, tuned) == "");
    CHECK(support::broken_laws(PerFedAvg<>{.steps = 3, .meta_gradient = MetaGradient::hessian_free}, tuned) == "");
}

TEST_CASE("wrong settings are refused") {
    const auto data = support::quadratic_data({{{1, 1}}});
    CHECK_THROWS_WITH_AS((QuadraticRun{{}, data, {.alpha = -1}}), doctest::Contains("alpha must be 0 or more"),
                         ConfigError);
    CHECK_THROWS_WITH_AS((QuadraticRun{{}, data, {.alpha = std::numeric_limits<double>::infinity()}}),
                         "alpha must be 0 or more, and finite, not inf", ConfigError);
    for (const double delta : {0.0, std::numeric_limits<double>::infinity()})
        CHECK_THROWS_WITH_AS((QuadraticRun{{}, data, {.delta = delta}}),
                             doctest::Contains("delta must be positive, and finite"), ConfigError);
}

}  // namespace per_fedavg_test
