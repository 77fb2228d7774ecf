// SPDX-License-Identifier: BSD-3-Clause
// The analyses, on cases small enough to be done by hand.
#include <tessera/report/analysis/class_loss.hpp>
#include <tessera/report/analysis/clients.hpp>
#include <tessera/report/analysis/coherence_curve.hpp>
#include <tessera/report/analysis/memory.hpp>
#include <tessera/report/analysis/runs.hpp>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <tessera/report/json.hpp>

namespace analysis_test {

using namespace tessera::report;
using namespace tessera::report::analysis;
using nlohmann::json;

namespace {

struct Row {
    std::size_t n_train, n_test;
    double global, personal, train_global = absent, train_personal = absent;
};

RunRecord run_of(const std::vector<Row>& rows) {
    RunRecord run;
    run.set("algorithm", "fedalt");
    for (const auto& row : rows) {
        ClientRecord client{.id = static_cast<tessera::Id>(run.per_client.size()),
                            .n_train = row.n_train,
                            .n_test = row.n_test,
                            .accuracy_global = row.global,
                            .accuracy_personal = row.personal};
        client.train_accuracy_global = row.train_global;
        client.train_accuracy_personal = row.train_personal;
        run.per_client.push_back(client);
    }
    return run;
}

// Four clients: +25, -50, 0 points and one whose model diverged.
RunRecord four_clients() {
    return run_of({{100, 4, 0.5, 0.75, 0.5, 1}, {10, 2, 1, 0.5, 0.75, 1}, {30, 10, 0.5, 0.5, 0.25, 0.25},
                   {50, 8, 0.5, absent, 0.5, absent}});
}

double cell(const Extra& table, std::string_view row, std::string_view column) {
    for (const auto& series : table.series)
        if (series.name == column)
            for (std::size_t i = 0; i < table.categories.size(); ++i)
                if (table.categories[i] == row) return series.y[i];
    FAIL("no such cell: " << row << ", " << column);
    return absent;
}

using Before = PerClient<Which::personal, When::before, SplitOf::test, Whom::all>;
using After = PerClient<Which::personal, When::after, SplitOf::test, Whom::all>;

template <class Result>
Result result(std::vector<ClientCount> counts, On on = On::local()) {
    return {on, Pick::last(), "", std::move(counts)};
}

}  // namespace

TEST_CASE("change per client against its size, on test and training data") {
    const auto extra = change_against_size(four_clients());
    extra.validate();
    REQUIRE(extra.series.size() == 2);
    CHECK(extra.series[0].name == "test");
    CHECK(extra.series[0].x == std::vector<double>{100, 10, 30});
    CHECK(extra.series[0].y == std::vector<double>{25, -50, 0});
    CHECK(extra.series[0].texts[1] == "client 1");
    CHECK(extra.series[1].y == std::vector<double>{50, 25, 0});
    CHECK_FALSE(extra.x.logarithmic);  // 100 / 10 is not more than ten
    CHECK(change_against_size(run_of({{5, 1, 0, 1}, {51, 1, 0, 1}})).x.logarithmic);
    // Without results on training data there is no such series.
    CHECK(change_against_size(run_of({{5, 1, 0, 1}})).series.size() == 1);
    CHECK_THROWS_AS(changes(four_clients(), SplitOf::validation), tessera::ConfigError);
}

TEST_CASE("a size that all clients have is nothing to draw against") {
    const auto figures = [](RunRecord run) {
        analysis::add_client_figures(run);
        std::vector<std::string> ids;
        for (const auto& extra : run.extras) ids.push_back(extra.id);
        return ids;
    };
    RunRecord run = run_of({{60, 5, 0.5, 0.6}, {60, 5, 0.5, 0.6}, {60, 5, 0.5, 0.6}});
    CHECK(figures(run) == std::vector<std::string>{"change-violins", "harmed", "quantiles"});
    run.per_client[1].n_train = 61;
    CHECK(figures(run) == std::vector<std::string>{"change-size", "change-violins", "harmed", "quantiles"});
    CHECK(figures({}).empty());
}

TEST_CASE("harm is counted strictly, over clients that have both accuracies") {
    const auto h = harm(changes(four_clients()));
    CHECK(h.clients == 3);
    CHECK(h.gaining == 1);
    CHECK(h.harmed == 1);  // equality is neither
    CHECK(h.share == 1.0 / 3);
    CHECK(h.median_n_harmed == 10);
    CHECK(h.median_n_others == 30);  // the smaller of 30 and 100: a quantile is some client's value
    const auto table = harmed_clients(four_clients());
    table.validate();
    CHECK(cell(table, "test data", "harmed") == 1);
    CHECK(cell(table, "training data", "harmed") == 0);
    CHECK(cell(table, "training data", "gain") == 2);
    CHECK(std::isnan(cell(table, "training data", "size of harmed")));
    CHECK(std::isnan(harm({}).share));
    // The same counts as those of the evaluation itself.
    const auto effect = compare(result<PerClient<Which::global, When::before, SplitOf::test, Whom::all>>(
                                    {{0, 2, 0, 4}, {1, 2, 0, 2}, {2, 5, 0, 10}}),
                                result<After>({{0, 3, 0, 4}, {1, 1, 0, 2}, {2, 5, 0, 10}}));
    CHECK(effect.harmed == h.harmed);
    CHECK(effect.benefiting == h.gaining);
}

TEST_CASE("violins hold the changes of all clients") {
    const auto extra = change_violins(four_clients());
    extra.validate();
    CHECK(extra.series[0].y == std::vector<double>{25, -50, 0});
    CHECK(extra.series[1].y == std::vector<double>{50, 25, 0});
}

TEST_CASE("quantiles with each client once and by its examples") {
    const auto table = quantiles(four_clients());
    table.validate();
    CHECK(table.series.size() == 2 + quantile_levels.size());
    // Personal accuracies 75, 50, 50 with 4, 2 and 10 test examples.
    CHECK(cell(table, "personal", "mean") == doctest::Approx(175.0 / 3).epsilon(1e-14));
    CHECK(cell(table, "personal, by size", "mean") == doctest::Approx((300 + 100 + 500) / 16.0).epsilon(1e-14));
    CHECK(cell(table, "personal", "deviation") == doctest::Approx(std::sqrt(2) * 25 / 3).epsilon(1e-14));
    CHECK(cell(table, "personal", "1 %") == 50);
    CHECK(cell(table, "personal", "75 %") == 75);
    CHECK(cell(table, "personal, by size", "75 %") == 50);  // 12 of 16 examples are at 50
    CHECK(cell(table, "personal, by size", "90 %") == 75);
    CHECK(cell(table, "change, test", "5 %") == -50);
    CHECK(cell(table, "change, test", "50 %") == 0);
    CHECK(cell(table, "change, test, by size", "10 %") == -50);  // 2 of 16 examples
    CHECK(cell(table, "change, test, by size", "25 %") == 0);
    // Training changes 50, 25, 0 weigh 100, 10, 30.
    CHECK(cell(table, "change, training, by size", "mean") == doctest::Approx(5250.0 / 140).epsilon(1e-14));
    // The diverged client has a global accuracy, and counts there.
    CHECK(cell(table, "global", "mean") == 62.5);
}

TEST_CASE("a diverged client leaves valid JSON") {
    RunRecord run = four_clients();
    add_client_figures(run);
    CHECK(run.extras.size() == 4);
    const json parsed = json::parse(to_json(run));
    CHECK(parsed["extras"].size() == 4);
    CHECK(parsed["final"]["per_client"][3]["accuracy_personal"].is_null());
    CHECK(parsed["final"]["per_client"][0]["train_accuracy_personal"] == 1);
    // All clients diverged, or there is no personal model: no figure, and still JSON.
    RunRecord none = run_of({{5, 1, 0.5, absent}});
    add_client_figures(none);
    CHECK(none.extras.size() == 1);  // quantiles of the global accuracy
    RunRecord bare;
    add_client_figures(bare);
    CHECK(bare.extras.empty());
    CHECK(json::parse(to_json(bare))["extras"].empty());
}

TEST_CASE("fill puts training results in their own fields") {
    std::vector<ClientRecord> rows;
    fill(rows, PerClient<Which::global, When::before, SplitOf::train, Whom::all>(On::local(), Pick::last(), "",
                                                                               {{0, 3, 1, 12}}));
    fill(rows, PerClient<Which::personal, When::after, SplitOf::train, Whom::all>(On::local(), Pick::last(), "",
                                                                                {{0, 9, 1, 12}}));
    fill(rows, result<After>({{0, 1, 1, 4}}));
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].n_train == 12);
    CHECK(rows[0].n_test == 4);
    CHECK(rows[0].train_gain() == 0.5);
    CHECK(rows[0].accuracy_personal == 0.25);
    CHECK(std::isnan(rows[0].gain()));
}

