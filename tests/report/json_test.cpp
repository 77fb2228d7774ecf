// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/json.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace json_test {

using namespace tessera::report;
using nlohmann::json;

namespace {

std::string written(std::string_view text) {
    std::string out;
    JsonWriter writer(out);
    writer.value(text);
    return out;
}

Evaluation some_accuracy(double value) {
    return {.model = Which::personal,
            .when = When::after,
            .on = On::shift("fog"),
            .split = SplitOf::test,
            .clients = Whom::unseen,
            .pick = Pick::mean_last(3),
            .average = Average::pooled,
            .metric = Metric::accuracy,
            .stage = "main",
            .value = value};
}

RunRecord some_run() {
    RunRecord run;
    run.set("algorithm", "fedspa-dst");
    run.set("rate", 0.05);
    run.set("rounds", 100);
    run.set("seed", std::numeric_limits<std::uint64_t>::max());
    run.set("shift", -3);
    run.set("dp", false);
    run.kernel_set = "avx512";
    run.version = "0.1.0";
    RoundRecord round{.round = 1, .seconds = 0.25, .bytes_up = 1ULL << 40U, .bytes_down = 7};
    round.flops = 1e12;
    round.examples = 600;
    round.diverged = 1;
    round.state_hash = "00ff";
    round.evaluations = {some_accuracy(0.1), some_accuracy(absent)};
    run.rounds = {round, round};
    run.rounds[1].round = 2;
    run.final_evaluations = {some_accuracy(1.0 / 3)};
    run.per_client = {{.id = 5, .n_train = 30, .n_test = 10, .accuracy_global = 0.5}};
    run.per_client[0].labels = {10, 0, 20};
    run.state_hash = "abcd";
    run.notes = {"a note"};
    return run;
}

}  // namespace

TEST_CASE("a run has the agreed shape") {
    const json run = json::parse(to_json(some_run()));
    CHECK(run["config"]["algorithm"] == "fedspa-dst");
    CHECK(run["config"]["rate"] == 0.05);
    CHECK(run["config"]["rounds"] == 100);
    CHECK(run["config"]["seed"] == std::numeric_limits<std::uint64_t>::max());
    CHECK(run["config"]["shift"] == -3);
    CHECK(run["config"]["dp"].is_boolean());
    CHECK(run["kernel_set"] == "avx512");
    REQUIRE(run["rounds"].size() == 2);
    const json& round = run["rounds"][0];
    CHECK(round["round"] == 1);
    CHECK(round["seconds"] == 0.25);
    CHECK(round["bytes_up"] == 1ULL << 40U);
    CHECK(round["bytes_down"] == 7);
    CHECK(round["flops"] == 1e12);
    CHECK(round["examples"] == 600);
    CHECK(round["formula_bytes_up"].is_null());
    CHECK(round["evaluations"].size() == 2);
    const json& last = run["final"];
    CHECK(last["state_hash"] == "abcd");
    CHECK(last["per_client"][0]["id"] == 5);
    CHECK(last["per_client"][0]["accuracy_global"] == 0.5);
    CHECK(last["per_client"][0]["accuracy_personal"].is_null());
    CHECK(last["per_client"][0]["labels"] == json::array({10, 0, 20}));
    CHECK(run["notes"][0] == "a note");
}

TEST_CASE("an evaluation has all its tags") {
    const json e = json::parse(to_json(some_run()))["final"]["evaluations"][0];
    const json expected{{"model", "personal"}, {"when", "after"},       {"on", "shift:fog"},   {"split", "test"},
                        {"clients", "unseen"}, {"pick", "mean_last:3"}, {"average", "pooled"}, {"metric", "accuracy"},
                        {"stage", "main"},     {"value", 1.0 / 3}};
    CHECK(e == expected);  // the double too, to its last bit
}

TEST_CASE("numbers that are not finite become null") {
    for (const double odd : {absent, HUGE_VAL, -HUGE_VAL}) {
        RunRecord run = some_run();
        run.rounds[0].seconds = odd;
        run.final_evaluations = {some_accuracy(odd)};
        run.set("rate", odd);
        const json read = json::parse(to_json(run));
        CHECK(read["rounds"][0]["seconds"].is_null());
        CHECK(read["final"]["evaluations"][0]["value"].is_null());
        CHECK(read["config"]["rate"].is_null());
    }
}

TEST_CASE("numbers read back as they were") {
    for (const double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789012345680.0, 1e21}) {
        std::string out;
        JsonWriter writer(out);
        writer.value(value);
        const double back = json::parse(out).get<double>();
        CHECK(back == value);
        CHECK(std::signbit(back) == std::signbit(value));
    }
}

TEST_CASE("text of any kind stays valid") {
    CHECK(written("a\"b\\c/\n\t\r\b\f") == R"("a\"b\\c/\n\t\u000d\u0008\u000c")");
    CHECK(written(std::string_view("\0\x1f\x7f", 3)) == "\"\\u0000\\u001f\x7f\"");
    const std::string whole = "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\xA7\xA9";
    CHECK(json::parse(written(whole)) == whole);

    const std::string mark = "\xEF\xBF\xBD";
    CHECK(json::parse(written("\xFF")) == mark);
    CHECK(json::parse(written("a\xC3")) == "a" + mark);                            // cut short
    CHECK(json::parse(written("\xC0\xAF")) == mark + mark);                        // overlong
    CHECK(json::parse(written("\xED\xA0\x80")) == mark + mark + mark);             // a surrogate
    CHECK(json::parse(written("\xF4\x90\x80\x80")) == mark + mark + mark + mark);  // past U+10FFFF
    for (int byte = 0; byte < 256; ++byte)
        for (const char* tail : {"", "x", "\x80", "\x80\x80", "\xBF\xBF\xBF"})
            CHECK(json::accept(written(std::string(1, static_cast<char>(byte)) + tail)));
}

TEST_CASE("names of settings are text too") {
    RunRecord run;
    run.set("a\"b\n", std::string("<script>"));
    run.set("a\"b\n", std::string("last word"));
    const json read = json::parse(to_json(run));
    CHECK(read["config"].size() == 1);
    CHECK(read["config"]["a\"b\n"] == "last word");
}

TEST_CASE("an empty run is a run") {
    const json read = json::parse(to_json(RunRecord{}));
    for (const char* key : {"config", "kernel_set", "rounds", "final"}) CHECK(read.contains(key));
    CHECK(read["config"].is_object());
    CHECK(read["rounds"].is_array());
    CHECK(read["final"]["evaluations"].is_array());
    CHECK(read["final"]["per_client"].is_array());
}

TEST_CASE("a round is one line") {
    const std::string line = to_json(some_run().rounds[1]);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(json::parse(line)["round"] == 2);
}

TEST_CASE("containers nest") {
    std::string out;
    JsonWriter writer(out);
    writer.object([&] {
        writer.key("a").array([&] {
            writer.value(1);
            writer.array([] {});
            writer.object([&] { writer.member("b", true); });
        });
        writer.member("c", "d");
    });
    CHECK(out == R"({"a":[1,[],{"b":true}],"c":"d"})");
}

}  // namespace json_test
