// SPDX-License-Identifier: BSD-3-Clause
#include <page/page.hpp>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <page/drawn.hpp>
#include <support/toy_records.hpp>
#include <tessera/report/csv.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/json.hpp>

namespace extras_test {

using namespace tessera::report;
using tessera::support::curve, tessera::support::one_of_each, tessera::support::run_with;
using lab::page::to_html;
using nlohmann::json;
using page::count, page::well_nested;

namespace {

std::string figure(const std::string& page, const std::string& id) { return page::figure(page, "extra-" + id); }

}  // namespace

TEST_CASE("the page draws each kind and shows its numbers") {
    const std::string page = to_html({run_with(one_of_each())}, "Extras");
    CHECK(count(figure(page, "curve"), "<path d=\"") == 2);
    CHECK(figure(page, "curve").find("1,5 3,7 ") != std::string::npos);  // the gap is not drawn
    CHECK(count(figure(page, "dots"), "<circle class=\"dot") == 1);     // two of three lack a coordinate
    CHECK(count(figure(page, "violins"), "class=\"violin\"") == 2);
    CHECK(count(figure(page, "bars"), "<rect class=\"bar") == 3);
    CHECK(count(figure(page, "heat"), "<rect class=\"cell\"") == 3);
    CHECK(count(figure(page, "heat"), "<rect class=\"cell minus\"") == 1);
    CHECK(figure(page, "heat").find("client 8, class 0: -2") != std::string::npos);
    CHECK(figure(page, "table").find("<svg") == std::string::npos);
    CHECK(figure(page, "table").find("as it is") != std::string::npos);
    CHECK(figure(page, "table").find("0.125") != std::string::npos);
    for (const char* id : {"curve", "dots", "violins", "bars", "heat", "table"})
        CHECK(figure(page, id).find("<table>") != std::string::npos);
    CHECK(figure(page, "curve").find("20.5</td>") != std::string::npos);
    CHECK(well_nested(page));
    CHECK(page.find("nan") == std::string::npos);
    CHECK(page.find("inf\"") == std::string::npos);
}

TEST_CASE("a run without extras has no section for them, an extra without numbers says so") {
    CHECK(to_html({RunRecord{}}, "Plain").find("Analyses") == std::string::npos);
    Extra nothing = curve();
    for (auto& series : nothing.series) series.y = {absent, absent, HUGE_VAL};
    Extra no_series = curve("bare");
    no_series.series.clear();
    const std::string page = to_html({run_with({nothing, no_series})}, "Empty");
    for (const char* id : {"curve", "bare"}) {
        CHECK(figure(page, id).find("class=\"empty\"") != std::string::npos);
        CHECK(figure(page, id).find("<svg") == std::string::npos);
    }
}

TEST_CASE("several runs share a figure where they can be told apart in it") {
    const std::vector<Extra> mine = one_of_each();
    RunRecord other = run_with(mine);
    other.set("algorithm", "fedsim");
    const std::string page = to_html({run_with(mine), other}, "Two", {curve("across")});
    // Lines: the run's colour, whatever the dash.
    CHECK(count(figure(page, "curve"), "<path d=\"") == 4);
    CHECK(figure(page, "curve").find("fedsim, second") != std::string::npos);
    CHECK(count(figure(page, "curve"), "<g class=\"series c0") == 2);
    CHECK(count(figure(page, "curve"), "<g class=\"series c1") == 2);
    // Violins: a figure for each series, a violin for each run.
    CHECK(count(figure(page, "violins"), "class=\"violin\"") == 2);
    CHECK(figure(page, "violins").find("Violins, test") != std::string::npos);
    CHECK(count(figure(page, "violins-1"), "class=\"violin\"") == 2);
    // Bars of the same categories stand together, tables of the same columns below each other.
    CHECK(count(figure(page, "bars"), "<rect class=\"bar") == 6);
    CHECK(figure(page, "table").find("<th>fedalt, row</th>") != std::string::npos);
    CHECK(figure(page, "table").find("<th>fedsim, row</th>") != std::string::npos);
    // Heat maps cannot be laid over each other.
    CHECK(figure(page, "heat").find("Heat, fedalt") != std::string::npos);
    CHECK(figure(page, "heat-run-2").find("Heat, fedsim") != std::string::npos);
    CHECK(count(figure(page, "across"), "<path d=\"") == 2);
    CHECK(well_nested(page));
}

TEST_CASE("runs whose extras do not agree are shown beside each other") {
    Extra bars = one_of_each()[3], narrow = one_of_each()[5];
    bars.categories = {"up", "down"};
    narrow.series[0].name = "another column";
    RunRecord other = run_with({bars, narrow});
    other.set("algorithm", "fedsim");
    const std::string page = to_html({run_with(one_of_each()), other}, "Two");
    CHECK(count(figure(page, "bars"), "<rect class=\"bar") == 3);
    CHECK(figure(page, "bars-run-2").find("Bars, fedsim") != std::string::npos);
    CHECK(figure(page, "table-run-2").find("another column") != std::string::npos);
    CHECK(figure(page, "table").find("fedsim") == std::string::npos);
}

TEST_CASE("long series are cut in the page's tables, not in the files") {
    Extra many = curve();
    many.series.resize(1);
    many.series[0].x.clear();
    many.series[0].y.clear();
    for (int i = 0; i < 5000; ++i) many.series[0].x.push_back(i), many.series[0].y.push_back(std::sin(i));
    const auto run = run_with({many});
    const std::string page = to_html({run}, "Many");
    CHECK(count(figure(page, "curve"), "<tr>") == 201);
    CHECK(figure(page, "curve").find("first 200 of 5000 rows") != std::string::npos);
    CHECK(json::parse(to_json(run))["extras"][0]["series"][0]["y"].size() == 5000);
}

TEST_CASE("text of an extra cannot become markup") {
    const std::string evil = "<script>alert('x')</script>\"&";
    auto all = one_of_each();
    for (auto& extra : all) {
        extra.title = extra.caption = extra.x.title = extra.x.unit = extra.y.title = extra.y.unit = evil;
        for (auto& category : extra.categories) category = evil;
        for (auto& series : extra.series) {
            series.name = evil;
            for (auto& text : series.texts) text = evil;
        }
    }
    const std::string page = to_html({run_with(all)}, "Evil");
    CHECK(count(page, "<script>") == 1);  // our own
    CHECK(page.find("alert('x')") == std::string::npos);
    CHECK(well_nested(page));
    CHECK(json::parse(to_json(run_with(all)))["extras"][0]["title"] == evil);
}

TEST_CASE("extreme numbers still have an axis") {
    for (const double value : {0.0, 1e-300, 1e300, -1e300, 5e-324}) {
        auto all = one_of_each();
        for (auto& extra : all)
            for (auto& series : extra.series)
                for (auto& y : series.y) y = value;
        const std::string page = to_html({run_with(all)}, "Extreme");
        CHECK(page.find("nan") == std::string::npos);
        CHECK(page.find("inf\"") == std::string::npos);
        CHECK(well_nested(page));
    }
}

TEST_CASE("names that do not fit under a bar are broken or cut, and stand whole in the table") {
    Extra bars = one_of_each()[3];
    bars.categories.clear();
    for (auto& series : bars.series) series.y.clear();
    for (int i = 0; i < 9; ++i) {
        bars.categories.push_back("a rather long name of run " + std::to_string(i));
        for (auto& series : bars.series) series.y.push_back(i);
    }
    const std::string drawn = figure(to_html({run_with({bars})}, "Long names"), "bars");
    const std::string chart = drawn.substr(0, drawn.find("</svg>"));
    CHECK(chart.find(">a rather long name of run 3</text>") == std::string::npos);
    CHECK(chart.find("\xE2\x80\xA6</text>") != std::string::npos);
    CHECK(drawn.find("<th>a rather long name of run 3</th>") != std::string::npos);
}

}  // namespace extras_test