TEST_CASE("final fine-tuning, client by client") {
    const auto before = result<Before>({{0, 2, 0, 4}, {1, 3, 0, 6}, {4, 5, 0, 5}});
    const auto after = result<After>({{0, 3, 0, 4}, {1, 3, 0, 6}, {4, 4, 0, 5}});
    const auto extra = final_fine_tuning(before, after);
    extra.validate();
    CHECK(extra.series[0].x == std::vector<double>{50, 50, 100});
    CHECK(extra.series[0].y == std::vector<double>{25, 0, -20});
    CHECK(extra.series[0].texts[2] == "client 4");
    CHECK(extra.caption.find("Mean change 1.67 points; 1 clients better, 1 worse of 3.") != std::string::npos);
    const auto none = final_fine_tuning(before, before);
    CHECK(none.series[0].y == std::vector<double>{0, 0, 0});
    CHECK_THROWS_AS(final_fine_tuning(before, result<After>({{0, 3, 0, 4}})), tessera::ConfigError);
    CHECK_THROWS_AS(final_fine_tuning(before, result<After>({{0, 3, 0, 4}, {2, 3, 0, 6}, {4, 4, 0, 5}})),
                    tessera::ConfigError);
    CHECK_THROWS_AS(final_fine_tuning(before, result<After>({{0, 3, 0, 4}, {1, 3, 0, 6}, {4, 4, 0, 5}},
                                                            On::union_of_clients())),
                    tessera::ConfigError);
}

