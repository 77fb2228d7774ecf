// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/ditto.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <tessera/method/fedavg.hpp>
#include <tessera/method/local.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace ditto_test {

using namespace tessera;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};
const rule::Sgd lively{.rate = 0.1, .momentum = 0.5, .weight_decay = 0.01, .clip = 2};
}  // namespace

TEST_CASE("V-BASE-1 around the global optimum: v = (1.5, 3.75)") {
    // a = (1, 3), c = (0, 4): w stays at its fixed point 3 with one step a visit; v minimises
    // a/2 (v - c)^2 + 1/2 (v - w)^2.
    Federation<Ditto<>, support::Quadratic<>> run{
        {}, support::quadratic_data({{{1, 0}}, {{3, 4}}}), {.lambda = 1}, {.batch = 0}, Vec<double>{3}};
    run.run(200, sample::Everyone{});
    CHECK(std::fabs(run.server().w[0] - 3) < 1e-13);
    CHECK(std::fabs(run.client(0).v[0] - 1.5) < 1e-12);  // contracts by 0.8 a round
    CHECK(std::fabs(run.client(1).v[0] - 3.75) < 1e-12);
}

TEST_CASE("one visit by hand: the pull is toward what was received, not toward the trained w") {
    // f = 1/2 (x - 4)^2, rate 0.1, lambda 2, w = v = 0, two own steps: 0.4, then 0.4 - 0.1 ((0.4 - 4) + 2 * 0.4) =
    // 0.68.
    Federation<Ditto<>, support::Quadratic<>> run{
        {}, support::quadratic_data({{{1, 4}}}), {.own_epochs = 2, .lambda = 2}, {.batch = 0}, Vec<double>{0}};
    run.round(sample::Everyone{});
    CHECK(std::fabs(run.server().w[0] - 0.4) < 1e-15);
    CHECK(std::fabs(run.client(0).v[0] - 0.68) < 1e-15);
    run.round(sample::Everyone{});  // toward 0.4 now, from 0.68
    const double first = 0.68 - 0.1 * ((0.68 - 4) + 2 * (0.68 - 0.4));
    CHECK(std::fabs(run.client(0).v[0] - (first - 0.1 * ((first - 4) + 2 * (first - 0.4)))) < 1e-15);
}

TEST_CASE("a personal model begins at the first w received, or where the run began") {
    // w moves from 0 to 0.4 in the first round, which client 1 misses; what it is then served is where v begins.
    const auto begun = [](OwnInit where) {
        Federation<Ditto<>, support::Quadratic<>> run{
            {}, support::quadratic_data({{{1, 4}}, {{1, 4}}}), {.own_init = where}, {.batch = 0}, Vec<double>{0}};
        run.round(sample::Uniform{.count = 1});
        const Id missed = run.client(0).v.empty() ? 0 : 1;
        Workspace<double> workspace;
        double v = -1;
        run.at_client(missed, workspace, [&](const auto& client, auto received, auto& space) {
            v = client.serve(std::move(received), 1, space).parameters[0];
        });
        return v;
    };
    CHECK(std::fabs(begun(OwnInit::received) - 0.4) < 1e-15);
    CHECK(begun(OwnInit::initial) == 0);
}

TEST_CASE_TEMPLATE("L-BASE-1 lambda = 0: v is Local's; w is FedAvg's for every lambda", Mode, Ditto<>, FedAvg<>) {
    const std::size_t steps = std::is_same_v<Mode, Ditto<>> ? 0 : 3;  // epochs, then the stream
    const auto compare = [&](double lambda) {
        Federation<Ditto<>, Net> ditto{{},
                                       toy_data(),
                                       {.local = lively,
                                        .personal = lively,
                                        .epochs = 2,
                                        .own_epochs = 2,
                                        .steps = steps,
                                        .own_steps = steps,
                                        .lambda = lambda},
                                       usual};
        Federation<FedAvg<>, Net> average{{}, toy_data(), {.local = lively, .epochs = 2, .steps = steps}, usual};
        Federation<Local<>, Net> local{{}, toy_data(), {.local = lively, .epochs = 2, .steps = steps}, usual};
        bool same_w = true, same_v = true;
        for (int r = 0; r < 4; ++r) {
            ditto.round(sample::Everyone{});
            average.round(sample::Everyone{});
            local.round(sample::Everyone{});
            same_w = same_w && same_bits(ditto.server().w, average.server().w);
            for (Id k = 0; k < 6; ++k) same_v = same_v && same_bits(ditto.client(k).v, local.client(k).w);
        }
        return std::pair(same_w, same_v);
    };
    CHECK(compare(0) == std::pair(true, true));
    CHECK(compare(0.5) == std::pair(true, false));
}

TEST_CASE("v starts at the w of the first visit, and is not touched when its client is not visited (L-GEN-7)") {
    Federation<Ditto<>, Net> run{{}, toy_data(), {.personal = {.rate = 0}}, usual};
    std::vector<Vec<float>> received(6);
    for (int r = 0; r < 6; ++r) {
        const auto w = run.server().w;
        std::vector<Vec<float>> before;
        for (Id k = 0; k < 6; ++k) before.push_back(run.client(k).v);
        run.round(sample::Uniform{2});
        for (Id k = 0; k < 6; ++k) {
            const auto v = run.client(k).v;
            if (before[k].empty() && !v.empty()) CHECK(same_bits(v, w));
            else CHECK(same_bits(v, before[k]));
        }
    }
    CHECK_FALSE(same_bits(run.server().w, run.setup().initial));
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws(Ditto<>{}) == "");
    CHECK(support::broken_laws(Ditto<>{.steps = 3, .own_steps = 2}) == "");
}

TEST_CASE("a lambda that is negative or infinite is refused") {
    const auto data = support::quadratic_data({{{1, 4}}});
    CHECK_THROWS_WITH_AS((Federation<Ditto<>, support::Quadratic<>>{{}, data, {.lambda = -1}}),
                         "lambda must be 0 or more, and finite, not -1.000000", ConfigError);
    constexpr double infinite = std::numeric_limits<double>::infinity();
    CHECK_THROWS_WITH_AS((Federation<Ditto<>, support::Quadratic<>>{{}, data, {.lambda = infinite}}),
                         "lambda must be 0 or more, and finite, not inf", ConfigError);
}

}  // namespace ditto_test
