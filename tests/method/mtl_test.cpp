// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/mtl.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <tessera/method/local.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace mtl_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};
}  // namespace

TEST_CASE("V-BASE-1 lambda = 1: wbar 2.4, w (1.2, 3.6)") {
    Federation<Mtl<>, support::Quadratic<>> run{
        {}, support::quadratic_data({{{1, 0}}, {{3, 4}}}), {.lambda = 1}, {.batch = 0}, Vec<double>{0}};
    run.run(600, sample::Everyone{});
    CHECK(std::fabs(run.server().w[0] - 2.4) < 1e-12);
    CHECK(std::fabs(run.client(0).w[0] - 1.2) < 1e-12);
    CHECK(std::fabs(run.client(1).w[0] - 3.6) < 1e-12);
}

TEST_CASE("L-BASE-8 lambda = 0 is Local, bit for bit, whoever is sampled") {
    const auto same = [](double lambda, std::size_t steps) {
        Federation<Mtl<>, Net> mtl{{}, toy_data(), {.steps = steps, .lambda = lambda}, usual};
        Federation<Local<>, Net> local{{}, toy_data(), {.steps = steps}, usual};
        for (int r = 0; r < 5; ++r) {
            mtl.round(sample::Uniform{3});
            local.round(sample::Uniform{3});
            for (Id k = 0; k < 6; ++k)
                if (!same_bits(mtl.client(k).w, local.client(k).w)) return false;
        }
        return true;
    };
    CHECK(same(0, 0));
    CHECK(same(0, 3));
    CHECK_FALSE(same(0.01, 0));
}

TEST_CASE("L-BASE-8 lambda -> infinity: all w_k are wbar") {
    // Rate 1/lambda: a step puts w_k at wbar - g/lambda.
    const auto spread = [](double lambda) {
        Federation<Mtl<>, Net> run{{}, toy_data(), {.local = {.rate = 1 / lambda}, .lambda = lambda}, usual};
        run.run(3, sample::Everyone{});
        double most = 0;
        for (Id k = 0; k < 6; ++k) most = std::max(most, support::distance(run.client(k).w, run.server().w));
        return most;
    };
    CHECK(spread(1e6) < 1e-5);
    CHECK(spread(10) > 1e-3);
}

TEST_CASE("wbar is the mean over all clients, also those that never came") {
    Federation<Mtl<>, support::Quadratic<>> run{
        {}, support::quadratic_data({{{1, 8}}, {{1, 8}}, {{1, 8}}, {{1, 8}}}), {}, {.batch = 0}, Vec<double>{0}};
    run.round(sample::Uniform{1});
    CHECK(std::fabs(run.server().w[0] - 0.8 / 4) < 1e-15);  // one went to 0.8, three stand at 0
    run.round(sample::Everyone{});
    double sum = 0;
    for (Id k = 0; k < 4; ++k) {
        sum += run.client(k).w[0];
        CHECK(run.server().all[k] == run.client(k).w);
    }
    CHECK(std::fabs(run.server().w[0] - sum / 4) < 1e-15);
}

TEST_CASE("L-GEN-7 a client that is not visited keeps its model, at both ends") {
    Federation<Mtl<>, Net> run{{}, toy_data(), {}, usual};
    run.round(sample::Everyone{});
    for (int r = 0; r < 4; ++r) {
        std::vector<Vec<float>> before, kept;
        for (Id k = 0; k < 6; ++k) before.push_back(run.client(k).w), kept.push_back(run.server().all[k]);
        run.round(sample::Uniform{2});
        std::size_t same = 0;
        for (Id k = 0; k < 6; ++k) {
            CHECK(same_bits(before[k], run.client(k).w) == same_bits(kept[k], run.server().all[k]));
            same += same_bits(before[k], run.client(k).w);
        }
        CHECK(same == 4);
    }
}

TEST_CASE("a client that never came is served the initial model, not another client's") {
    const auto data = toy_data({.unseen = 1});
    Federation<Mtl<>, Net> run{{}, data, {}, usual};
    run.run(2, sample::Everyone{});
    Workspace<float> workspace;
    const auto share = data.unseen(0);
    const Batch<float> b(*share.examples, share.test);
    Vec<float> got(share.test.size() * Toy::classes), initial(got.size()), first(got.size());
    run.at_unseen(0, workspace, [&](const auto& client, auto received, auto& space) {
        client.serve(std::move(received), run.rounds_done(), space)(b, got);
    });
    Net{}.predict(run.setup().initial, b, initial);
    Net{}.predict(run.client(0).w, b, first);
    CHECK(same_bits(got, initial));
    CHECK_FALSE(same_bits(got, first));
}

TEST_CASE("uploads that do not fit are refused") {
    const Mtl<> method;
    const server_t<Mtl<>, float> server{.w = Vec<float>(3), .all = Vec<Vec<float>>(2, Vec<float>(3))};
    CHECK(method.admits(server, 1, Mtl<>::Upload<float>{Vec<float>(3), 1}));
    CHECK_FALSE(method.admits(server, 1, Mtl<>::Upload<float>{Vec<float>(2), 1}));
    CHECK_FALSE(method.admits(server, 1, Mtl<>::Upload<float>{Vec<float>(3), 2}));
}

TEST_CASE("a client cannot replace the model of another") {
    const Setup<Mtl<>, Net> setup(Net{}, {}, usual);
    Server<Mtl<>, Net> server(setup, 3);
    server.open_round({{.client = 0}});
    const Vec<float> w(setup.initial.size(), 1.0f);
    CHECK(server.accept(0, {w, 2}) == Verdict::not_admitted);
    CHECK(server.accept(0, {w, 0}) == Verdict::accepted);
    server.close_round();
    CHECK(server.state().all[0] == w);
    CHECK(server.state().all[2] == setup.initial);
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws(Mtl<>{}) == "");
    CHECK(support::broken_laws(Mtl<>{.steps = 3}) == "");
}

TEST_CASE("a lambda that is negative or infinite is refused") {
    CHECK_THROWS_AS((Federation<Mtl<>, support::Quadratic<>>{{},
                                                             support::quadratic_data({{{1, 4}}}),
                                                             {.lambda = std::numeric_limits<double>::infinity()}}),
                    ConfigError);
    CHECK_THROWS_WITH_AS(
        (Federation<Mtl<>, support::Quadratic<>>{{}, support::quadratic_data({{{1, 4}}}), {.lambda = -1}}),
        doctest::Contains("lambda must be 0 or more"), ConfigError);
}

}  // namespace mtl_test
