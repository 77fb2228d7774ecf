// SPDX-License-Identifier: BSD-3-Clause
#include <page/run_reader.hpp>

#include <cmath>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <tessera/report/json.hpp>

namespace run_reader_test {

using namespace tessera::report;
using namespace lab;

TEST_CASE("values of every kind come back") {
    const Json all =
        parse_json(R"( {"a": [1, -2.5e3, true, null, "x\n\u00e9\ud83d\ude00\\"], "b": {"c": {}}, "d": []} )", "t");
    const auto& a = items_in(member(all, "a"));
    REQUIRE(a.size() == 5);
    CHECK(number_in(a[0], std::uint64_t{0}) == 1);
    CHECK(number_in(a[1], 0.0) == -2500);
    CHECK(number_in(a[1], std::uint64_t{7}) == 7);  // is none
    CHECK(std::isnan(number_in(a[3], absent)));
    CHECK(text_in(a[4]) == "x\n\xC3\xA9\xF0\x9F\x98\x80\\");
    CHECK(member(member(all, "b"), "c").is_object());
    CHECK(member(member(all, "b"), "a").is_null());
    CHECK(items_in(member(all, "d")).empty());
    CHECK(text_in(member(member(member(all, "nothing"), "of"), "this")).empty());
    const Json many = parse_json("[255, 256, -1, 1.0]", "t");
    CHECK(number_in(many[0], std::uint8_t{7}) == 255);
    for (const std::size_t i : {1U, 2U, 3U}) CHECK(number_in(many[i], std::uint8_t{7}) == 7);  // what no byte holds
}

TEST_CASE("what is not JSON is refused with the file and the place") {
    for (const char* text :
         {"", "{", "[1,]", "{\"a\" 1}", "{\"a\":}", "nul", "01", "1.", "1e", "-", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"",
          "\"\\udc00\"", "\"open", "{} {}", "[1 2]", "\"tab\tinside\"", "{a:1}"}) {
        CAPTURE(text);
        CHECK_THROWS_WITH_AS(parse_json(text, "runs.json"), doctest::Contains("runs.json: is not JSON, byte "),
                             tessera::IoError);
    }
    CHECK_THROWS_WITH_AS(parse_json(std::string(100000, '['), "deep"), doctest::Contains("nested too deeply"), tessera::IoError);
    CHECK_THROWS_AS(parse_json("\"\xFF\"", "bytes that are no text"), tessera::IoError);
    CHECK_THROWS_AS(parse_json("1e999", "a number that is none"), tessera::IoError);
    CHECK_NOTHROW(parse_json(std::string(40, '[') + std::string(40, ']'), "not so deep"));
}

TEST_CASE("JSON that is no run is refused") {
    for (const char* text : {"{}", "[]", "3", R"({"config": {}, "final": {}})", R"({"runs": [{}]})"}) {
        CAPTURE(text);
        CHECK_THROWS_WITH_AS(runs_from_json(text, "other.json"), doctest::Contains("not the JSON of a run"),
                             tessera::IoError);
    }
    CHECK_THROWS_WITH_AS(
        runs_from_json(R"({"config": {}, "final": {"evaluations": [{"model": "local"}]}})", "odd.json"),
        doctest::Contains("odd.json: evaluation tag 'local'"), tessera::IoError);
}

TEST_CASE("the figures of a run come back as they were") {
    RunRecord run;
    run.add({.id = "shaded",
             .title = "T",
             .caption = "C",
             .x = {.title = "x", .unit = "s", .from_zero = true, .integers = true},
             .y = {.title = "y", .logarithmic = true},
             .series = {{.name = "a", .x = {1, 2}, .y = {0.1, absent}},
                        {.name = "b", .x = {1}, .y = {2}, .dashed = true},
                        {.name = "c", .x = {1}, .y = {3}}},
             .shaded = true});
    for (const Kind kind : {Kind::bars, Kind::heat, Kind::table})
        run.add({.id = std::string(word(kind)),
                 .title = "T",
                 .kind = kind,
                 .categories = {"p", "q"},
                 .series = {{.name = "s", .y = {1, 2}, .texts = {"one", "two"}}}});
    run.add({.id = "violin", .title = "V", .kind = Kind::violin, .series = {{.name = "s", .y = {1, 2, 3}}}});
    run.add({.id = "scatter", .title = "S", .kind = Kind::scatter, .series = {{.name = "s", .x = {1}, .y = {2}}}});
    const std::string text = to_json(run);
    const auto back = runs_from_json(text, "t").at(0);
    REQUIRE(back.extras.size() == 6);
    CHECK(back.extras[0].shaded);
    CHECK(back.extras[0].series[1].dashed);
    CHECK(back.extras[0].y.logarithmic);
    CHECK(to_json(back) == text);

    const auto spoilt = [&](const std::string& from, const std::string& to) {
        std::string other = text;
        other.replace(other.find(from), from.size(), to);
        return other;
    };
    CHECK_THROWS_WITH_AS(runs_from_json(spoilt("\"kind\":\"bars\"", "\"kind\":\"pie\""), "odd.json"),
                         doctest::Contains("odd.json: a figure's kind 'pie'"), tessera::IoError);
    CHECK_THROWS_WITH_AS(runs_from_json(spoilt("[\"p\",\"q\"]", "[\"p\"]"), "odd.json"),
                         doctest::Contains("one y for each category"), tessera::IoError);
}

TEST_CASE("clients come back with their names, or without") {
    RunRecord run;
    run.per_client = {{.id = 0, .name = "Hamlet \"the Dane\""}, {.id = 1}};
    const std::string text = to_json(run);
    const auto back = runs_from_json(text, "t").at(0);
    CHECK(back.per_client[0].name == "Hamlet \"the Dane\"");
    CHECK(back.per_client[1].name.empty());
    CHECK(to_json(back) == text);
    run.per_client[0].name.clear();
    CHECK(to_json(run).find("\"name\"") == std::string::npos);
}

TEST_CASE("a run that was stopped says so, and one that ended does not") {
    RunRecord run;
    CHECK(to_json(run).find("stopped") == std::string::npos);
    run.stopped = "interrupted after round 3 of 9, by SIGTERM";
    CHECK(runs_from_json(to_json(run), "run")[0].stopped == run.stopped);
    run.stopped.clear();
    CHECK(runs_from_json(to_json(run), "run")[0].stopped.empty());
}

TEST_CASE("settings keep their kind") {
    RunRecord run;
    run.set("whole", std::uint64_t{18446744073709551615u});
    run.set("negative", -3);
    run.set("fraction", 0.1);
    run.set("flag", true);
    run.set("text", "a \"b\"");
    run.set("nan", std::nan(""));
    const auto back = runs_from_json(to_json(run), "run")[0];
    for (const char* name : {"whole", "negative", "fraction", "flag", "text"})
        CHECK(*back.find(name) == *run.find(name));
    CHECK(to_json(back) == to_json(run));
}

}  // namespace run_reader_test
