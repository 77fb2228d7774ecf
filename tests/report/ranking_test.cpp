// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/analysis/ranking.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace ranking_test {

using namespace tessera::report;
using analysis::baseline_of, analysis::ranked, analysis::ranking;

namespace {

// Four clients; `global` and `personal` are accuracies of all, `personal` of client k lies k hundredths above.
RunRecord run_of(const char* algorithm, double global, double personal, const char* split = "a split") {
    RunRecord run;
    run.set("algorithm", algorithm);
    run.set("data_fingerprint", "the data");
    run.set("split_fingerprint", split);
    for (tessera::Id k = 0; k < 4; ++k)
        run.per_client.push_back({.id = k,
                                  .n_train = 10,
                                  .n_test = 5,
                                  .accuracy_global = global,
                                  .accuracy_personal = std::isnan(personal) ? absent : personal + 0.01 * k});
    return run;
}

}  // namespace

TEST_CASE("methods stand in the order of what clients are served, gains are against one baseline") {
    // The second method's own global model is bad, so that against it its gain would be the largest of all.
    const std::vector<std::vector<RunRecord>> sets{{run_of("fedavg", 0.8, absent)},
                                                   {run_of("bad", 0.1, 0.7)},
                                                   {run_of("local", absent, 0.75)},
                                                   {run_of("good", 0.8, 0.85)}};
    const std::vector<std::string> names{"fedavg", "bad", "local", "good"};
    CHECK(baseline_of(sets) == 2);
    CHECK(baseline_of({sets[0], sets[1]}) == 0);
    const auto rows = ranked(sets, names, baseline_of(sets));
    REQUIRE(rows.size() == 4);
    CHECK(rows[0].name == "good");
    CHECK(rows[1].name == "fedavg");
    CHECK(rows[2].name == "local");
    CHECK(rows[3].name == "bad");
    CHECK(rows[0].gain.mean == doctest::Approx(0.1));
    CHECK(rows[0].worse == 0);
    CHECK(rows[1].gain.mean == doctest::Approx(0.8 - 0.765));
    CHECK(std::isnan(rows[2].gain.mean));
    CHECK(rows[3].gain.mean == doctest::Approx(-0.05));
    CHECK(rows[3].worse == 4);
    CHECK(rows[0].accuracy.low <= rows[0].accuracy.mean);
    CHECK(rows[0].accuracy.high >= rows[0].accuracy.mean);
    CHECK(rows[0].deviation == doctest::Approx(spread(std::vector<double>{0.85, 0.86, 0.87, 0.88}).stddev));
    CHECK(rows[0].worst_tenth == doctest::Approx(0.85));
}

TEST_CASE("seeds are averaged client by client; on another split there are no gains") {
    const std::vector<std::vector<RunRecord>> sets{{run_of("local", absent, 0.5)},
                                                   {run_of("x", 0.5, 0.6), run_of("x", 0.5, 0.8)},
                                                   {run_of("y", 0.5, 0.9, "another split")}};
    const auto rows = ranked(sets, {"local", "x", "y"}, 0);
    CHECK(rows[0].name == "y");
    CHECK(std::isnan(rows[0].gain.mean));
    CHECK(rows[1].accuracy.mean == doctest::Approx(0.715));
    CHECK(rows[1].gain.mean == doctest::Approx(0.2));
    CHECK_THROWS_AS(ranked(sets, {"local", "x"}, 0), tessera::ConfigError);
    CHECK_THROWS_AS(ranked(sets, {"local", "x", "y"}, 3), tessera::ConfigError);
}

TEST_CASE("the table has the best first, and no gain for the baseline") {
    const std::vector<std::vector<RunRecord>> sets{{run_of("local", absent, 0.5)}, {run_of("good", 0.5, 0.9)}};
    const auto table = ranking(sets, {"local", "good"}, 0);
    CHECK(table.categories == std::vector<std::string>{"good", "local"});
    CHECK(table.series[1].texts[1] == "baseline");
    CHECK(table.series[1].texts[0].starts_with("+40.00 ["));
    CHECK(table.series[4].texts[0] == "0 of 4");
}

}  // namespace ranking_test
