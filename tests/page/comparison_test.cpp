// SPDX-License-Identifier: BSD-3-Clause
#include <page/page.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <page/drawn.hpp>
#include <tessera/core/random.hpp>
#include <tessera/report/compare.hpp>
#include <tessera/report/compare_figures.hpp>

namespace comparison_test {

using namespace tessera::report;
using lab::page::to_html;

namespace {

Evaluation accuracy(double value, Which model = Which::personal) {
    return {.model = model,
            .when = model == Which::personal ? When::after : When::before,
            .on = On::local(),
            .split = SplitOf::test,
            .clients = Whom::all,
            .pick = Pick::last(),
            .average = Average::unweighted,
            .metric = Metric::accuracy,
            .stage = "",
            .value = value};
}

// Client k of a method that is `level` good: the client's own level, the luck that a whole run shares, and its own.
RunRecord run_of(double level, std::uint64_t seed, const std::string& split = "one", std::size_t clients = 40) {
    tessera::Stream luck(tessera::Key{seed}(tessera::purpose::noise));
    const double shared = 0.01 * luck.normal();
    RunRecord run;
    run.set("algorithm", "some");
    run.set("seed", seed);
    run.set("split_fingerprint", split);
    double sum = 0;
    for (std::size_t k = 0; k < clients; ++k) {
        const double own = level + 0.1 * std::sin(static_cast<double>(k)) + shared + 0.02 * luck.normal();
        run.per_client.push_back({.id = static_cast<tessera::Id>(k), .n_test = 50, .accuracy_personal = own});
        sum += own;
    }
    run.final_evaluations = {accuracy(sum / static_cast<double>(clients))};
    return run;
}

std::vector<RunRecord> runs_of(double level, std::uint64_t first_seed, std::size_t seeds, std::size_t clients = 40) {
    std::vector<RunRecord> all;
    for (std::size_t s = 0; s < seeds; ++s) all.push_back(run_of(level, first_seed + s, "one", clients));
    return all;
}

}  // namespace

TEST_CASE("the page of a comparison shows its intervals and draws its clients") {
    auto a = runs_of(0.7, 1, 3), b = runs_of(0.75, 1, 3);
    a[0].per_client[0].hits_personal = b[0].per_client[0].hits_personal = "10";
    for (auto* set : {&a, &b})
        for (auto& run : *set) {
            run.final_evaluations.push_back(run.final_evaluations[0]);
            run.final_evaluations.back().pick = Pick::mean_last(8);
        }
    const std::vector<Comparison> all{compare(a, b, "a", "b")};
    auto both = a;
    both.insert(both.end(), b.begin(), b.end());
    const std::string page = to_html(both, "Comparison", comparison_figures(all, 0.95));
    CHECK(page::well_nested(page));
    const std::string table = page::figure(page, "extra-comparison");
    CHECK(table.find("3 pairs") != std::string::npos);
    // The answer leads the page and each row; tags are words.
    CHECK(page.find("fig-extra-comparison") < page.find("id=\"headline\""));
    CHECK(page.find("fig-extra-comparison") < page.find("fig-accuracy"));
    CHECK(page.find("fig-extra-client-differences") > page.find("fig-accuracy"));
    CHECK(table.find("<th class=\"n\">difference</th><th class=\"w\">claim</th>") != std::string::npos);
    CHECK(table.find("b against a: accuracy, last round, mean over clients") != std::string::npos);
    CHECK(table.find("accuracy, mean of the last 8 evaluated rounds, mean over clients") != std::string::npos);
    for (const char* tag : {"mean_last", "unweighted"}) CHECK(page.find(tag) == std::string::npos);
    CHECK(page::count(page::figure(page, "extra-client-differences"), "class=\"violin\"") == 1);
    CHECK(page::count(page::figure(page, "extra-overlap"), "<rect") >= 2);
    CHECK(page.find("nan") == std::string::npos);
}

}  // namespace comparison_test
