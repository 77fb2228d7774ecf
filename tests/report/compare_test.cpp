// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/compare.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <support/toy_records.hpp>
#include <tessera/report/compare_figures.hpp>

namespace compare_test {

using namespace tessera::report;
using tessera::support::measured, tessera::support::run_of_clients, tessera::support::runs_of_clients;

TEST_CASE("Student's t against its published table") {
    // Two-sided 95 % and 99 %, as tables print them: three decimals.
    const std::vector<std::pair<double, double>> at95{{1, 12.706}, {2, 4.303},  {3, 3.182},  {4, 2.776},
                                                      {9, 2.262},  {30, 2.042}, {120, 1.980}};
    for (const auto& [freedom, t] : at95) CHECK(std::abs(student_t(0.95, freedom) - t) < 5.01e-4);
    CHECK(std::abs(student_t(0.99, 4) - 4.604) < 5.01e-4);
    CHECK(std::abs(student_t(0.95, 1e7) - 1.95996) < 1e-5);  // the normal distribution
    CHECK(student_t(0.95, 2.5) < student_t(0.95, 2));        // between whole numbers
    CHECK(student_t(0.95, 2.5) > student_t(0.95, 3));
    CHECK(student_t(0.90, 5) < student_t(0.95, 5));
}

TEST_CASE("paired and unpaired intervals by hand") {
    // Differences 1, 2, 3: mean 2, deviation 1, half width 4.303 / sqrt 3 = 2.484.
    const std::vector<double> differences{1, 2, 3};
    const auto paired = paired_interval(differences, 0.95);
    CHECK(paired.mean == doctest::Approx(2));
    CHECK(paired.high - paired.mean == doctest::Approx(4.302653 / std::sqrt(3.0)));
    CHECK_FALSE(paired.excludes_zero());
    CHECK(paired_interval(std::vector<double>{2, 2.1, 1.9}, 0.95).excludes_zero());
    // Equal sizes and variances: Welch's degrees of freedom are n + m - 2 = 4.
    const auto welch = welch_interval(differences, std::vector<double>{4, 5, 6}, 0.95);
    CHECK(welch.mean == doctest::Approx(3));
    CHECK(welch.high - welch.mean == doctest::Approx(2.776445 * std::sqrt(2.0 / 3.0)));
    CHECK_FALSE(paired_interval(std::vector<double>{2}, 0.95).known());
    CHECK_FALSE(paired_interval(std::vector<double>{2, 2, 2}, 0.95).excludes_zero());  // nothing varied
}

TEST_CASE("the bootstrap is keyed, and as wide as the normal interval where that holds") {
    std::vector<double> values;
    tessera::Stream draw(tessera::Key{3});
    for (int i = 0; i < 400; ++i) values.push_back(draw.normal());
    const auto first = bootstrap_interval(values, 0.95, 4000, tessera::Key{1});
    const auto again = bootstrap_interval(values, 0.95, 4000, tessera::Key{1});
    const auto other = bootstrap_interval(values, 0.95, 4000, tessera::Key{2});
    CHECK(first.low == again.low);
    CHECK(first.low != other.low);
    // Width 2 * 1.96 * s / 20; a percentile of 4000 draws is within 5 % of its place.
    CHECK(first.high - first.low == doctest::Approx(2 * 1.96 * sample_deviation(values) / 20).epsilon(0.06));
}

TEST_CASE("two sets of runs of one method are not called different more often than one time in twenty") {
    // 50 pairs at 95 %: with exactly 5 %, more than 6 claims have probability 0.012 (binomial). 500 pairs tell more:
    // 25 are expected, with standard deviation 4.9; four of them are 19.
    for (const bool same_seeds : {false, true}) {
        std::size_t of_50 = 0, of_500 = 0;
        for (std::uint64_t p = 0; p < 500; ++p) {
            const auto a = runs_of_clients(0.7, 100 * p, 4, 10);
            // Another method of the same level under the same seeds: its luck is its own.
            auto b = runs_of_clients(0.7, 100 * p + 50, 4, 10);
            if (same_seeds)
                for (std::size_t s = 0; s < b.size(); ++s) b[s].set("seed", seed_of(a[s]));
            const auto result = compare(a, b, "a", "b", {.resamples = 100});
            REQUIRE(result.numbers.size() == 1);
            CHECK(result.numbers[0].paired == same_seeds);
            of_500 += result.numbers[0].claims();
            if (p < 50) of_50 += result.numbers[0].claims();
        }
        CAPTURE(same_seeds);
        CHECK(of_50 <= 6);
        CHECK(of_500 <= 44);
        CHECK(of_500 >= 6);  // an interval that is never wrong is too wide
    }
}

TEST_CASE("clients alone would call two seeds of one method different: no claim is made from them") {
    std::size_t from_clients = 0, claims = 0;
    for (std::uint64_t p = 0; p < 50; ++p) {
        const auto result =
            compare({run_of_clients(0.7, 2 * p)}, {run_of_clients(0.7, 2 * p + 1)}, "a", "b", {.resamples = 400});
        from_clients += result.over_clients.excludes_zero();
        claims += result.numbers[0].claims();
        CHECK_FALSE(result.numbers[0].over_seeds.known());
    }
    CHECK(claims == 0);
    CHECK(from_clients > 10);  // far above 2.5 of 50: all clients of a run share its luck
}

TEST_CASE("a real difference is found, and has the right sign") {
    const auto a = runs_of_clients(0.7, 1, 5), b = runs_of_clients(0.75, 11, 5);
    const auto up = compare(a, b, "a", "b"), down = compare(b, a, "b", "a");
    CHECK(up.numbers[0].claims());
    CHECK(up.numbers[0].over_seeds.low > 0);
    CHECK(up.over_clients.low > 0);
    CHECK(up.better > up.worse);
    CHECK(down.numbers[0].over_seeds.mean == doctest::Approx(-up.numbers[0].over_seeds.mean));
    CHECK(down.over_clients.high < 0);
    CHECK_FALSE(compare(a, a, "a", "a again").numbers[0].claims());
}

TEST_CASE("runs on different splits are refused, unless only means are asked for") {
    const std::vector<RunRecord> a{run_of_clients(0.7, 1), run_of_clients(0.7, 2)};
    const std::vector<RunRecord> elsewhere{run_of_clients(0.7, 1, "two"), run_of_clients(0.7, 2, "two")};
    CHECK_THROWS_WITH_AS(compare(a, elsewhere, "a.json", "b.json"),
                         "compare: the clients and seeds of a.json and b.json are no pairs: they differ in split; run "
                         "them with one --split-seed and --partition, or compare their means alone with --unpaired",
                         tessera::ConfigError);
    const auto means = compare(a, elsewhere, "a.json", "b.json", {.unpaired = true});
    CHECK(means.by_client.empty());
    CHECK_FALSE(means.over_clients.known());
    CHECK(means.numbers[0].over_seeds.known());
    auto unknown = a;
    for (auto& run : unknown) run.config.erase(run.config.begin() + 2);
    CHECK_THROWS_AS(compare(unknown, elsewhere, "a", "b"), tessera::ConfigError);
    // A split for each seed is well if the other set has the same.
    const std::vector<RunRecord> own_splits{run_of_clients(0.7, 1, "one"), run_of_clients(0.7, 2, "two")};
    CHECK(compare(own_splits, own_splits, "a", "b").numbers[0].paired);
    CHECK_THROWS_AS(compare(a, own_splits, "a", "b"), tessera::ConfigError);
    CHECK_THROWS_WITH_AS(compare({a[0], a[0]}, a, "a", "b"), doctest::Contains("seed 1 twice"), tessera::ConfigError);
    CHECK_THROWS_AS(compare(a, a, "a", "b", {.confidence = 1.5}), tessera::ConfigError);
}

TEST_CASE("what two runs were made on is told apart: data, split, aux and version") {
    const auto made = [](const std::string& data, const std::string& dealt, const std::string& aux,
                         const std::string& split = "one", const std::string& version = "1.0") {
        auto run = run_of_clients(0.7, 1, split);
        run.set("data_fingerprint", data);
        run.set("dealt_fingerprint", dealt);
        run.set("aux_fingerprint", aux);
        run.version = version;
        return std::vector{run};
    };
    const auto plain = made("d", "s", "none");
    const auto refusal = [&](const std::vector<RunRecord>& other) -> std::string {
        try {
            compare(plain, other, "a", "b");
        } catch (const tessera::ConfigError& e) {
            const std::string what = e.what();
            return what.substr(what.find("differ in "), what.find(", or compare") - what.find("differ in "));
        }
        return "";
    };
    // Held out of the clients' examples, public data change what clients hold and not how it was dealt.
    CHECK(refusal(made("d", "s", "held out", "less")) == "differ in aux; run them with the same --aux");
    CHECK(refusal(made("d", "t", "none", "other")) ==
          "differ in split; run them with one --split-seed and --partition");
    CHECK(refusal(made("e", "s", "none")) == "differ in data; run them on the same data");
    CHECK(refusal(made("e", "t", "held out", "other", "2.0"))
              .starts_with("differ in data and split and aux and version; "));
    CHECK(compare(plain, made("d", "s", "noise"), "a", "b").differing == std::vector<std::string>{"aux"});  // in pairs
    CHECK(compare(plain, made("d", "s", "none", "one", "2.0"), "a", "b").differing ==
          std::vector<std::string>{"version"});
    CHECK(compare(plain, plain, "a", "b").differing.empty());
}

TEST_CASE("a method without a personal model stands with its global one, unless it is asked for the other") {
    auto plain = run_of_clients(0.7, 1);
    plain.final_evaluations = {measured(0.6, Which::global)};
    for (auto& client : plain.per_client) std::swap(client.accuracy_global, client.accuracy_personal);
    auto both = run_of_clients(0.8, 1);
    both.final_evaluations.push_back(measured(0.5, Which::global));
    const auto served = compare({plain}, {both}, "fedavg", "ditto");
    CHECK(served.numbers[0].mean_a == doctest::Approx(0.6));
    CHECK(served.numbers[0].mean_b > 0.75);
    CHECK(served.by_client.size() == 40);
    const auto global = compare({plain}, {both}, "fedavg", "ditto", {.model = Compared::global});
    CHECK(global.numbers[0].mean_b == doctest::Approx(0.5));
    CHECK_THROWS_WITH_AS(compare({plain}, {both}, "fedavg", "ditto", {.model = Compared::personal}),
                         doctest::Contains("no final evaluation in common"), tessera::ConfigError);
}

TEST_CASE("of runs with stages the last are compared, also where an earlier one had personal models") {
    const auto staged = [](double value, Which model, const char* stage) {
        auto e = measured(value, model);
        e.stage = stage;
        return e;
    };
    auto plain = run_of_clients(0.7, 1), own = run_of_clients(0.8, 1);
    plain.final_evaluations = {staged(0.3, Which::global, "backbone"), staged(0.4, Which::personal, "backbone"),
                               staged(0.5, Which::global, "fedavg")};
    plain.rounds = {{.round = 1, .evaluations = {plain.final_evaluations[0], plain.final_evaluations[1]}},
                    {.round = 2, .evaluations = {plain.final_evaluations[2]}}};
    for (auto& client : plain.per_client) std::swap(client.accuracy_global, client.accuracy_personal);
    own.final_evaluations = {staged(0.3, Which::global, "backbone"), staged(0.4, Which::personal, "backbone"),
                             staged(0.6, Which::personal, "perada")};
    own.rounds = {{.round = 1, .evaluations = {own.final_evaluations[0], own.final_evaluations[1]}},
                  {.round = 2, .evaluations = {own.final_evaluations[2]}}};
    const auto both = compare({plain}, {own}, "fedavg", "perada"), turned = compare({own}, {plain}, "perada", "fedavg");
    REQUIRE(both.numbers.size() == 1);
    CHECK(both.numbers[0].mean_a == 0.5);
    CHECK(both.numbers[0].mean_b == 0.6);
    CHECK(both.by_client.size() == 40);
    REQUIRE(turned.numbers.size() == 1);
    CHECK(turned.numbers[0].mean_b == 0.5);
}

TEST_CASE("kept hits say who gets which examples right") {
    auto a = run_of_clients(0.7, 1, "one", 2), b = run_of_clients(0.7, 2, "one", 2);
    CHECK_FALSE(compare({a}, {b}, "a", "b").overlap.has_value());
    a.per_client[0].hits_personal = "1100";
    b.per_client[0].hits_personal = "1010";
    a.per_client[1].hits_personal = "11";
    b.per_client[1].hits_personal = "01";
    const auto overlap = compare({a}, {b}, "a", "b").overlap;
    REQUIRE(overlap.has_value());
    CHECK(overlap->both == doctest::Approx((0.25 + 0.5) / 2));
    CHECK(overlap->only_a == doctest::Approx((0.25 + 0.5) / 2));
    CHECK(overlap->only_b == doctest::Approx(0.25 / 2));
    CHECK(overlap->neither == doctest::Approx(0.25 / 2));
}

}  // namespace compare_test
