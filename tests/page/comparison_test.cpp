// SPDX-License-Identifier: BSD-3-Clause
#include <page/page.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <page/drawn.hpp>
#include <support/toy_records.hpp>
#include <tessera/core/random.hpp>
#include <tessera/report/compare.hpp>
#include <tessera/report/compare_figures.hpp>

namespace comparison_test {

using namespace tessera::report;
using tessera::support::runs_of_clients;
using lab::page::to_html;

TEST_CASE("the page of a comparison shows its intervals and draws its clients") {
    auto a = runs_of_clients(0.7, 1, 3), b = runs_of_clients(0.75, 1, 3);
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
