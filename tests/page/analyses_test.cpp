// SPDX-License-Identifier: BSD-3-Clause
#include <page/page.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <page/drawn.hpp>
#include <tessera/report/analysis/class_loss.hpp>
#include <tessera/report/analysis/clients.hpp>
#include <tessera/report/analysis/masks.hpp>
#include <tessera/report/analysis/privacy.hpp>
#include <tessera/report/analysis/ranking.hpp>

namespace analyses_test {

using namespace tessera;
using namespace tessera::report;
using lab::page::to_html;

TEST_CASE("a diverged client leaves a whole page") {
    RunRecord run;
    run.set("algorithm", "fedalt");
    run.per_client = {{.id = 0, .n_train = 100, .n_test = 4, .accuracy_global = 0.5, .accuracy_personal = 0.75},
                      {.id = 1, .n_train = 10, .n_test = 2, .accuracy_global = 1, .accuracy_personal = 0.5},
                      {.id = 2, .n_train = 50, .n_test = 8, .accuracy_global = 0.5, .accuracy_personal = absent}};
    analysis::add_client_figures(run);
    const std::string page = to_html({run}, "Diverged");
    for (const char* id : {"change-size", "change-violins", "harmed", "quantiles"})
        CHECK(page.find("<figure id=\"fig-extra-" + std::string(id) + "\"") != std::string::npos);
    CHECK(page.find("nan") == std::string::npos);
    CHECK(page.find("id=\"spread\"") == std::string::npos);  // the quantiles stand once
    // No client has a personal model: no figure of changes, and still a page.
    RunRecord none;
    none.per_client = {{.id = 0, .n_train = 5, .n_test = 1, .accuracy_global = 0.5, .accuracy_personal = absent}};
    analysis::add_client_figures(none);
    const std::string bare = to_html({none}, "Bare");
    CHECK(page::well_nested(bare));
    CHECK(bare.find("fig-extra-change-size") == std::string::npos);
}

TEST_CASE("a client whose loss diverged leaves a gap in the map of losses") {
    RunRecord run;
    run.add(analysis::loss_deviation_on_own({{0, {2}, {2}}, {1, {4}, {1}}, {2, {HUGE_VAL}, {3}}}));
    CHECK(page::count(to_html({run}, "Heat"), "<rect class=\"cell") == 2);
}

TEST_CASE("an overlap of masks is drawn in pairs") {
    RunRecord run;
    run.add({.id = "mask-overlap",
             .title = "Overlap",
             .kind = Kind::heat,
             .categories = {"0", "1"},
             .series = {{.name = "0", .y = {absent, 2.0 / 6}}, {.name = "1", .y = {2.0 / 6, absent}}}});
    const std::string drawn = page::figure(to_html({run}, "Masks"), "extra-mask-overlap");
    CHECK(page::count(drawn, "<rect class=\"cell\"") == 2);
    CHECK(page::count(drawn, "fill-opacity=\"1.00\"") == 2);  // of the pairs the largest
    CHECK(drawn.find("0<i></i>0.333") != std::string::npos);
}

namespace {

analysis::PrivacyStatement statement(std::vector<double> epsilon) {
    return {.epsilon = std::move(epsilon), .delta = 1e-6, .adjacency = "one example added or removed",
            .sampling = "Poisson samples", .conversion = "improved", .noise = "replayable: NOT PRIVATE",
            .personal = "covered"};
}

RunRecord served(const char* algorithm, double global, double personal) {
    RunRecord run;
    run.set("algorithm", algorithm);
    run.set("data_fingerprint", "the data");
    run.set("split_fingerprint", "a split");
    for (Id k = 0; k < 4; ++k)
        run.per_client.push_back({.id = k,
                                  .n_train = 10,
                                  .n_test = 5,
                                  .accuracy_global = global,
                                  .accuracy_personal = personal + 0.01 * k});
    return run;
}

}  // namespace

TEST_CASE("the page shows the whole statement: over its full width, and long texts break") {
    auto made = statement({3, 1, 2, 10});
    made.noise = "replayable from the seed of the run: NOT PRIVATE if released";
    const auto drawn = [](const analysis::PrivacyStatement& s) {
        RunRecord run;
        run.add(analysis::privacy_table(s));
        return to_html({run}, "Private");
    };
    const std::string page = drawn(made), table = page::figure(page, "extra-privacy");
    CHECK(table.starts_with("<figure id=\"fig-extra-privacy\" class=\"wide\">"));
    CHECK(table.find("<td class=\"w\">replayable from the seed of the run: NOT PRIVATE if released</td>") !=
          std::string::npos);
    CHECK(table.find("<td class=\"w\">10</td>") != std::string::npos);  // a column stands on one side
    CHECK(page::count(table, "class=\"n\"") == 0);
    CHECK(page.find("td.w, th.w { white-space: normal;") != std::string::npos);
    made = {.epsilon = {1}, .adjacency = "1", .sampling = "2", .conversion = "3", .noise = "4", .personal = "5"};
    const std::string numbers = page::figure(drawn(made), "extra-privacy");
    CHECK(numbers.starts_with("<figure id=\"fig-extra-privacy\">"));
    CHECK(page::count(numbers, "class=\"w\"") == 0);
    CHECK(page::count(numbers, "<td class=\"n\">") == 12);
}

TEST_CASE("a client whose epsilon is infinite has no dot") {
    RunRecord run;
    run.add(analysis::privacy_figure(statement({HUGE_VAL, 5})));
    CHECK(page::count(page::figure(to_html({run}, "Private"), "extra-privacy-clients"), "<circle") == 1);
}

TEST_CASE("the table leads the page of a comparison, best first, and the page has contents") {
    const std::vector<std::vector<RunRecord>> sets{{served("local", absent, 0.5)}, {served("good", 0.5, 0.9)}};
    const auto table = analysis::ranking(sets, {"local", "good"}, 0);
    const std::string page = to_html({sets[0][0], sets[1][0]}, "Two", {table});
    const auto shown = page::figure(page, "extra-ranking");
    CHECK(shown.find("<th>good</th>") < shown.find("<th>local</th>"));
    CHECK(page.find("<nav class=\"contents\">") < page.find("<a id=\"section-comparison\"></a><h2>Comparison</h2>"));
    CHECK(page.find("<a href=\"#section-final-evaluations\">") == std::string::npos);  // there is no such section here
    CHECK(page.find("<a href=\"#section-data\">Data</a>") != std::string::npos);
    CHECK(page::well_nested(page));
    CHECK(to_html({sets[1][0]}, "One").find("<nav") == std::string::npos);
}

}  // namespace analyses_test
