// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/scaffold.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/rule/adam.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/complaint.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>
#include <support/unfused.hpp>

namespace scaffold_test {

using namespace tessera;
using support::complaint;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
using Line = support::Quadratic<>;
constexpr Settings usual{.seed = 3, .batch = 5};

// Slopes are w and 3 (w - 4); the mean of both losses is least at 3.
template <class Me>
Federation<Me, Line> on_two(const Me& method, double from = 0, std::size_t rounds = 0) {
    return {{}, support::quadratic_data({{{1, 0}}, {{3, 4}}}), method, {.batch = 0, .rounds = rounds},
            Vec<double>{from}};
}
double slope(Id k, double w) { return k == 0 ? w : 3 * (w - 4); }
}  // namespace

TEST_CASE("V-BASE-1, L-BASE-9 the fixed point is the optimum, however long clients train; FedAvg's is not") {
    for (const std::size_t epochs : {1u, 2u, 10u}) {
        CAPTURE(epochs);
        auto run = on_two(Scaffold<>{.local = {.rate = 0.1}, .epochs = epochs});
        run.run(600, sample::Everyone{});
        CHECK(std::fabs(run.server().w[0] - 3) < 1e-9);
        CHECK(std::fabs(run.server().c[0]) < 1e-9);
        CHECK(std::fabs(run.client(0).c[0] - 3) < 1e-9);  // their slopes at 3
        CHECK(std::fabs(run.client(1).c[0] + 3) < 1e-9);
    }
    auto average = on_two(FedAvg<>{.local = {.rate = 0.1}, .epochs = 10});
    average.run(600, sample::Everyone{});
    CHECK(std::fabs(average.server().w[0] - 2.394844484) < 1e-9);
}

TEST_CASE("two rounds of two steps by hand, from 1 at rate 0.1") {
    auto run = on_two(Scaffold<>{.local = {.rate = 0.1}, .epochs = 2}, 1);
    run.round(sample::Everyone{});
    // 1 -> 0.9 -> 0.81 on slopes 1 and 0.9; 1 -> 1.9 -> 2.53 on slopes -9 and -6.3.
    CHECK(std::fabs(run.client(0).c[0] - 0.95) < 1e-14);
    CHECK(std::fabs(run.client(1).c[0] + 7.65) < 1e-14);
    CHECK(std::fabs(run.server().c[0] + 3.35) < 1e-14);
    CHECK(std::fabs(run.server().w[0] - 1.67) < 1e-14);
    run.round(sample::Everyone{});
    // Corrections c - c_k are -4.3 and 4.3: 1.67 -> 1.933 -> 2.1697 and 1.67 -> 1.939 -> 2.1273.
    CHECK(std::fabs(run.client(0).c[0] - 1.8015) < 1e-14);
    CHECK(std::fabs(run.client(1).c[0] + 6.5865) < 1e-14);
    CHECK(std::fabs(run.server().c[0] + 2.3925) < 1e-14);
    CHECK(std::fabs(run.server().w[0] - 2.1485) < 1e-14);
}

TEST_CASE("L-BASE-9 the c_k add up to N c, also when few come") {
    const std::vector<std::vector<support::Parabola>> parabolas{{{1, 0}}, {{3, 4}}, {{2, 1}}, {{1, 5}}};
    for (const std::size_t count : {4u, 2u, 1u}) {
        CAPTURE(count);
        Federation<Scaffold<>, Line> run{{}, support::quadratic_data(parabolas),
                                         {.local = {.rate = 0.05}, .epochs = 3}, {.seed = 3, .batch = 0},
                                         Vec<double>{1}};
        double moved = 0;
        for (int r = 0; r < 12; ++r) {
            run.round(sample::Uniform{count});
            double sum = 0;
            for (Id k = 0; k < 4; ++k) sum += run.client(k).c.empty() ? 0 : run.client(k).c[0];
            CHECK(std::fabs(4 * run.server().c[0] - sum) < 1e-12);  // a few roundings of numbers below 20
            moved = std::max(moved, std::fabs(sum));
        }
        CHECK(moved > 1);  // it is not 0 = 0 that was checked
    }
}

TEST_CASE_TEMPLATE("L-BASE-9 the first round is FedAvg's with equal weights, bit for bit; the second is not", M, Net,
                   support::Unfused<Net>) {
    Federation<Scaffold<>, M> run{{}, toy_data(), {.epochs = 2}, usual};
    Federation<FedAvg<>, M> average{{}, toy_data(), {.epochs = 2, .weights = Weigh::uniform}, usual};
    run.round(sample::Uniform{4}), average.round(sample::Uniform{4});
    CHECK(same_bits(run.server().w, average.server().w));
    run.round(sample::Uniform{4}), average.round(sample::Uniform{4});
    CHECK(support::distance(run.server().w, average.server().w) > 1e-3);
}

