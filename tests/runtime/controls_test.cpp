// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/controls.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

#include <support/bits.hpp>
#include <support/toy_data.hpp>

namespace controls_test {

using namespace tessera;

TEST_CASE("pooled data are everybody's, once") {
    const auto clients = support::toy_data();
    const auto all = pooled(clients);
    REQUIRE(all.size() == 1);
    std::size_t train = 0, test = 0;
    for (std::size_t k = 0; k < clients.size(); ++k) {
        train += clients[k].train.size();
        test += clients[k].test.size();
    }
    CHECK(all[0].train.size() == train);
    CHECK(all[0].test.size() == test);
}

TEST_CASE("FedAvg on pooled data is centralised gradient descent") {
    using Net = nn::Mclr<8, 4, double>;
    const auto clients = support::toy_data();
    const FedAvg<> method{.local = {.rate = 0.1}};
    const Settings one_step{.seed = 3, .batch = 0};
    Federation<FedAvg<>, Net> central{Net{}, pooled(clients), method, one_step};
    Federation<FedAvg<>, Net> federated{Net{}, clients, method, one_step};
    central.run(5, sample::Everyone{});
    federated.run(5, sample::Everyone{});
    // One full-batch step a visit and weights n_k: the same sums in another order (L-GEN-3).
    CHECK(support::distance(central.server().w, federated.server().w) < 1e-12);
}

TEST_CASE("the majority class by hand") {
    const std::vector<float> rows(6, 0.0f);
    data::Split split;
    split.clients.push_back({.train = {0, 1, 2}, .test = {3, 4}});
    split.clients.push_back({.train = {3, 5}, .test = {0, 1, 4}});
    const data::FederatedDataset clients{data::Dataset::own(rows, {1, 1, 0, 1, 2, 0}, 3), split};
    const auto result = majority_class(clients);
    // Client 0 has 1, 1, 0 and says 1: right on {1, 2} once. Client 1 has 1, 0, a tie, and says 0: never right.
    CHECK(result.counts()[0].correct == 1);
    CHECK(result.counts()[1].correct == 0);
}

TEST_CASE("the oracle is at least as good as both, client by client") {
    using Net = nn::Mclr<8, 4>;
    Federation<FedAvgFt<>, Net> run{
        Net{}, support::toy_data(), {.local = {.rate = 0.3}, .tune_epochs = 4}, {.batch = 5}};
    run.run(4, sample::Uniform{3});
    const auto global = evaluate<Which::global>(run);
    const auto personal = evaluate<Which::personal>(run);
    const auto best = oracle_best_of(global, personal);
    for (std::size_t k = 0; k < best.size(); ++k)
        CHECK(best[k] == std::max(global.accuracies()[k], personal.accuracies()[k]));
}

TEST_CASE("the oracle passes over clients without test examples") {
    using Global = report::PerClient<Which::global, When::before, SplitOf::test, Whom::all>;
    using Personal = report::PerClient<Which::personal, When::after, SplitOf::test, Whom::all>;
    const auto on = report::On::local();
    const Global global(on, report::Pick::last(), "", {{0, 1, 0, 4}, {1, 0, 0, 0}, {2, 2, 0, 4}});
    const Personal personal(on, report::Pick::last(), "", {{0, 3, 0, 4}, {1, 0, 0, 0}, {2, 1, 0, 4}});
    CHECK(oracle_best_of(global, personal) == std::vector<double>{0.75, 0.5});
}

}  // namespace controls_test
