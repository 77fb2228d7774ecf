// SPDX-License-Identifier: BSD-3-Clause
// Figures of the report beyond its curves: distributions, the split, phases, bands over seeds, and the numbers that
// every figure carries.
#include <page/page.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <page/categories.hpp>
#include <page/drawn.hpp>
#include <page/run_reader.hpp>
#include <support/toy_records.hpp>
#include <tessera/report/analysis/clients.hpp>
#include <tessera/report/json.hpp>

namespace figures_test {

using namespace tessera::report;
using tessera::support::measured;
using lab::page::to_html;
using page::count, page::figure, page::well_nested;

namespace {

RunRecord some_run(std::size_t seed, double level) {
    RunRecord run;
    run.set("algorithm", "ditto");
    run.set("seed", seed);
    for (std::size_t t = 1; t <= 3; ++t) {
        RoundRecord round{.round = t, .seconds = 2, .bytes_up = 10, .bytes_down = 20};
        round.evaluations = {measured(level - 0.3, Which::global), measured(level, Which::personal)};
        const double begin = 3 * static_cast<double>(t - 1);
        round.phases = {{"visits", begin, 1.5}, {"merge", begin + 1.5, 0.5}, {"evaluate", begin + 2, 1}};
        run.rounds.push_back(round);
    }
    for (std::size_t k = 0; k < 10; ++k) {
        ClientRecord client{.id = static_cast<tessera::Id>(k), .n_train = 10 + 10 * k, .n_test = 5};
        client.accuracy_global = 0.4;
        client.accuracy_personal = 0.55 + 0.05 * static_cast<double>(k);  // 100 % for the last
        client.labels = {5, 5 + 10 * k};
        run.per_client.push_back(client);
    }
    return run;
}

// What stands in the CSV of a figure, row by row.
std::vector<std::string> rows(const std::string& figure) {
    const auto from = figure.find("<metadata>"), to = figure.find("</metadata>");
    std::vector<std::string> out;
    if (from == std::string::npos) return out;
    std::string text = figure.substr(from + 10, to - from - 10);
    for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
        out.push_back(text.substr(0, end));
    return out;
}

std::vector<std::string> ids(const std::string& page) {
    std::vector<std::string> out;
    for (auto at = page.find(" id=\""); at != std::string::npos; at = page.find(" id=\"", at + 1))
        out.push_back(page.substr(at + 5, page.find('"', at + 5) - at - 5));
    return out;
}

}  // namespace

TEST_CASE("accuracies of clients fall into bins that hold all of them") {
    const std::string drawn = figure(to_html({some_run(1, 0.8)}, "A run"), "accuracy-histogram");
    const auto table = rows(drawn);
    REQUIRE(table.size() > 2);
    CHECK(table[0] == "series,from accuracy (%),to,clients");
    std::size_t personal = 0, global = 0;
    for (const auto& row : table) {
        const auto clients = row.substr(row.rfind(',') + 1);
        if (row.starts_with("personal,")) personal += std::stoul(clients);
        if (row.starts_with("global,")) global += std::stoul(clients);
    }
    CHECK(personal == 10);
    CHECK(global == 10);
    CHECK(drawn.find("global: 10 clients from 40 to 45 %") != std::string::npos);
    CHECK(drawn.find("from 100 ") == std::string::npos);  // 100 % is in the last bin
    CHECK(count(drawn, "<rect class=\"bar") == count(drawn, "<title>"));
    CHECK(count(drawn, "<li ") == 2);
}

TEST_CASE("clients that have names are called by them, and the time of a round is said to be without its evaluation") {
    RunRecord run = some_run(1, 0.8);
    run.per_client[3].name = "<Hamlet>";
    const std::string page = to_html({run}, "A run");
    for (const char* id : {"gain-sorted", "data"}) {
        CHECK(figure(page, id).find("client 3 (&lt;Hamlet&gt;): ") != std::string::npos);
        CHECK(figure(page, id).find("client 2: ") != std::string::npos);
    }
    CHECK(figure(page, "seconds").find("its visits and the merge, not its evaluation") != std::string::npos);
}

TEST_CASE("whole numbers begin a bin of their own, equal values have one bin") {
    const lab::page::Histogram whole{.label = "n",
                          .counted = "clients",
                          .x = {.integers = true},
                          .groups = {{1, 2, 2, 3}},
                          .names = {""},
                          .colours = {0}};
    CHECK(count(lab::page::histogram(whole), "<rect class=\"bar") == 3);
    for (const double value : {0.0, 7.0, -3.0, 1e-250, 1e200}) {
        const lab::page::Histogram equal{
            .label = "n", .counted = "clients", .groups = {{value, value}}, .names = {""}, .colours = {0}};
        const std::string drawn = lab::page::histogram(equal);
        CHECK(count(drawn, "<rect class=\"bar") == 1);
        CHECK(drawn.find("nan") == std::string::npos);
        CHECK(drawn.find("inf") == std::string::npos);
        if (value == 7) CHECK(rows(drawn)[1] == ",6.65,7.35,2");  // around the value, not from it on
    }
    CHECK(lab::page::histogram({.label = "n", .counted = "clients", .groups = {{absent}}, .names = {""}, .colours = {0}}).empty());
}

TEST_CASE("a violin for each model, and several runs show what they serve") {
    const std::string one = figure(to_html({some_run(1, 0.8)}, "A run"), "accuracy-violins");
    CHECK(count(one, "class=\"violin\"") == 2);
    CHECK(rows(one).size() == 1 + 20);
    RunRecord plain = some_run(2, 0.7);
    plain.set("algorithm", "fedavg");
    for (auto& client : plain.per_client) client.accuracy_personal = absent;
    const std::string two = figure(to_html({some_run(1, 0.8), plain}, "Two"), "accuracy-violins");
    CHECK(count(two, "class=\"violin\"") == 2);
    CHECK(two.find("fedavg, global: median 40.0 %") != std::string::npos);
    CHECK(two.find("ditto: median 75.0 %") != std::string::npos);
    const std::string seeds = figure(to_html({some_run(1, 0.8), some_run(2, 0.7)}, "Seeds"), "accuracy-violins");
    CHECK(count(seeds, "class=\"violin\"") == 2);
    CHECK(rows(seeds).size() == 1 + 40);
    CHECK(seeds.find("Clients of all seeds together.") != std::string::npos);
    CHECK(two.find("together") == std::string::npos);
}

TEST_CASE("the split: sizes and classes of clients, as they are") {
    const std::string page = to_html({some_run(1, 0.8)}, "A run");
    const auto classes = rows(figure(page, "classes"));
    REQUIRE(classes.size() == 11);
    CHECK(classes[0] == "client,class 0,class 1");
    CHECK(classes[10] == "9,5,95");
    const auto sizes = rows(figure(page, "data"));
    REQUIRE(sizes.size() == 11);
    CHECK(sizes[10] == "9,100");
    CHECK(count(figure(page, "data-histogram"), "<rect class=\"bar") > 1);
}

TEST_CASE("a client's number stands below the middle of its bar, and there is none for a client that is not") {
    const auto numbers_of = [](const std::string& drawn, const std::string& before) {
        std::vector<double> all;
        for (auto at = drawn.find(before); at != std::string::npos; at = drawn.find(before, at + 1))
            all.push_back(std::stod(drawn.substr(at + before.size())));
        return all;
    };
    for (const std::size_t clients : {std::size_t{1}, std::size_t{2}, std::size_t{10}, std::size_t{1000}}) {
        RunRecord run = some_run(1, 0.8);
        run.per_client.resize(clients);
        for (std::size_t k = 0; k < clients; ++k) run.per_client[k] = {.id = static_cast<tessera::Id>(k), .n_train = 5 + k};
        const std::string drawn = figure(to_html({run}, "A run"), "data");
        const auto ticks = numbers_of(drawn, "<line class=\"tick\" x1=\"");
        const auto labels = numbers_of(drawn, "y=\"269\">");
        const auto begins = numbers_of(drawn.substr(drawn.find("<rect")), " x=\"");
        const auto widths = numbers_of(drawn.substr(drawn.find("<rect")), " width=\"");
        REQUIRE(ticks.size() == labels.size());
        REQUIRE(!labels.empty());
        CHECK(labels.front() == 0);
        CHECK(labels.back() < static_cast<double>(clients));
        const std::size_t stride = (clients + begins.size() - 1) / begins.size();
        for (std::size_t i = 0; i < labels.size(); ++i) {
            const auto bar = static_cast<std::size_t>(labels[i]) / stride;
            if (static_cast<std::size_t>(labels[i]) % stride != 0) continue;
            // Places are rounded to hundredths.
            CHECK(std::abs(ticks[i] - (begins.at(bar) + widths.at(bar) / 2)) < 0.02);
        }
    }
}

TEST_CASE("phases lie where they were, and neighbours are joined, none lost") {
    const std::string drawn = figure(to_html({some_run(1, 0.8)}, "A run"), "phases");
    const auto table = rows(drawn);
    REQUIRE(table.size() == 1 + 9);
    CHECK(std::ranges::count(table, "evaluate,evaluate,3,3,8,1") == 1);
    CHECK(count(drawn, "<rect class=\"bar") == 9);
    CHECK(drawn.find("merge, round 2: 0.5 s") != std::string::npos);

    RunRecord busy = some_run(1, 0.8);
    busy.rounds.clear();
    for (std::size_t t = 0; t < 5000; ++t)
        busy.rounds.push_back({.round = t + 1, .seconds = 1, .phases = {{"visits", static_cast<double>(t), 1}}});
    const std::string joined = figure(to_html({busy}, "Busy"), "phases");
    CHECK(count(joined, "<rect class=\"bar") == 1);
    CHECK(joined.find("visits, rounds 1 to 5000: 5000 s") != std::string::npos);

    busy.rounds.clear();
    CHECK(figure(to_html({busy}, "None"), "phases").find("class=\"empty\"") != std::string::npos);
}

TEST_CASE("phases survive JSON") {
    const auto back = lab::runs_from_json(to_json(some_run(1, 0.8)), "text");
    REQUIRE(back.size() == 1);
    REQUIRE(back[0].rounds.at(2).phases.size() == 3);
    CHECK(back[0].rounds[2].phases[1].name == "merge");
    CHECK(back[0].rounds[2].phases[1].begin == 7.5);
    CHECK(back[0].rounds[2].phases[1].seconds == 0.5);
}

TEST_CASE("runs that differ in their seed alone are one line with a band") {
    const std::vector<RunRecord> seeds{some_run(1, 0.8), some_run(2, 0.7), some_run(3, 0.9)};
    const std::string drawn = figure(to_html(seeds, "Seeds"), "accuracy");
    CHECK(count(drawn, "class=\"band\"") == 2);
    CHECK(count(drawn, "<li ") == 2);
    CHECK(drawn.find("data-p=\"1,80,70,90 2,80,70,90 3,80,70,90 \"") != std::string::npos);
    CHECK(drawn.find("means over seeds") != std::string::npos);

    auto apart = seeds;
    apart[2].set("algorithm", "apfl");
    const std::string two = figure(to_html(apart, "Two"), "accuracy");
    CHECK(count(two, "class=\"band\"") == 2);  // one run has none
    CHECK(two.find("data-name=\"ditto, personal\" data-p=\"1,75,70,80 ") != std::string::npos);
    CHECK(two.find("data-name=\"apfl, personal\" data-p=\"1,90 ") != std::string::npos);

    for (std::size_t i = 0; i < 3; ++i) apart[i].set("rate", 0.1 * static_cast<double>(i));
    CHECK(count(figure(to_html(apart, "Three"), "accuracy"), "class=\"band\"") == 0);
}

TEST_CASE("runs are called by as many settings as tell each from all others, two where one would do") {
    const auto called = [](const std::vector<RunRecord>& runs) {
        const std::string page = to_html(runs, "Names"), begin = "<li>", end = ": a note</li>";
        std::vector<std::string> names;
        for (auto at = page.find(end); at != page.npos; at = page.find(end, at + 1)) {
            const auto from = page.rfind(begin, at) + begin.size();
            names.push_back(page.substr(from, at - from));
        }
        return names;
    };
    std::vector<RunRecord> all;
    for (const double rate : {0.1, 0.2})
        for (std::size_t seed = 1; seed <= 2; ++seed) {
            all.push_back(some_run(seed, 0.8));
            all.back().set("split_seed", seed);
            all.back().set("steps", 5);
            all.back().set("rate", rate);
            all.back().notes = {"a note"};
        }
    using Names = std::vector<std::string>;
    CHECK(called(all) == Names{"ditto seed=1, split_seed=1, rate=0.1", "ditto seed=2, split_seed=2, rate=0.1",
                               "ditto seed=1, split_seed=1, rate=0.2", "ditto seed=2, split_seed=2, rate=0.2"});
    CHECK(called({all[0], all[1]}) == Names{"ditto seed=1, split_seed=1", "ditto seed=2, split_seed=2"});
    CHECK(called({all[0], all[2]}) == Names{"ditto rate=0.1", "ditto rate=0.2"});
    all[2] = all[0];
    CHECK(called({all[0], all[2]}) == Names{"ditto #1", "ditto #2"});
    all[2].set("augment", "flip");  // which the other does not have
    CHECK(called({all[0], all[2]}) == Names{"ditto", "ditto augment=flip"});
}

TEST_CASE("three methods with three seeds each have three colours and three names, in every figure") {
    std::vector<RunRecord> all;
    for (const char* name : {"apfl", "ditto", "fedrep"})
        for (std::size_t seed = 1; seed <= 3; ++seed) {
            all.push_back(some_run(seed, 0.8));
            all.back().set("algorithm", name);
            for (auto& round : all.back().rounds) round.seconds = static_cast<double>(seed);
            all.back().add({.id = "own", .title = "O", .series = {{.name = "", .x = {1, 2}, .y = {1, 2}}}});
        }
    const std::string page = to_html(all, "Nine runs");
    CHECK(well_nested(page));
    for (const char* id : {"gain-size", "gain-sorted", "seconds", "bytes"}) {
        CAPTURE(id);
        const std::string drawn = figure(page, id);
        CHECK(count(drawn, "<li ") == 3);
        for (const char* name : {"apfl", "ditto", "fedrep"}) CHECK(count(drawn, "</i>" + std::string(name)) == 1);
        CHECK(count(drawn, "c2\"") > 0);
        CHECK(count(drawn, "c3\"") == 0);
    }
    CHECK(count(figure(page, "gain-size"), "<circle") == 9 * 10);
    CHECK(figure(page, "gain-size").find("Clients of all seeds together.") != std::string::npos);
    CHECK(figure(page, "seconds").find("data-name=\"ditto\" data-p=\"1,2,1,3 2,2,1,3 3,2,1,3 \"") !=
          std::string::npos);
    CHECK(figure(page, "bytes").find("data-name=\"ditto, measured\" data-p=\"1,30 2,60 3,90 \"") !=
          std::string::npos);
    CHECK(rows(figure(page, "phases")).size() == 1 + 3 * 9);
    CHECK(figure(page, "phases").find("Of several seeds the first is drawn.") != std::string::npos);
    CHECK(count(figure(page, "extra-own"), "<g class=\"series c2") == 3);

    for (std::size_t i = 0; i < all.size(); ++i) all[i].set("rate", static_cast<double>(i));  // now none are seeds
    const std::string apart = to_html(all, "Nine methods");
    CHECK(count(figure(apart, "seconds"), "<li ") == 9);
    CHECK(count(figure(apart, "gain-size"), "c3\"") > 0);
    CHECK(figure(apart, "phases").find("Of several seeds") == std::string::npos);
}

TEST_CASE("gains of clients of one size stand against global accuracy, and their sizes in words") {
    RunRecord run = some_run(1, 0.8);
    for (auto& client : run.per_client) client.n_train = 60;
    run.per_client[3].accuracy_global = 0.25;
    const std::string equal = to_html({run}, "Equal"), drawn = figure(equal, "gain-size");
    CHECK(drawn.find("Gain and global accuracy") != std::string::npos);
    CHECK(drawn.find("against the global one: all clients have 60 training examples.") != std::string::npos);
    CHECK(count(drawn, "<circle") == 10);
    CHECK(std::ranges::count(rows(drawn), "gains,25,45") == 1);
    CHECK(figure(equal, "data").find("10 clients, 600 training examples, 60 each.") != std::string::npos);
    CHECK(figure(equal, "data-histogram").empty());  // it would be one bar
    run.per_client[0].n_train = 61;
    const std::string unequal = to_html({run}, "Unequal");
    CHECK(figure(unequal, "gain-size").find("Gain and client size") != std::string::npos);
    CHECK(count(figure(unequal, "gain-size"), "<circle") == 10);
    CHECK(rows(figure(unequal, "gain-size"))[1].starts_with("gains,61,"));
    CHECK(figure(unequal, "data").find("601 training examples.") != std::string::npos);
    CHECK_FALSE(figure(unequal, "data-histogram").empty());
}

TEST_CASE("of curves of bytes that lie on each other one is drawn, and said") {
    const auto of = [](std::size_t up, std::size_t down, double formula_up, double formula_down) {
        RunRecord run = some_run(1, 0.8);
        for (auto& round : run.rounds) {
            round.bytes_up = up, round.bytes_down = down;
            round.formula_bytes_up = formula_up, round.formula_bytes_down = formula_down;
        }
        return run;
    };
    const auto lines = [](const RunRecord& run) {
        const std::string drawn = figure(to_html({run}, "Bytes"), "bytes");
        std::vector<std::string> names;
        for (auto at = drawn.find("data-name=\""); at != std::string::npos; at = drawn.find("data-name=\"", at + 1))
            names.push_back(drawn.substr(at + 11, drawn.find('"', at + 11) - at - 11));
        CHECK((count(drawn, "gives the same, within 0.5 %") > 0) == (names[0].find("measured") == std::string::npos));
        return names;
    };
    using Names = std::vector<std::string>;
    CHECK(lines(of(1000, 1001, 999, 998)) == Names{"up, and as much down"});
    CHECK(lines(of(1000, 2000, 999, 1998)) == Names{"up", "down"});
    CHECK(lines(of(1000, 1000, 900, 900)) == Names{"up, and as much down, measured", "up, and as much down, formula"});
    CHECK(lines(of(1000, 1000, 900, 1000)) == Names{"up, measured", "down, measured", "up, formula", "down, formula"});
    CHECK(lines(of(1000, 1010, 999, 1009)) == Names{"up", "down"});  // a hundredth can be seen
    CHECK(lines(of(1000, 3000, absent, absent)) == Names{"up, measured", "down, measured"});
}

TEST_CASE("seeds: tables have mean and deviation, then seed by seed; one run has neither") {
    std::vector<RunRecord> all;
    for (std::size_t seed = 1; seed <= 3; ++seed) {
        all.push_back(some_run(seed, 0.8));
        all.back().set("preset", "");
        for (auto& client : all.back().per_client) client.accuracy_personal = 0.5 + 0.1 * static_cast<double>(seed);
        all.back().final_evaluations = {measured(0.7 + 0.1 * static_cast<double>(seed - 1), Which::personal),
                                        measured(0.5, Which::global)};
        all.back().final_evaluations.push_back(all.back().final_evaluations[0]);
        all.back().final_evaluations[2].metric = Metric::loss;
    }
    const auto table = [](const std::string& page, const std::string& id) {
        const auto from = page.find("id=\"" + id + "\"");
        return page.substr(from, page.find("</table>", from) - from);
    };
    const std::string page = to_html(all, "Seeds");
    const std::string headline = table(page, "headline"), spread = table(page, "spread"),
                      evaluations = table(page, "evaluations"), config = table(page, "config");
    CHECK(headline.find("mean \xC2\xB1 deviation, 3 seeds") < headline.find("ditto seed=1"));
    CHECK(headline.find("<td>80.00 \xC2\xB1 10.00 %</td><td>50.00 \xC2\xB1 0.00 %</td>") != std::string::npos);
    CHECK(count(headline, "<tr") == 1 + 1 + 3);
    CHECK(spread.find("70.0 \xC2\xB1 10.0 % (70.0 \xC2\xB1 10.0 %)") != std::string::npos);
    CHECK(count(spread, "<th class=\"n\">") == 2);
    CHECK(evaluations.find("80.00 \xC2\xB1 10.00 %</td><td class=\"n\">70.00 \xC2\xB7 80.00 \xC2\xB7 90.00<") !=
          std::string::npos);
    CHECK(evaluations.find("0.8 \xC2\xB1 0.1<") != std::string::npos);
    CHECK(count(evaluations, "<tr>") == 1 + 3);
    CHECK(evaluations.find("stage") == std::string::npos);
    CHECK(config.find("<th>seed</th><td class=\"v\"><code>1, 2, 3</code>") != std::string::npos);
    CHECK(config.find("preset") == std::string::npos);  // nobody set it
    CHECK(config.find("differs") == std::string::npos);
    CHECK(well_nested(page));

    all[2].set("algorithm", "apfl");  // two seeds of one method, and one of another
    all[2].final_evaluations[0].stage = "tune";
    const std::string two = to_html(all, "Two methods");
    CHECK(count(table(two, "headline"), "<tr class=\"mean\">") == 1);
    CHECK(table(two, "evaluations").find("<th>apfl</th><td>accuracy</td><td class=\"n\">90.00 %</td>") !=
          std::string::npos);
    CHECK(table(two, "evaluations").find("<td>tune</td>") != std::string::npos);
    CHECK(table(two, "config").find("<tr class=\"differs\"><th>seed") != std::string::npos);

    const std::string one = to_html({all[0]}, "One");
    CHECK(one.find("\xC2\xB1") == std::string::npos);
    CHECK(one.find("seed by seed") == std::string::npos);
}

TEST_CASE("a caption tells which rounds belong to which stage") {
    RunRecord run = some_run(1, 0.8);
    CHECK(figure(to_html({run}, "One"), "accuracy").find("Stages:") == std::string::npos);
    for (auto& round : run.rounds)
        for (auto& e : round.evaluations) e.stage = round.round < 3 ? "fedavg" : "ditto";
    run.rounds[0].evaluations.clear();
    const std::string page = to_html({run}, "Two");
    CHECK(figure(page, "accuracy").find("Stages: fedavg in rounds 1 to 2, ditto in rounds 3 to 3.") !=
          std::string::npos);
    CHECK(figure(page, "accuracy-bytes").find("Stages:") == std::string::npos);  // its axis has no rounds
}

TEST_CASE("names under bars break at blanks and hyphens, into as many lines as there is room for") {
    const auto lines = [](const std::string& name, const Axis& x) {
        const std::vector<std::string> names{name, "b", "c", "d", "e", "f"};  // room for eight characters
        const std::string chart = lab::page::category_chart("c", names, x, {}, {{{0, 1, 0, ""}}}, {""});
        std::vector<std::string> out;
        for (auto at = chart.find("class=\"middle\""); at != std::string::npos;
             at = chart.find("class=\"middle\"", at + 1)) {
            const auto from = chart.find('>', at) + 1;
            out.push_back(chart.substr(from, chart.find('<', from) - from));
        }
        out.resize(out.size() - 5);  // the others
        return out;
    };
    using Lines = std::vector<std::string>;
    CHECK(lines("short", {}) == Lines{"short"});
    CHECK(lines("block 2, personal only", {}) == Lines{"block 2,", "personal", "only"});
    CHECK(lines("fedavg-ft seed=1", {}) == Lines{"fedavg-", "ft", "seed=1"});
    CHECK(lines("block 2, personal only", {.title = "t"}) == Lines{"block 2,", "persona\xE2\x80\xA6"});
    CHECK(lines("indivisible", {}) == Lines{"indivis\xE2\x80\xA6"});
    CHECK(lines("indivisible word", {}) == Lines{"indivis\xE2\x80\xA6", "word"});
}

TEST_CASE("counts in tables are whole, however large; what was not reached stands with the numbers") {
    RunRecord run = some_run(1, 0.8);
    run.add({.id = "large", .title = "L", .kind = Kind::table, .categories = {"a", "b", "c"},
             .series = {{.name = "n", .y = {1423352, 1e13, 0.123456}}, {.name = "t", .y = {1, 2, 3}, .texts = {">20", "7", "9"}}}});
    const std::string table = figure(to_html({run}, "Tables"), "extra-large");
    for (const char* shown : {">1423352<", ">1e+13<", ">0.1235<"}) CHECK(table.find(shown) != std::string::npos);
    CHECK(table.find("<td class=\"n\">&gt;20</td>") != std::string::npos);
    CHECK(count(table, "class=\"w\"") == 0);
}

TEST_CASE("accuracy against bytes and seconds: what was spent until a round, of seeds the mean") {
    RunRecord one = some_run(1, 0.8), two = some_run(2, 0.6);
    for (auto& round : two.rounds) round.seconds = 4;
    const std::string page = to_html({one, two}, "Seeds");
    // 30 bytes a round; 2 and 4 seconds. Mean, least and most accuracy of the two.
    const std::string bytes = figure(page, "accuracy-bytes"), seconds = figure(page, "accuracy-seconds");
    CHECK(bytes.find("data-p=\"30,70,60,80 60,70,60,80 90,70,60,80 \"") != std::string::npos);
    CHECK(seconds.find("data-p=\"3,70,60,80 6,70,60,80 9,70,60,80 \"") != std::string::npos);
    CHECK(bytes.find("sent so far (B)") != std::string::npos);
    CHECK(count(bytes, "class=\"series") == 2);  // personal and global
    CHECK(figure(page, "accuracy").find("data-p=\"1,70,60,80 2,") != std::string::npos);  // rounds stay rounds
    one.rounds[0].evaluations.clear();  // what it spent still counts
    CHECK(figure(to_html({one}, "Later"), "accuracy-bytes").find("data-p=\"60,80 90,80 \"") != std::string::npos);
    for (auto& round : one.rounds) round.evaluations.clear();
    CHECK(figure(to_html({one}, "Never"), "accuracy-bytes").find("No accuracy was recorded.") != std::string::npos);
}

TEST_CASE("a report tells the rounds to reach accuracies that some run reaches, of the model that is served") {
    RunRecord personal = some_run(1, 0.8), common = some_run(2, 0.8);
    common.set("algorithm", "fedavg");
    personal.rounds[0].evaluations[1].value = 0.71;
    for (auto& round : common.rounds) round.evaluations.pop_back();  // its 50 % are of the global model
    const std::string table = figure(to_html({personal, common}, "Two"), "extra-rounds-to-reach");
    for (const char* target : {"70 %: rounds", "75 %: rounds", "80 %: rounds"})
        CHECK(table.find(target) != std::string::npos);
    CHECK(table.find("85 %") == std::string::npos);
    CHECK(count(table, ">&gt;3<") == 3);
    CHECK(count(table, ">1<") == 1);
    CHECK(count(table, ">2<") == 2);
    for (auto& round : common.rounds) round.evaluations.clear();
    const std::string none = to_html({common}, "None");
    CHECK(none.find("rounds-to-reach") == std::string::npos);
    CHECK(well_nested(none));
}

TEST_CASE("the scale of a map writes thousands out") {
    RunRecord run = some_run(1, 0.8);
    run.per_client[3].labels[1] = 1'340;
    CHECK(figure(to_html({run}, "Large"), "classes").find("0<i></i>1,340 examples") != std::string::npos);
    run.per_client[3].labels[1] = 12'345'678;
    CHECK(figure(to_html({run}, "Larger"), "classes").find("0<i></i>12,345,678 examples") != std::string::npos);
    run.per_client[3].labels[1] = 999;
    CHECK(figure(to_html({run}, "Small"), "classes").find("0<i></i>999 examples") != std::string::npos);
}

TEST_CASE("which model is right, as bars that sum to 100") {
    RunRecord run = some_run(1, 0.8);
    run.add(analysis::breakdown_bars({0.5, 0.125, 0.25, 0.125}));
    const auto table = rows(figure(to_html({run}, "A run"), "extra-breakdown"));
    REQUIRE(table.size() == 5);
    CHECK(table[2] == ",global only,12.5");
    CHECK(table[3] == ",personal only,25");
}

TEST_CASE("every drawing carries its numbers, with names that cannot break out") {
    const std::string evil = "a,b\"</metadata><script>";
    RunRecord run = some_run(1, 0.8);
    run.add({.id = "dots", .title = "D", .kind = Kind::scatter, .series = {{.name = evil, .x = {1}, .y = {2}}}});
    run.add({.id = "violin", .title = "V", .kind = Kind::violin, .series = {{.name = evil, .y = {1, 2}}}});
    run.add(
        {.id = "heat", .title = "H", .kind = Kind::heat, .categories = {evil}, .series = {{.name = "r", .y = {3}}}});
    const std::string page = to_html({run}, "A run");
    CHECK(count(page, "<metadata>") == count(page, "</metadata>"));
    CHECK(count(page, "<svg class=\"chart") == count(page, "<metadata>") + count(page, "<svg class=\"chart lines"));
    CHECK(count(page, "<script>") == 1);
    const std::string escaped = "&quot;a,b&quot;&quot;&lt;/metadata&gt;&lt;script&gt;&quot;";
    CHECK(rows(figure(page, "extra-dots")).at(1) == escaped + ",1,2");
    CHECK(rows(figure(page, "extra-violin")).at(2) == escaped + ",2");
    CHECK(rows(figure(page, "extra-heat")).at(1) == escaped + ",3");
    CHECK(well_nested(page));
}

TEST_CASE("no id stands twice, whatever runs and comparisons are called") {
    const Extra line{.id = "same", .title = "S", .series = {{.name = "a", .x = {1}, .y = {2}}}};
    Extra bars{
        .id = "same", .title = "S", .kind = Kind::bars, .categories = {"c"}, .series = {{.name = "a", .y = {2}}}};
    RunRecord one = some_run(1, 0.8), two = some_run(2, 0.7);
    one.add(line);
    two.add(bars);
    two.per_client.pop_back();  // another split
    const auto all = ids(to_html({one, two}, "Two", {line, line}));
    CHECK(all.size() > 20);
    for (const auto& id : all) {
        CAPTURE(id);
        CHECK(std::ranges::count(all, id) == 1);
    }
    CHECK(std::ranges::count(all, "fig-extra-same") == 1);
    CHECK(std::ranges::count(all, "fig-extra-same-again-2") == 1);
}

TEST_CASE("a page refuses every request, its own script and style aside") {
    const std::string page = to_html({some_run(1, 0.8)}, "A run");
    const auto policy = page.find(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src "
        "data: blob:");
    REQUIRE(policy != std::string::npos);
    CHECK(policy < page.find("<style>"));
    CHECK(policy < page.find("<script>"));
}

}  // namespace figures_test