TEST_CASE("L-GEN-3 one full-batch step a visit and clients of one size: gradient descent on all data") {
    using Wide = nn::Mclr<Toy::width, Toy::classes, double>;
    const auto gap = [](std::size_t extra, std::size_t epochs) {
        const auto data = toy_data({.train = 20, .extra = extra});
        Federation<Scaffold<>, Wide> run{{}, data, {.local = {.rate = 0.2}, .epochs = epochs}, {.seed = 3, .batch = 0}};
        std::vector<Index> all;
        for (std::size_t k = 0; k < data.size(); ++k) all.insert(all.end(), data[k].train.begin(), data[k].train.end());
        Vec<double> w = run.setup().initial, g(w.size());
        for (int r = 0; r < 8; ++r) {
            run.round(sample::Everyone{});
            for (std::size_t e = 0; e < epochs; ++e) {
                Wide{}.gradient(w, Batch<double>(*data[0].examples, all), g);
                for (std::size_t j = 0; j < w.size(); ++j) w[j] -= 0.2 * g[j];
            }
        }
        return support::distance(run.server().w, w);
    };
    CHECK(gap(0, 1) < 1e-12);  // sums in another order
    CHECK(gap(5, 1) > 1e-4);   // clients count alike, whatever their size
    CHECK(gap(0, 2) > 1e-4);
}

TEST_CASE("K eta is the rate of the round: what a client remembers is its mean slope, whatever the schedule") {
    using enum rule::Decay;
    for (const auto decay : {constant, exponential, linear, cosine}) {
        CAPTURE(static_cast<int>(decay));
        auto run = on_two(Scaffold<>{.local = {.rate = 0.1, .schedule = {.decay = decay, .warm_up = 0.5}}}, 1, 10);
        for (int r = 0; r < 10; ++r) {
            const double w = run.server().w[0], before = r > 0 ? run.client(0).c[0] : 0;
            const bool idle = run.setup().method.local.schedule(run.rounds_done(), 10) == 0;
            CHECK(idle == (decay == linear && r == 0));
            run.round(sample::Everyone{});
            CHECK(std::fabs(run.client(0).c[0] - (idle ? before : slope(0, w))) < 1e-12);
            if (idle) CHECK(run.server().w[0] == w);
        }
    }
}

TEST_CASE("weight decay is a part of the loss: the fixed point is the optimum with it") {
    // w + 3 (w - 4) + 2 * 0.5 w = 0
    auto run = on_two(Scaffold<>{.local = {.rate = 0.1, .weight_decay = 0.5}, .epochs = 10});
    run.run(600, sample::Everyone{});
    CHECK(std::fabs(run.server().w[0] - 2.4) < 1e-9);
    CHECK(std::fabs(run.client(0).c[0] - (2.4 + 0.5 * 2.4)) < 1e-9);
}

TEST_CASE("with a clip the mean is of the clipped slopes") {
    auto run = on_two(Scaffold<>{.local = {.rate = 0.1, .clip = 2}}, 1);
    run.round(sample::Everyone{});
    CHECK(std::fabs(run.client(0).c[0] - 1) < 1e-12);
    CHECK(std::fabs(run.client(1).c[0] + 2 * 9 / (9 + 1e-6)) < 1e-12);
}

TEST_CASE("a global rate is a fold: w goes that share of the way, c all of it") {
    auto whole = on_two(Scaffold<>{.local = {.rate = 0.1}}, 1);
    auto half = on_two(Scaffold<fold::Relax<>>{.local = {.rate = 0.1}, .fold = {.beta = 0.5}}, 1);
    auto sgd = on_two(Scaffold<fold::ServerMomentum<>>{
                          .local = {.rate = 0.1}, .fold = {.server_rate = 0.5, .server_momentum = 0}}, 1);
    whole.round(sample::Everyone{}), half.round(sample::Everyone{}), sgd.round(sample::Everyone{});
    CHECK(std::fabs(whole.server().w[0] - 1.4) < 1e-15);
    CHECK(std::fabs(half.server().w[0] - 1.2) < 1e-15);
    CHECK(std::fabs(sgd.server().w[0] - 1.2) < 1e-15);
    CHECK(half.server().c[0] == whole.server().c[0]);
    half.run(600, sample::Everyone{});
    CHECK(std::fabs(half.server().w[0] - 3) < 1e-9);
}

