// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/extra.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <page/drawn.hpp>
#include <support/toy_records.hpp>
#include <tessera/report/csv.hpp>
#include <tessera/report/json.hpp>

namespace extra_test {

using namespace tessera::report;
using tessera::support::curve, tessera::support::one_of_each, tessera::support::run_with;
using page::count;
using nlohmann::json;

TEST_CASE("what does not fit together is refused before it is kept") {
    RunRecord run;
    const auto refused = [&](auto change) {
        Extra extra = one_of_each()[3];
        change(extra);
        CHECK_THROWS_AS(run.add(extra), tessera::ConfigError);
    };
    refused([](Extra& e) { e.id = ""; });
    refused([](Extra& e) { e.id = "a b"; });
    refused([](Extra& e) { e.id = "\"><script>"; });
    refused([](Extra& e) { e.title = ""; });
    refused([](Extra& e) { e.series[0].y.pop_back(); });
    refused([](Extra& e) { e.series[0].x = {1, 2}; });
    refused([](Extra& e) { e.series[0].texts = {"only one"}; });
    Extra line = curve();
    line.series[0].x.pop_back();
    CHECK_THROWS_WITH_AS(run.add(line), "extra 'curve': series 'first' needs one x for each y", tessera::ConfigError);
    CHECK(run.extras.empty());
    run.add(curve());
    CHECK(run.extras.size() == 1);
}

TEST_CASE("an extra of the same id takes the place of the earlier one") {
    RunRecord run = run_with({curve("a"), curve("b")});
    Extra again = curve("a");
    again.title = "Another";
    run.add(again);
    REQUIRE(run.extras.size() == 2);
    CHECK(run.extras[0].title == "Another");
    CHECK(run.extras[1].id == "b");
}

TEST_CASE("JSON keeps every number and name; gaps are null") {
    const json run = json::parse(to_json(run_with(one_of_each())));
    REQUIRE(run["extras"].size() == 6);
    const json& line = run["extras"][0];
    CHECK(line["id"] == "curve");
    CHECK(line["kind"] == "line");
    CHECK(line["title"] == "A curve");
    CHECK(line["caption"] == "What it shows.");
    CHECK(line["y"] == json{{"title", "share"}, {"unit", "%"}});
    CHECK(line["series"][0]["y"] == json::array({10, 20.5, 30}));
    CHECK(line["series"][1]["y"] == json::array({5, nullptr, 7}));
    CHECK(run["extras"][1]["series"][0]["y"][1].is_null());  // minus infinity
    CHECK(run["extras"][1]["series"][0]["texts"] == json::array({"p", "q", "r"}));
    CHECK(run["extras"][4]["categories"] == json::array({"7", "8", "9"}));
    CHECK(json::parse(to_json(RunRecord{}))["extras"].empty());
    CHECK(json::parse(to_json(one_of_each())).size() == 6);  // figures across runs
}

TEST_CASE("CSV has one row for each number") {
    const std::string text = extras_csv(one_of_each());
    CHECK(text.starts_with("extra,kind,series,name,x,y\r\n"));
    CHECK(count(text, "\r\n") == 1 + 6 + 3 + 6 + 4 + 6 + 2);
    CHECK(text.find("curve,line,first,,2,20.5\r\n") != std::string::npos);
    CHECK(text.find("curve,line,second,,2,\r\n") != std::string::npos);
    CHECK(text.find("dots,scatter,a,r,,5\r\n") != std::string::npos);
    CHECK(text.find("bars,bars,y,right,,4\r\n") != std::string::npos);
    CHECK(extras_csv({}) == "extra,kind,series,name,x,y\r\n");
}

}  // namespace extra_test
