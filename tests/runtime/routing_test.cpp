// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/runtime/routing.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <tessera/gate/chain.hpp>
#include <tessera/gate/fixed.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/pi_flow.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/report/record.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/toy_data.hpp>

namespace routing_test {

using namespace tessera;
using namespace tessera::report::analysis;
using support::Toy;

namespace {
using Net = nn::Dnn<Toy::width, 6, Toy::classes>;

RoutedClient by_hand() {
    return {.client = 7,
            .blocks = 2,
            .q0 = {0.9, 0.1, 0.8, 0.2, 0.5, 0.3, 0.4, 0.7, 0.6, 0.6},
            .global_right = {1, 1, 1, 0, 0},
            .personal_right = {1, 1, 0, 1, 0},
            .loss_global = 1.5,
            .loss_personal = 1.0};
}
}  // namespace

TEST_CASE("q0 by block and by who is right, box numbers and hard shares") {
    const auto one = by_hand();
    CHECK(shares_of(one, 0, RightModel::both) == std::vector<double>{0.9, 0.8});
    CHECK(shares_of(one, 1, RightModel::global_only) == std::vector<double>{0.3});
    CHECK(shares_of(one, 1, RightModel::personal_only) == std::vector<double>{0.7});
    const auto box = box_of({0.5, 0.1, 0.4, 0.2, 0.3});
    CHECK(box.n == 5);
    CHECK(std::fabs(box.mean - 0.3) < 1e-15);
    CHECK(box.least == 0.1);
    CHECK(box.lower == 0.2);
    CHECK(box.median == 0.3);
    CHECK(box.upper == 0.4);
    CHECK(box.most == 0.5);
    CHECK(box.routed_global == 0.2);  // the tie is global
    CHECK(std::isnan(box_of({}).mean));
    CHECK(one.routed_global() == 0.6);
    CHECK(std::fabs(one.mean_q0() - 0.51) < 1e-15);
}

TEST_CASE("the client with the largest loss difference, either way; diverged ones are left out") {
    auto small = by_hand(), harmed = by_hand(), lost = by_hand();
    small.loss_personal = 1.4;
    harmed.client = 8;
    harmed.loss_personal = 2.5;
    lost.loss_personal = std::numeric_limits<double>::infinity();
    const std::vector<RoutedClient> all{small, harmed, lost};
    REQUIRE(most_changed(all));
    CHECK(most_changed(all)->client == 8);
    CHECK(most_changed({lost}) == nullptr);
    CHECK(routing_against_loss(all).series[0].x.size() == 2);
}

TEST_CASE("figures are sound and go into a record") {
    report::RunRecord record;
    for (const auto& extra : {routing_distributions(by_hand()), routing_table(by_hand()),
                              routing_against_loss({by_hand()}), routing_cost({.model = 100, .router = 10})}) {
        extra.validate();
        record.add(extra);
    }
    const auto table = routing_table(by_hand());
    CHECK(table.categories[4] == "block 2, global only");
    CHECK(table.series[0].y[4] == 1);
    CHECK(table.series.back().name == "routed globally");
    CHECK(table.series.back().y[4] == 0);
    CHECK(routing_distributions(by_hand()).series.size() == 6);
    CHECK(table.caption.find("left out") == std::string::npos);
    auto agreed = by_hand();  // no example that one model alone gets right
    agreed.global_right = agreed.personal_right;
    const auto shorter = routing_table(agreed);
    shorter.validate();
    CHECK(shorter.categories == std::vector<std::string>{"block 1, both right", "block 2, both right"});
    CHECK(shorter.series[0].y == std::vector<double>{3, 3});
    CHECK(shorter.caption.find("left out: 4.") != std::string::npos);
}

TEST_CASE("branches alone and routed, pooled over sound clients; q0 by block") {
    auto one = by_hand();
    one.by = {{{{1, 1, 0, 0, 0}, 2}, {{0, 1, 1, 1, 0}, 1}, {{1, 1, 1, 1, 0}, 0.5}, {{1, 1, 0, 1, 0}, 0.75}}};
    auto lost = one;
    lost.loss_personal = std::numeric_limits<double>::infinity();
    const auto worth = routing_worth({one, lost});
    worth.validate();
    CHECK(worth.categories == std::vector<std::string>{"w_g alone", "w_l alone", "soft policy", "hard policy",
                                                       "the better branch"});
    CHECK(worth.series[0].y == std::vector<double>{2 / 5.0, 3 / 5.0, 4 / 5.0, 3 / 5.0, 4 / 5.0});
    for (std::size_t a = 0; a < 4; ++a) CHECK(worth.series[1].y[a] == one.by[a].loss);
    CHECK(std::isnan(worth.series[1].y[4]));

    const auto blocks = routing_by_block({one, lost});
    blocks.validate();
    CHECK(blocks.categories == std::vector<std::string>{"block 1", "block 2"});
    CHECK(std::fabs(blocks.series[0].y[0] - 0.64) < 1e-15);  // five terms of 0.4 to 0.9
    CHECK(std::fabs(blocks.series[0].y[1] - 0.38) < 1e-15);
    CHECK(blocks.series[1].y == std::vector<double>{4 / 5.0, 2 / 5.0});
    CHECK(routing_by_block({lost}).categories.empty());
}

TEST_CASE("costs of the paper's net: router, operations, one branch more for soft routing") {
    using Dnn3 = nn::Network<float>;
    const Dnn3 dnn3 = nn::mlp({784, 512, 512, 512, 10}, 0);
    using Method = Flow<gate::Chain<350, 150, 50>>;
    std::vector<float> rows(2 * 784);
    data::Split split;
    split.clients.push_back({.train = {0, 1}, .key = 1});
    const data::FederatedDataset data{data::Dataset::own(std::move(rows), std::vector<std::int32_t>{0, 1}, 10), split};
    Federation<Method, Dnn3> run{dnn3, data, {}, {}};
    const auto cost = routing_cost_of(run);
    CHECK(cost.model == 932'362);
    CHECK(cost.router == 336'158);
    CHECK(cost.held == 2 * 932'362 + 336'158);
    // 2 in out + out for every linear layer, exits and all
    CHECK(cost.router_flops == 2.0 * (784 * 350 + 350 * 150 + 150 * 50 + 50 * 2 + 2 * (350 + 150 + 50)) +
                                   (350 + 150 + 50 + 2 + 3 * 2));
    CHECK(cost.soft_flops() - cost.hard_flops() == cost.model_flops);
    CHECK(cost.model_flops == dnn3.forward_flops());
}

TEST_CASE("costs of every variant are what its visits send and its clients answer with") {
    const auto check = [](auto method, std::size_t branches_sent, std::size_t branches_held) {
        Federation<decltype(method), Net> run{{}, support::toy_data(), method, {.seed = 3, .batch = 5}};
        const auto cost = routing_cost_of(run);
        const std::size_t d = Net::parameters;
        CHECK(cost.held == branches_held * d + cost.router);
        CHECK(cost.bytes_down == 4.0 * static_cast<double>(branches_sent * d + cost.router));
        const auto report = run.round(sample::Everyone{});
        CHECK(6 * cost.bytes_down == report.formula_bytes_down);
        CHECK(6 * cost.bytes_up == report.formula_bytes_up);
        CHECK(cost.model_bytes_up == 4.0 * d + 8);
        const auto table = routing_cost(cost);
        CHECK(table.series[1].y == std::vector<double>{static_cast<double>(cost.held), cost.bytes_down, cost.bytes_up,
                                                       cost.hard_flops()});
    };
    using Gate = gate::Chain<5>;
    check(Flow<Gate>{}, 1, 2);
    check(Flow<Gate>{.local_init = LocalInit::averaged_local}, 2, 2);
    check(Flow<gate::Fixed>{}, 1, 2);
    check(PiFlow<Gate>{.pi = Pi::two_global}, 2, 2);
    check(PiFlow<Gate>{.pi = Pi::tied}, 1, 1);
}

TEST_CASE("of a run: accuracies agree with the breakdown, q0 with the gate") {
    Federation<Flow<gate::Chain<5>>, Net> run{{}, support::toy_data(), {.local_epochs = 4}, {.seed = 3, .batch = 5}};
    run.run(3, sample::Everyone{});
    const auto before = run.fingerprint();
    const auto all = routed_clients(run);
    CHECK(run.fingerprint() == before);
    REQUIRE(all.size() == 6);
    double global = 0, personal = 0, n = 0;
    for (const auto& one : all) {
        CHECK(one.blocks == 2);
        CHECK(one.by[0].right == one.global_right);  // w_g is served as received
        CHECK(one.by[0].loss == one.loss_global);
        CHECK(one.by[3].right == one.personal_right);  // and routed hard
        CHECK(one.by[3].loss == one.loss_personal);
        CHECK(one.by[1].loss != one.by[0].loss);
        CHECK(one.by[2].loss != one.by[3].loss);
        CHECK(one.q0.size() == 2 * one.n());
        for (std::size_t i = 0; i < one.n(); ++i) {
            global += one.global_right[i];
            personal += one.personal_right[i];
            ++n;
        }
        for (const double q : one.q0) CHECK((q > 0 && q < 1));
    }
    CHECK(evaluate<Which::global>(run).accuracy(Average::pooled).value == global / n);
    CHECK(evaluate<Which::personal>(run).accuracy(Average::pooled).value == personal / n);

    Federation<Flow<gate::Fixed>, Net> fixed{{}, support::toy_data(), {.gate = {.q0 = 0.25}}, {.seed = 3, .batch = 5}};
    for (const auto& one : routed_clients(fixed)) {
        CHECK(one.mean_q0() == 0.25);
        CHECK(one.routed_global() == 0);
        CHECK(one.by[3].right == one.by[1].right);  // less than half: the local branch answers
    }
}

}  // namespace routing_test
