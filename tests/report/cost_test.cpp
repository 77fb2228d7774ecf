// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/analysis/cost.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <tessera/mask/density.hpp>

#include <support/sparse_nets.hpp>
#include <support/toy_records.hpp>

namespace cost_test {

using namespace tessera;
using namespace tessera::report;
using mask::Distribution;
using support::NetShape;

namespace {

std::vector<std::size_t> active(const NetShape& net, double density, Distribution how = Distribution::erk) {
    const auto shares = mask::densities(net.layout, density, how);
    std::vector<std::size_t> out;
    for (std::size_t l = 0; l < net.layout.size(); ++l)
        out.push_back(mask::active_count(shares[l], net.layout[l].size()));
    return out;
}
double sum(const std::vector<std::size_t>& counts) {
    double all = 0;
    for (const std::size_t n : counts) all += static_cast<double>(n);
    return all;
}
double sparse_flops(const NetShape& net, const analysis::Schedule& run, double density,
                    Distribution how = Distribution::erk) {
    return run.training_flops(analysis::forward_flops(net.layout, net.places, active(net, density, how))) +
           run.search_flops(analysis::forward_flops(net.layout, net.places));
}
// As many digits as the vector has.
bool near(double is, double should, double within) { return std::fabs(is - should) < within; }

void check_costs(const NetShape& net, const analysis::Schedule& run, const std::vector<double>& expected) {
    const auto d = static_cast<double>(dimension(Layout(net.layout)));
    CHECK(near(run.bytes(d, d) / 1e9, expected[0], 5e-4));
    // The vector has D d numbers; flooring takes up to one a tensor, which is 2e-4 GB here.
    CHECK(near(run.bytes(sum(active(net, 0.5)), sum(active(net, 0.5))) / 1e9, expected[1], 5e-4 + 3e-4));
    CHECK(near(run.training_flops(analysis::forward_flops(net.layout, net.places)) / 1e14, expected[2], 6e-4));
    CHECK(near(sparse_flops(net, run, 0.5) / 1e14, expected[3], 6e-4));
}

RunRecord run_of(const std::string& name, const std::vector<double>& accuracies) {
    RunRecord run;
    run.set("algorithm", name);
    for (const double accuracy : accuracies) {
        RoundRecord round{.round = run.rounds.size(), .seconds = 0.5, .bytes_up = 30, .bytes_down = 10};
        round.formula_bytes_up = 2e9;
        round.formula_bytes_down = 1e9;
        if (std::isfinite(accuracy)) round.evaluations.push_back(support::measured(accuracy));
        run.rounds.push_back(round);
    }
    return run;
}

}  // namespace

TEST_CASE("dense forward costs of the three networks") {
    const auto dense = [](const NetShape& net) { return analysis::forward_flops(net.layout, net.places); };
    CHECK(dense(support::lenet5(26)) == 4617246);
    CHECK(dense(support::vgg11_gn(10)) == 305690634);
    CHECK(dense(support::resnet18_gn(100)) == 1110937700);
}

TEST_CASE("V-SPA-3 published bytes and FLOPs by formula") {
    check_costs(support::lenet5(26), {.rounds = 400, .examples = 1248}, {14.051, 7.026, 3.457, 1.965});
    check_costs(support::vgg11_gn(10), {.rounds = 1000}, {738.489, 369.245, 229.268, 172.909});
    check_costs(support::resnet18_gn(100), {.rounds = 1000}, {897.611, 448.805, 833.203, 705.035});
}

TEST_CASE("V-SPA-3 ResNet18 at other densities, and with a uniform one") {
    const auto net = support::resnet18_gn(100);
    const analysis::Schedule run{.rounds = 1000};
    const std::vector<std::pair<double, double>> published{{0.8, 8.220}, {0.6, 7.551}, {0.5, 7.050}, {0.4, 6.522},
                                                           {0.2, 4.608}};
    for (const auto& [density, flops] : published) CHECK(near(sparse_flops(net, run, density) / 1e16, flops, 6e-4));
    CHECK(near(sparse_flops(net, run, 0.5, Distribution::uniform) / 1e16, 4.593, 6e-4));
}

TEST_CASE("L-EV-4 bytes by formula: D times those of FedAvg, and three quarters for Subsampling at one half") {
    const auto net = support::resnet18_gn(100);
    const analysis::Schedule run{};
    const auto d = static_cast<double>(dimension(Layout(net.layout)));
    for (const double density : {0.2, 0.5, 1.0}) {
        const double sent = sum(active(net, density));
        // 62 tensors, each rounded down by less than one number.
        CHECK(std::fabs(run.bytes(sent, sent) / run.bytes(d, d) - density) < 62 / d);
    }
    CHECK(run.bytes(d, d / 2) == 0.75 * run.bytes(d, d));
}

TEST_CASE("numbers that do not belong to the layout are refused") {
    const auto net = support::lenet5(26);
    const std::vector<std::size_t> few{1, 2};
    CHECK_THROWS_AS(analysis::forward_flops(net.layout, net.places, few), ConfigError);
}

TEST_CASE("accuracy against what was spent, over rounds that were evaluated") {
    const std::vector<RunRecord> runs{run_of("a", {0.5, absent, 0.7}), run_of("b", {0.6, 0.8, 0.9})};
    const auto bytes = analysis::accuracy_against(analysis::CostOf::formula_bytes, runs);
    CHECK(bytes.series[0].x == std::vector<double>{3, 9});
    CHECK(bytes.series[0].y == std::vector<double>{50, 70});
    CHECK(bytes.series[1].x == std::vector<double>{3, 6, 9});
    CHECK_NOTHROW(bytes.validate());
    CHECK(analysis::accuracy_against(analysis::CostOf::seconds, runs).series[0].x == std::vector<double>{0.5, 1.5});
    CHECK(analysis::accuracy_against(analysis::CostOf::measured_bytes, runs).series[1].x[2] > 1.19e-7);
    CHECK(analysis::accuracy_against(analysis::CostOf::seconds, runs, Which::global).series[0].y.empty());
}

TEST_CASE("rounds to reach an accuracy: the first one that does, or more than there were") {
    const std::vector<RunRecord> runs{run_of("a", {0.5, 0.72, 0.7}), run_of("b", {0.6, 0.8, 0.9})};
    CHECK(analysis::reached(runs[0], 70).round == 2);
    CHECK(analysis::reached(runs[0], 70).spent == 6);
    CHECK(std::isnan(analysis::reached(runs[0], 75).round));
    const auto table = analysis::rounds_to_reach(runs, {70, 80});
    CHECK_NOTHROW(table.validate());
    CHECK(table.series[0].texts == std::vector<std::string>{"2", "2"});
    CHECK(table.series[2].texts == std::vector<std::string>{">3", "2"});
    CHECK(table.series[3].y[1] == 6);
    CHECK(table.series[3].name == "80 %: GB");
    CHECK(table.series[3].texts == std::vector<std::string>{"", "6"});
}

TEST_CASE("bytes until an accuracy are in the unit of the largest") {
    auto small = run_of("a", {0.5, 0.72});
    for (auto& round : small.rounds) round.formula_bytes_up = 1.5e5, round.formula_bytes_down = 0;
    const auto table = analysis::rounds_to_reach({small}, {50, 70});
    CHECK(table.series[1].name == "50 %: kB");
    CHECK(table.series[1].texts[0] == "150");
    CHECK(table.series[3].y[0] == doctest::Approx(300));
    CHECK_NOTHROW(analysis::rounds_to_reach({small}, {99}).validate());  // never reached: no unit to choose
}

}  // namespace cost_test
