// SPDX-License-Identifier: BSD-3-Clause
#include <page/page.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <support/toy_records.hpp>

#include <page/drawn.hpp>
#include <page/svg.hpp>

namespace page_test {

using namespace tessera::report;
using tessera::support::measured;
using lab::page::to_html;
using page::count, page::figure, page::well_nested;

namespace {

RunRecord some_run(std::size_t rounds, std::size_t clients, bool personal) {
    RunRecord run;
    run.set("algorithm", "ditto");
    run.set("rate", 0.05);
    run.kernel_set = "avx2";
    run.version = "0.1.0";
    run.state_hash = "0123456789abcdef";
    run.notes = {"one note"};
    for (std::size_t t = 1; t <= rounds; ++t) {
        const double level = 1 - 1 / static_cast<double>(t + 1);
        RoundRecord round{.round = t, .seconds = 0.5, .bytes_up = 1000, .bytes_down = 3000};
        round.formula_bytes_up = round.formula_bytes_down = 900;
        for (const Metric metric : {Metric::accuracy, Metric::loss}) {
            round.evaluations.push_back(measured(0.8 * level, Which::global, metric));
            if (personal) round.evaluations.push_back(measured(0.9 * level, Which::personal, metric));
        }
        run.rounds.push_back(round);
    }
    for (std::size_t k = 0; k < clients; ++k) {
        ClientRecord client{.id = static_cast<tessera::Id>(k), .n_train = 10 + k, .n_test = 5, .accuracy_global = 0.5};
        if (personal) client.accuracy_personal = 0.5 + 0.1 * std::sin(static_cast<double>(k));
        client.labels = {5, 5 + k};
        run.per_client.push_back(client);
    }
    run.final_evaluations = {measured(0.7654, Which::global, Metric::accuracy)};
    if (personal) run.final_evaluations.push_back(measured(0.8765, Which::personal, Metric::accuracy));
    return run;
}

// Points of every line in a figure.
std::size_t points(const std::string& figure) {
    std::size_t found = 0;
    for (auto at = figure.find("data-p=\""); at != std::string::npos; at = figure.find("data-p=\"", at + 1))
        found += count(figure.substr(at, figure.find("\">", at) - at), ",");
    return found;
}

}  // namespace

TEST_CASE("every figure is there, with its data") {
    const std::string page = to_html({some_run(40, 25, true)}, "A run");
    CHECK(points(figure(page, "accuracy")) == 80);
    CHECK(points(figure(page, "loss")) == 80);
    CHECK(count(figure(page, "gain-size"), "<circle") == 25);
    CHECK(count(figure(page, "gain-sorted"), "<rect class=\"bar") == 25);
    CHECK(points(figure(page, "bytes")) == 160);
    CHECK(points(figure(page, "seconds")) == 40);
    CHECK(count(figure(page, "classes"), "<rect class=\"cell") == 50);
    CHECK(count(figure(page, "data"), "<rect class=\"bar") == 25);
    for (const char* id : {"accuracy", "loss", "gain-size", "gain-sorted", "bytes", "seconds", "classes", "data"})
        CHECK(figure(page, id).find("aria-label=\"") != std::string::npos);
    CHECK(well_nested(page));
    CHECK(page.find("nan") == std::string::npos);
    CHECK(page.find("inf\"") == std::string::npos);
}

TEST_CASE("numbers come with their tags in words, and the run with its identity") {
    const std::string page = to_html({some_run(3, 4, true)}, "A run");
    CHECK(page.find("87.65 %") != std::string::npos);
    CHECK(page.find("personal model, after local training, own test data, all clients, last round, mean over "
                    "clients") != std::string::npos);
    for (const char* text : {"avx2", "0.1.0", "0123456789abcdef", "one note", "0.05", "99 % quantile"})
        CHECK(page.find(text) != std::string::npos);
}

TEST_CASE("the page asks nothing of the network") {
    const std::string page = to_html({some_run(10, 10, true), some_run(10, 10, false)}, "Two runs");
    for (const char* text : {"://", "src=", "url(", "@import", "<link", "fetch(", "XMLHttp", "//cdn"})
        CHECK(page.find(text) == std::string::npos);
    CHECK(count(page, "href=") > 0);
    CHECK(count(page, "href=") == count(page, "href=\"#"));  // to its own sections
}

TEST_CASE("text cannot become markup") {
    const std::string evil = "<script>alert('x')</script>\"&";
    RunRecord run = some_run(3, 3, true);
    run.set("algorithm", evil);
    run.set(evil, evil);
    run.notes = {evil};
    run.kernel_set = run.version = run.state_hash = evil;
    run.final_evaluations[0].stage = evil;
    run.final_evaluations[0].on = On::shift(evil);
    for (auto& round : run.rounds)
        for (auto& e : round.evaluations) e.on = On::shift(evil);
    for (const auto& runs : {std::vector{run}, std::vector{run, run}}) {
        const std::string page = to_html(runs, evil);
        CHECK(count(page, "<script>") == 1);  // our own
        CHECK(page.find("alert('x')") == std::string::npos);
        CHECK(page.find("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;") != std::string::npos);
        CHECK(well_nested(page));
    }
}

TEST_CASE("a run without a personal model says so") {
    const std::string page = to_html({some_run(5, 5, false)}, "FedAvg");
    CHECK(page.find("no personal model in this run") != std::string::npos);
    CHECK(page.find("<p class=\"soft\" id=\"no-gain\">No personal model beside a global one") != std::string::npos);
    for (const char* id : {"gain-size", "gain-sorted"}) CHECK(figure(page, id).empty());  // two cards would be empty
    CHECK(count(figure(page, "accuracy-histogram"), "<rect class=\"bar") > 0);
    CHECK(to_html({some_run(5, 5, true)}, "Ditto").find("id=\"no-gain\"") == std::string::npos);
    CHECK(points(figure(page, "accuracy")) == 5);
    CHECK(figure(page, "accuracy").find("No personal model in this run.") != std::string::npos);
}

TEST_CASE("of a run with stages the page leads with the last, as the method is set") {
    const auto staged = [](Which model, double value, const char* stage) {
        auto e = measured(value, model);
        e.stage = stage;
        return e;
    };
    RunRecord run = some_run(2, 5, true);
    run.rounds[0].evaluations = {staged(Which::global, 0.1111, "backbone"),
                                 staged(Which::personal, 0.2222, "backbone")};
    run.rounds[1].evaluations = {staged(Which::global, 0.3333, "perada"), staged(Which::personal, 0.4444, "perada"),
                                 staged(Which::personal, 0.5555, "perada tune_steps=1")};
    run.final_evaluations = run.rounds[0].evaluations;
    run.final_evaluations.insert(run.final_evaluations.end(), run.rounds[1].evaluations.begin(),
                                 run.rounds[1].evaluations.end());
    run.final_evaluations.push_back(staged(Which::personal, 0.6666, "tune"));
    const auto headline = [](const std::vector<RunRecord>& runs) {
        const std::string page = to_html(runs, "Stages");
        const auto from = page.find("id=\"headline\"");
        return page.substr(from, page.find("<h2>Learning", from) - from);
    };
    const std::string cards = headline({run});
    for (const char* shown : {"33.33 %", "44.44 %"}) CHECK(cards.find(shown) != std::string::npos);
    for (const char* other : {"11.11 %", "22.22 %", "55.55 %", "66.66 %"})
        CHECK(cards.find(other) == std::string::npos);

    RunRecord second = run;
    second.set("seed", 2);
    run.set("seed", 1);
    const std::string rows = headline({run, second});
    CHECK(count(rows, "33.33 %") == 2);
    CHECK(count(rows, "44.44 %") == 2);
    CHECK(rows.find("22.22 %") == std::string::npos);

    std::erase_if(run.final_evaluations, [](const Evaluation& e) {
        return e.model == Which::personal && e.stage != std::string("backbone");
    });
    run.rounds[1].evaluations.erase(run.rounds[1].evaluations.begin() + 1, run.rounds[1].evaluations.end());
    const std::string common = headline({run});  // only an earlier stage had personal models
    CHECK(common.find("no personal model in the last stage") != std::string::npos);
    CHECK(common.find("22.22 %") == std::string::npos);
    run.rounds[1].evaluations[0].value = 0.87;
    const std::string table = figure(to_html({run}, "Stages"), "extra-rounds-to-reach");
    CHECK(table.find("85 %: rounds") != std::string::npos);  // of the model served in the end, the global one
}

TEST_CASE("a run that was stopped leads with that, and one that ended does not say so") {
    auto run = some_run(3, 4, true);
    CHECK(to_html({run}, "A run").find("come to its end") == std::string::npos);
    run.stopped = "interrupted after round 3 of 9, by <SIGTERM>";
    const std::string page = to_html({run, some_run(9, 4, true)}, "Two runs");
    CHECK(count(page, "This run did not come to its end: interrupted after round 3 of 9, by &lt;SIGTERM&gt;") == 1);
    CHECK(page.find("come to its end") < page.find("<h2>"));
}

TEST_CASE("nothing at all is still a page") {
    for (const auto& runs : {std::vector<RunRecord>{}, std::vector<RunRecord>(1), std::vector<RunRecord>(3)}) {
        const std::string page = to_html(runs, "");
        CHECK(well_nested(page));
        CHECK(figure(page, "accuracy").find("class=\"empty\"") != std::string::npos);
        CHECK(figure(page, "bytes").find("class=\"empty\"") != std::string::npos);
    }
}

TEST_CASE("runs are laid over each other and told apart") {
    RunRecord other = some_run(40, 25, true);
    other.set("rate", 0.1);
    RunRecord third = some_run(40, 25, false);
    third.set("algorithm", "fedavg");
    const std::string page = to_html({some_run(40, 25, true), other, third}, "Three");
    CHECK(points(figure(page, "accuracy")) == 40 * 5);
    CHECK(points(figure(page, "gain-sorted")) == 50);
    CHECK(count(figure(page, "accuracy"), "<li ") == 5);
    CHECK(page.find("ditto rate=0.05, personal") != std::string::npos);
    CHECK(page.find("ditto rate=0.1, personal") != std::string::npos);
    CHECK(page.find("fedavg, global") != std::string::npos);
    CHECK(page.find("fedavg, personal") == std::string::npos);
    CHECK(page.find("fig-data-2") == std::string::npos);  // one split, drawn once
    CHECK(page.find("<tr class=\"differs\"><th>rate") != std::string::npos);
}

TEST_CASE("long runs and many clients are thinned, extremes kept") {
    RunRecord run = some_run(9000, 7000, true);
    for (auto& client : run.per_client) client.labels.clear();
    run.rounds[4321].seconds = 77;
    const std::string page = to_html({run}, "Long");
    CHECK(points(figure(page, "accuracy")) <= 2 * lab::page::most_points);
    CHECK(figure(page, "seconds").find("4322,77 ") != std::string::npos);
    CHECK(count(figure(page, "gain-size"), "<circle") <= 2 * lab::page::most_points);
    CHECK(points(figure(page, "gain-sorted")) <= lab::page::most_points);
    CHECK(count(figure(page, "data"), "<rect class=\"bar") <= 400);
    CHECK(page.size() < 2'000'000);
}

TEST_CASE("values that are absent leave gaps, not nonsense") {
    RunRecord run = some_run(10, 4, true);
    for (auto& e : run.rounds[4].evaluations) e.value = absent;
    run.rounds[5].seconds = HUGE_VAL;
    run.rounds[6].flops = absent;
    run.final_evaluations[0].value = absent;
    run.per_client[0].accuracy_personal = absent;
    const std::string page = to_html({run}, "Gaps");
    CHECK(points(figure(page, "accuracy")) == 18);
    CHECK(count(figure(page, "gain-size"), "<circle") == 3);
    CHECK(page.find("nan") == std::string::npos);
    CHECK(page.find("\"inf") == std::string::npos);
}

TEST_CASE("ticks fall on round numbers") {
    using lab::page::linear_ticks, lab::page::nice_step;
    CHECK(nice_step(100, 5) == doctest::Approx(20));
    CHECK(nice_step(7, 5) == doctest::Approx(2));
    CHECK(nice_step(0.3, 5) == doctest::Approx(0.1));
    CHECK(nice_step(1e6, 5) == doctest::Approx(2e5));
    const auto ticks = linear_ticks(-0.2, 0.2, 0.1);
    REQUIRE(ticks.size() == 5);
    CHECK(ticks[0].label == "-0.2");
    CHECK(ticks[2].label == "0.0");
    CHECK(linear_ticks(0, 6000, 2000)[1].label == "2k");
}

TEST_CASE("ticks too large for a prefix are powers of ten") {
    using namespace lab::page;
    CHECK(linear_ticks(0, 4e20, 2e20)[2].label == "400E");
    CHECK(linear_ticks(0, 8e30, 2e30)[0].label == "0");
    CHECK(linear_ticks(0, 8e30, 2e30)[4].label == "8e+30");
    CHECK(linear_ticks(-8e30, 0, 2e30)[0].label == "-8e+30");
    const auto decades = decade_ticks(1e5, 1e25);
    CHECK(decades.front().label == "100k");
    CHECK(decades[4].label == "1G");
    CHECK(decades.back().label == "1e+25");
    CHECK(with_prefix(4e20, "B") == "400 EB");
    CHECK(with_prefix(8e30, "B") == "8e+30 B");
}

TEST_CASE("equal values, one value and huge values have an axis") {
    for (const double value : {0.0, 1.0, -5.0, 1e-12, 1e18}) {
        const std::vector<lab::page::Series> one{{"a", 0, false, {{1, value}}}};
        const std::vector<lab::page::Series> two{{"a", 0, false, {{1, value}, {2, value}}}};
        for (const auto& series : {one, two}) {
            const std::string chart = lab::page::line_chart("c", {"x", ""}, {"y", ""}, series);
            CHECK(count(chart, "<line class=\"tick\"") >= 1);
            CHECK(count(chart, "<line class=\"tick\"") <= 12);
            CHECK(chart.find("nan") == std::string::npos);
            CHECK(chart.find("inf") == std::string::npos);
        }
    }
    CHECK(lab::page::line_chart("c", {"x", ""}, {"y", ""}, {{"a", 0, false, {{1, absent}}}}).empty());
}

}  // namespace page_test
