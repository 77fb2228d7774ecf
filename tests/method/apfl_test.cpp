// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/apfl.hpp>

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
#include <support/unfused.hpp>

namespace apfl_test {

using namespace tessera;
using nn::Mixing;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Net = nn::Mclr<Toy::width, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};

// A visit to one client with f = 1/2 (x - 1)^2 that holds v and alpha already, from w = 0.
client_t<Apfl<>, double> visited(const Apfl<>& method, double v, double alpha, Vec<double>& w) {
    const auto data = support::quadratic_data({{{1, 1}}});
    const support::Quadratic<> model;
    Workspace<double> workspace;
    const auto share = data[0];
    const Context<support::Quadratic<>> at{
        .model = &model, .examples = share.examples, .ids = share.train, .workspace = &workspace};
    client_t<Apfl<>, double> me{.v = {v}, .alpha = alpha, .cursor = {}};
    w = visit_at<Apfl<>, support::Quadratic<>>(method, at, Vec<double>{0}, me).x;
    return me;
}
}  // namespace

TEST_CASE("V-BASE-2 one step, all gradients at the old point") {
    Vec<double> w;
    for (const auto mixing : {Mixing::per_round, Mixing::per_step}) {
        const auto me = visited({.local = {.rate = 0.1}, .alpha_rate = 0.1, .mixing = mixing}, 0.5, 0.5, w);
        CHECK(std::fabs(w[0] - 0.1) < 1e-15);
        CHECK(std::fabs(me.v[0] - 0.5375) < 1e-15);
        CHECK(std::fabs(me.alpha - 0.5375) < 1e-15);
    }
    const auto fixed = visited({.alpha = 0.5}, 0.5, 0.9, w);  // a fixed alpha is the setting, whatever was kept
    CHECK(std::fabs(fixed.v[0] - 0.5375) < 1e-15);
    CHECK(fixed.alpha == 0.5);
}

TEST_CASE("alpha moves once a round or at every step, and stays in [0, 1]") {
    Vec<double> w;
    const auto alpha_after = [&](Mixing mixing, double rate, double v) {
        return visited({.epochs = 3, .alpha_rate = rate, .mixing = mixing}, v, 0.5, w).alpha;
    };
    CHECK(std::fabs(alpha_after(Mixing::per_round, 0.1, 0.5) - 0.5375) < 1e-15);
    CHECK(alpha_after(Mixing::per_step, 0.1, 0.5) > 0.56);
    CHECK(alpha_after(Mixing::per_step, 100, 0.5) == 1);
    CHECK(alpha_after(Mixing::per_step, 100, -0.5) == 0);
    CHECK(alpha_after(Mixing::per_step, 0, 0.5) == 0.5);
}

TEST_CASE("L-BASE-2 alpha = 1: v is Local's; w is FedAvg's for every fixed alpha") {
    using Plain = support::Unfused<Net>;  // a blend takes its gradient first, so Local must round that way as well
    const auto compare = [](double alpha, Mixing mixing = Mixing::fixed) {
        Federation<Apfl<>, Plain> apfl{{}, toy_data(), {.epochs = 2, .alpha = alpha, .mixing = mixing}, usual};
        Federation<FedAvg<>, Plain> average{{}, toy_data(), {.epochs = 2}, usual};
        Federation<Local<>, Plain> local{{}, toy_data(), {.epochs = 2, .pass = Pass::shared}, usual};
        bool same_w = true, same_v = true;
        for (int r = 0; r < 4; ++r) {
            apfl.round(sample::Everyone{});
            average.round(sample::Everyone{});
            local.round(sample::Everyone{});
            same_w = same_w && same_bits(apfl.server().w, average.server().w);
            for (Id k = 0; k < 6; ++k) same_v = same_v && same_bits(apfl.client(k).v, local.client(k).w);
        }
        return std::pair(same_w, same_v);
    };
    CHECK(compare(1) == std::pair(true, true));
    CHECK(compare(0.9) == std::pair(true, false));
    CHECK(compare(0) == std::pair(true, false));
    CHECK(compare(0.5, Mixing::per_step) == std::pair(true, false));
}

TEST_CASE("L-BASE-2 alpha = 0 predicts with w, alpha = 1 with v; a client that never came with w") {
    const auto data = toy_data({.unseen = 1});
    const auto answer = [&](double alpha, auto expected) {
        Federation<Apfl<>, Net> run{{}, data, {.alpha = alpha}, usual};
        run.run(2, sample::Everyone{});
        Workspace<float> workspace;
        const auto of = [&](const ClientData& share, const Vec<float>& parameters) {
            return [&](const auto& client, auto received, auto& space) {
                const Batch<float> b(*share.examples, share.test);
                Vec<float> got(share.test.size() * Toy::classes), wanted(got.size());
                client.serve(std::move(received), run.rounds_done(), space)(b, got);
                Net{}.predict(parameters, b, wanted);
                return same_bits(got, wanted);
            };
        };
        const auto& w = run.server().w;
        CHECK(run.at_unseen(0, workspace, of(data.unseen(0), w)) == (alpha == 0 || alpha == 1));
        return run.at_client(2, workspace, of(data[2], expected(run)));
    };
    const auto w = [](const auto& run) { return run.server().w; };
    const auto v = [](const auto& run) { return run.client(2).v; };
    CHECK(answer(0, w));
    CHECK(answer(1, v));
    CHECK_FALSE(answer(0, v));
}

TEST_CASE("L-GEN-7 a client that is not visited keeps v and alpha") {
    Federation<Apfl<>, Net> run{{}, toy_data(), {.mixing = Mixing::per_step}, usual};
    run.round(sample::Everyone{});
    for (int r = 0; r < 3; ++r) {
        std::vector<client_t<Apfl<>, float>> before;
        for (Id k = 0; k < 6; ++k) before.push_back(run.client(k));
        run.round(sample::Uniform{2});
        std::size_t same = 0;
        for (Id k = 0; k < 6; ++k)
            same += same_bits(before[k].v, run.client(k).v) && before[k].alpha == run.client(k).alpha;
        CHECK(same == 4);
    }
}

TEST_CASE("the gradient behind alpha is billed where alpha moves: at every step, at the first one, or never") {
    std::uint64_t all = 0, first = 0;
    for (std::size_t k = 0; k < 6; ++k) {
        all += toy_data()[k].train.size();
        first += 5;
    }
    const auto examples = [](Mixing mixing) {
        Federation<Apfl<>, Net> run{{}, toy_data(), {.mixing = mixing}, {.seed = 3, .batch = 5}};
        return run.round(sample::Everyone{}).examples;
    };
    CHECK(examples(Mixing::fixed) == 2 * all);
    CHECK(examples(Mixing::per_round) == 2 * all + first);
    CHECK(examples(Mixing::per_step) == 3 * all);
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws(Apfl<>{}) == "");
    CHECK(support::broken_laws(Apfl<>{.steps = 3, .mixing = Mixing::per_step}) == "");
}

TEST_CASE("wrong settings are refused") {
    const auto data = support::quadratic_data({{{1, 1}}});
    using Run = Federation<Apfl<>, support::Quadratic<>>;
    CHECK_THROWS_WITH_AS((Run{{}, data, {.alpha = 1.5}}), "alpha must lie in [0, 1]", ConfigError);
    CHECK_THROWS_AS((Run{{}, data, {.alpha_rate = -1}}), ConfigError);
    CHECK_THROWS_AS((Run{{}, data, {.alpha_rate = std::numeric_limits<double>::infinity()}}), ConfigError);
}

}  // namespace apfl_test
