// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/seeds.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace seeds_test {

using namespace tessera::report;

namespace {

Evaluation accuracy(double value, Which model = Which::personal, Pick pick = Pick::last()) {
    return {.model = model,
            .when = model == Which::personal ? When::after : When::before,
            .on = On::local(),
            .split = SplitOf::test,
            .clients = Whom::all,
            .pick = pick,
            .average = Average::pooled,
            .metric = Metric::accuracy,
            .stage = "",
            .value = value};
}

RunRecord run_of(std::uint64_t seed, std::vector<double> curve) {
    RunRecord run;
    run.set("algorithm", "some");
    run.set("seed", seed);
    run.set("rate", 0.05);
    for (std::size_t t = 0; t < curve.size(); ++t) {
        run.rounds.push_back({.round = t + 1, .seconds = 0.25});
        run.rounds.back().evaluations = {accuracy(curve[t])};
    }
    run.final_evaluations = {accuracy(curve.back())};
    run.per_client = {{.id = 3, .n_train = 7, .n_test = 2, .accuracy_personal = 0.5, .labels = {4, 3}}};
    run.per_client[0].hits_personal = "10";
    run.state_hash = "abc";
    run.notes = {"a note"};
    return run;
}

}  // namespace

TEST_CASE("mean and deviation over seeds, of what every run has") {
    auto runs = std::vector{run_of(1, {0.5, 0.7}), run_of(2, {0.6, 0.9}), run_of(3, {0.4, 0.8})};
    runs[1].final_evaluations.push_back(accuracy(0.1, Which::global));
    const auto all = over_seeds(runs);
    REQUIRE(all.size() == 1);
    CHECK(all[0].mean.value == doctest::Approx(0.8));
    CHECK(all[0].deviation() == doctest::Approx(0.1));  // of 0.7, 0.9, 0.8 with n - 1
    CHECK(all[0].values == std::vector{0.7, 0.9, 0.8});
    CHECK(std::isnan(over_seeds({runs[0]})[0].deviation()));
    CHECK(over_seeds({}).empty());
}

}  // namespace seeds_test