TEST_CASE("spread over seeds: mean, least and most of each client, in order of the mean") {
    // Client 0: +10, +30; client 1: -20, +10; client 2 diverged once and is left out.
    const std::vector<RunRecord> runs{run_of({{5, 10, 0.5, 0.6}, {5, 10, 0.5, 0.3}, {5, 10, 0.5, absent}}),
                                      run_of({{5, 10, 0.5, 0.8}, {5, 10, 0.5, 0.6}, {5, 10, 0.5, 0.9}})};
    const auto all = spread_of_clients(runs);
    REQUIRE(all.size() == 2);
    CHECK(all[0].client == 1);
    CHECK(all[0].mean == doctest::Approx(-5).epsilon(1e-12));  // 0.1 is not a binary number
    CHECK(all[0].undecided());
    CHECK(all[1].low == doctest::Approx(10).epsilon(1e-12));
    CHECK(all[1].high == doctest::Approx(30).epsilon(1e-12));
    CHECK_FALSE(all[1].undecided());
    const auto extra = spread_over_seeds(runs);
    extra.validate();
    CHECK(extra.series.size() == 3);
    CHECK(extra.series[1].texts[0] == "client 1");
    CHECK(extra.caption.find("For 1 of 2 clients the seed decides") != std::string::npos);
    for (const auto& each : spread_of_clients({runs[1], runs[1]})) CHECK(each.low == each.high);
    CHECK_THROWS_AS(spread_of_clients({}), tessera::ConfigError);
}

TEST_CASE("gain against personal parameters over runs") {
    std::vector<RunRecord> runs{run_of({{5, 30, 0.5, 0.6}, {5, 10, 0.5, 0.9}}), run_of({{5, 10, 0.5, 0.5}}),
                                run_of({{5, 10, 0.5, 0.7}}), run_of({{5, 10, 0.5, 0.8}})};
    runs[0].set("personal_parameters", 1000);
    runs[1].set("personal_parameters", 0);         // no place on a logarithmic axis
    runs[2].set("personal_parameters", "unknown");  // not a number
    const auto extra = gain_against_parameters(runs);
    extra.validate();
    REQUIRE(extra.series.size() == 1);  // the fourth run does not say
    CHECK(extra.series[0].x[0] == 1000);
    CHECK(extra.series[0].y[0] == doctest::Approx(17.5).epsilon(1e-12));  // (30 * 10 + 10 * 40) / 40
    CHECK(gain_against_parameters(runs, 60).series[0].y[0] == doctest::Approx(7.5).epsilon(1e-12));
}

TEST_CASE("an ablation stands settings and effects side by side") {
    std::vector<RunRecord> runs{four_clients(), four_clients()};
    runs[0].set("dropout", 0.3);
    runs[1].set("dropout", 0.0);
    runs[1].per_client[1].accuracy_personal = 1;  // now nobody is harmed
    const auto table = ablation(runs, {"dropout", "l2"});
    table.validate();
    REQUIRE(table.categories.size() == 2);
    CHECK(table.series[0].y == std::vector<double>{0.3, 0});
    CHECK(table.series[0].texts[0] == "0.3");
    CHECK(table.series[1].texts[0].empty());  // a setting that no run has
    const auto first = [&](std::string_view column) { return cell(table, table.categories[0], column); };
    CHECK(first("personal accuracy") == doctest::Approx(56.25).epsilon(1e-14));
    CHECK(first("mean change") == doctest::Approx(-25.0 / 3).epsilon(1e-14));
    CHECK(first("median change") == 0);
    CHECK(first("harmed") == 1);
    CHECK(cell(table, table.categories[1], "harmed") == 0);
}