TEST_CASE("option I: c_k is the slope at what was received, and any rule may step") {
    auto run = on_two(Scaffold<>{.local = {.rate = 0.1}, .drift = Drift::gradient}, 1);
    run.round(sample::Everyone{});
    CHECK(std::fabs(run.client(0).c[0] - 1) < 1e-12);
    CHECK(std::fabs(run.client(1).c[0] + 9) < 1e-12);
    const rule::Sgd heavy{.rate = 0.05, .momentum = 0.5};
    auto momentum = on_two(Scaffold<>{.local = heavy, .epochs = 3, .drift = Drift::gradient});
    momentum.run(600, sample::Everyone{});
    CHECK(std::fabs(momentum.server().w[0] - 3) < 1e-9);
    auto average = on_two(FedAvg<>{.local = heavy, .epochs = 3});  // not without the correction
    average.run(600, sample::Everyone{});
    CHECK(std::fabs(average.server().w[0] - 3) > 1e-2);
    CHECK(support::broken_laws(Scaffold<fold::Mean, rule::Adam>{}) == "");
}

TEST_CASE("2d numbers travel down and 2d up") {
    Federation<Scaffold<>, Net> run{{}, toy_data(), {}, usual};
    const auto report = run.round(sample::Uniform{4});
    CHECK(report.formula_bytes_down == 4 * 2 * 4.0 * Net::parameters);
    CHECK(report.formula_bytes_up == 4 * 2 * 4.0 * Net::parameters);
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws(Scaffold<>{}) == "");
    CHECK(support::broken_laws(Scaffold<fold::ServerMomentum<>>{.steps = 3}) == "");
}

TEST_CASE("its model is the server's: nothing personal is served") {
    static_assert(!detail::serves_own<Scaffold<>>());
    Federation<Scaffold<>, Net> run{{}, toy_data(), {}, usual};
    run.run(2, sample::Everyone{});
    const auto global = evaluate<Which::global>(run);
    CHECK(global.accuracy(Average::pooled).value > 0.25);  // four classes
}

TEST_CASE("wrong settings, uploads and downloads are refused") {
    CHECK(complaint(Scaffold<>{}).empty());
    CHECK(complaint(Scaffold<>{.local = {.weight_decay = 0.1, .clip = 1}}).empty());
    CHECK(complaint(Scaffold<>{.local = {.momentum = 0.9}}) ==
          "SCAFFOLD reads a client's mean slope off the way it went, which is right for plain steps only: set momentum "
          "to 0, not 0.900000, or take drift=gradient, the slope of the client's data at w");
    CHECK(complaint(Scaffold<>{.local = {.momentum = 0.9}, .drift = Drift::gradient}).empty());
    using Moments = Scaffold<fold::Mean, rule::Adam>;
    CHECK(complaint(Moments{}).empty());
    CHECK(complaint(Moments{.drift = Drift::way}) ==
          "SCAFFOLD reads a client's mean slope off the way it went, which is right for plain steps only: take rule::Sgd, "
          "or take drift=gradient, the slope of the client's data at w");
    CHECK_THROWS_WITH_AS((Federation<Scaffold<>, Net>{{}, toy_data(), {}, {.stateless = true}}),
                         doctest::Contains("leave stateless off"), ConfigError);
    CHECK_THROWS_WITH_AS((Federation<Scaffold<>, Net>{{}, toy_data(), {.local = {.schedule = {rule::Decay::cosine}}}}),
                         doctest::Contains("set Settings::rounds"), ConfigError);

    const Scaffold<> method;
    const Scaffold<>::Server<double> server{.w = {1, 2}, .c = {0, 0}, .clients = 3};
    using Upload = Scaffold<>::Upload<double>;
    CHECK(method.admits(server, 0, Upload{Vec<double>(2), Vec<double>(2)}));
    CHECK_FALSE(method.admits(server, 0, Upload{Vec<double>(1), Vec<double>(2)}));
    CHECK_FALSE(method.admits(server, 0, Upload{Vec<double>(2), Vec<double>(3)}));

    auto run = on_two(method);
    auto client = Client<Scaffold<>, Line>(run.setup(), 0, run.data()[0]);
    Workspace<double> workspace;
    CHECK_THROWS_WITH_AS(client.visit({.w = {1}, .c = {}}, 0, workspace),
                         "the download is not what this method sends: c has a length of 0, not 1", WireError);
    CHECK_NOTHROW(client.visit({.w = {1}, .c = {0}}, 0, workspace));
}

}  // namespace scaffold_test
