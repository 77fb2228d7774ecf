// SPDX-License-Identifier: BSD-3-Clause
#include <page/page.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <page/drawn.hpp>
#include <page/run_reader.hpp>
#include <support/toy_records.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/seeds.hpp>

namespace page_seeds_test {

using namespace tessera::report;
using tessera::support::run_of_curve;
using lab::page::to_html;

TEST_CASE("curves over seeds are the mean between the least and the most") {
    const auto curves = [](const std::vector<RunRecord>& runs) {
        const std::string page = to_html(runs, "Seeds");
        CHECK(page::well_nested(page));
        return page::figure(page, "accuracy");
    };
    const std::string drawn = curves({run_of_curve(1, {0.5, 0.7}), run_of_curve(2, {0.6, 0.9})});
    CHECK(page::count(drawn, "class=\"band\"") == 1);  // no global model
    CHECK(drawn.find("data-p=\"1,55,50,60 2,80,70,90 \"") != std::string::npos);
    // A round that one run did not evaluate has no band; another setting is another line.
    auto rare = run_of_curve(2, {0.6, 0.9});
    rare.rounds[0].evaluations.clear();
    CHECK(curves({run_of_curve(1, {0.5, 0.7}), rare}).find("data-p=\"2,80,70,90 \"") != std::string::npos);
    auto other = run_of_curve(2, {0.6, 0.9});
    other.set("rate", 0.25);
    CHECK(page::count(curves({run_of_curve(1, {0.5, 0.7}), other}), "class=\"band\"") == 0);
}

TEST_CASE("three lines can be shaded, a middle and its limits") {
    Extra lines{.id = "band",
                .title = "Band",
                .series = {{.name = "mean", .x = {1, 2}, .y = {2, 3}},
                           {.name = "least", .x = {1, 2}, .y = {1, 2}},
                           {.name = "most", .x = {1, 2}, .y = {4, 5}}}};
    const auto bands = [&] {
        return page::count(to_html({run_of_curve(1, {0.5})}, "Band", {lines}), "class=\"band\"");
    };
    CHECK(bands() == 0);
    lines.shaded = true;
    CHECK(bands() == 1);
    lines.series.pop_back();
    CHECK_THROWS_WITH_AS(lines.validate(), doctest::Contains("shaded"), tessera::ConfigError);
}

TEST_CASE("the file of several seeds gives back its runs and their numbers") {
    const std::uint64_t large = 18446744073709551557u;  // more than a double can hold
    const std::vector runs{run_of_curve(1, {0.5, 0.7}), run_of_curve(large, {0.6, 0.9})};
    const std::string text = seeds_to_json(runs);
    using namespace lab;
    const Json all = parse_json(text, "text");
    CHECK(all["config"].contains("rate"));
    CHECK_FALSE(all["config"].contains("seed"));  // it is what they differ in
    CHECK(number_in(all["seeds"][1], std::uint64_t{0}) == large);
    const auto& number = all["final"]["evaluations"][0];
    CHECK(number_in(number["value"], 0.0) == doctest::Approx(0.8));
    CHECK(number["values"].size() == 2);
    const auto back = runs_from_json(text, "text");
    REQUIRE(back.size() == 2);
    CHECK(seed_of(back[1]) == large);
    for (std::size_t i = 0; i < 2; ++i) CHECK(to_json(back[i]) == to_json(runs[i]));
    CHECK(to_json(runs_from_json(to_json(runs[0]), "one run")[0]) == to_json(runs[0]));
}

}  // namespace page_seeds_test