TEST_CASE("settings that runs of one method differ in") {
    std::vector<RunRecord> runs{four_clients(), four_clients()};
    for (auto& run : runs) run.set("algorithm", "fedalt");
    for (auto& run : runs) run.set("rounds", 3);
    runs[0].set("seed", 1);
    runs[1].set("seed", 2);
    CHECK(changed_settings(runs, {"seed"}).empty());
    runs[0].set("scope", "input");
    runs[1].set("scope", "output");
    runs[1].set("dropout", 0.3);  // the first run has no such setting
    CHECK(changed_settings(runs, {"seed"}) == std::vector<std::string>{"scope", "dropout"});
    CHECK(changed_settings(runs, {}) == std::vector<std::string>{"seed", "scope", "dropout"});
    runs[1].set("algorithm", "ditto");  // other methods have other settings
    CHECK(changed_settings(runs, {"seed"}).empty());
    CHECK(changed_settings({}, {}).empty());
}

TEST_CASE("loss deviation per class, own data: weighted by examples, 0 where a client has none") {
    // Class 0: means 1 (2 examples) and 4 (1): common 2. Class 1: only client 1, mean 3: common 3.
    const std::vector<ClassLoss> all{{0, {2, 0}, {2, 0}}, {1, {4, 6}, {1, 2}}};
    const auto d = loss_deviations(all, Average::pooled);
    CHECK(d[0][0] == -1);
    CHECK(d[1][0] == 2);
    CHECK(d[0][1] == -3);  // the missing class: 0 minus the mean
    CHECK(d[1][1] == 0);
    const auto unweighted = loss_deviations(all, Average::unweighted);
    CHECK(unweighted[0][0] == -1.5);
    CHECK(unweighted[1][0] == 1.5);
    const auto map = loss_deviation_on_own(all);
    map.validate();
    CHECK(map.series.size() == 2);
    CHECK(map.series[1].y == std::vector<double>{-3, 0});
    CHECK(loss_deviation_on_union(all).series[0].y == std::vector<double>{-1.5, 1.5});
    CHECK_THROWS_AS(loss_deviations({{0, {1}, {1}}, {1, {1, 2}, {1, 1}}}, Average::pooled), tessera::ConfigError);
}

TEST_CASE("a client whose loss diverged spoils no other client's deviation") {
    const std::vector<ClassLoss> sound{{0, {2}, {2}}, {1, {4}, {1}}};
    std::vector<ClassLoss> all = sound;
    all.push_back({2, {HUGE_VAL}, {3}});
    const auto with = loss_deviations(all, Average::pooled), without = loss_deviations(sound, Average::pooled);
    CHECK(with[0] == without[0]);
    CHECK(with[1] == without[1]);
    CHECK_FALSE(std::isfinite(with[2][0]));
    RunRecord run;
    run.add(loss_deviation_on_own(all));
    CHECK(json::parse(to_json(run))["extras"][0]["series"][0]["y"][2].is_null());
}

TEST_CASE("training memory is four bytes for three u and two v, beside the buffers") {
    CHECK(training_memory(100, 10) == 4 * 320);
    CHECK(training_memory(100, 10, 50) == 4 * 320 + 50);
    // No personal part and a personal copy of everything.
    CHECK(training_memory(110, 0) == 4 * 3 * 110);
    CHECK(training_memory(110, 110) == 4 * 5 * 110);
    const auto extra = memory_estimate(1'000'000, 500'000, 3e6);
    extra.validate();
    CHECK(extra.series[0].y == std::vector<double>{18, 16, 30});
    CHECK(extra.series[1].y == std::vector<double>{3, 3, 3});
    CHECK(extra.caption.find("and the buffers of back-propagation") != std::string::npos);
    CHECK(memory_estimate(10, 5).series.size() == 1);
    CHECK(memory_estimate(10, 5).caption.find("are not counted") != std::string::npos);
}

TEST_CASE("exponential smoothing by hand, with gaps") {
    CHECK(smoothed({1, 0, 0}, 0.5) == std::vector<double>{1, 0.5, 0.25});
    CHECK(smoothed({1, 0, 0}, 0) == std::vector<double>{1, 0, 0});
    const auto gap = smoothed({absent, 1, absent, 0}, 0.5);
    CHECK(std::isnan(gap[0]));
    CHECK(std::isnan(gap[2]));
    CHECK(gap[3] == 0.5);
    CHECK(smoothed({0.3, 0.3, 0.3}, 0.9)[2] == doctest::Approx(0.3).epsilon(1e-15));
    CHECK_THROWS_AS(smoothed({1}, 1), tessera::ConfigError);
    CHECK_THROWS_AS(smoothed({1}, -0.1), tessera::ConfigError);
    const auto curve = coherence_curve({1, 2}, {0.4, 0.8}, 0.75);
    curve.validate();
    CHECK(curve.series[0].y[1] == 0.8);
    CHECK(curve.series[1].y[1] == doctest::Approx(0.5).epsilon(1e-15));
    CHECK(curve.caption.find("factor 0.75") != std::string::npos);
    CHECK_THROWS_AS(coherence_curve({1}, {1, 2}), tessera::ConfigError);
}

}  // namespace analysis_test
