// SPDX-License-Identifier: BSD-3-Clause
// Where bars stand on the drawn page: over their names, and inside their bins.
#include <page/categories.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <page/drawn.hpp>
#include <page/page.hpp>

namespace bars_test {

using namespace tessera::report;
using lab::page::to_html;

namespace {

constexpr double hair = 0.03;  // places are rounded to hundredths, and a middle is made of two

struct Bar {
    double begin, width;
    double middle() const { return begin + width / 2; }
    double end() const { return begin + width; }
};

double number_after(const std::string& text, const std::string& what, std::size_t from) {
    return std::stod(text.substr(text.find(what, from) + what.size(), 24));
}

// Bars in the order in which they are drawn: group by group.
std::vector<Bar> bars_in(const std::string& drawn) {
    std::vector<Bar> all;
    for (auto at = drawn.find("<rect class=\"bar"); at != std::string::npos; at = drawn.find("<rect class=\"bar", at + 1))
        all.push_back({number_after(drawn, " x=\"", at), number_after(drawn, " width=\"", at)});
    return all;
}

double label_of(const std::string& drawn, const std::string& name) {
    const auto end = drawn.find(">" + name + "</text>");
    REQUIRE(end != std::string::npos);
    return number_after(drawn, " x=\"", drawn.rfind("<text", end));
}

// Where a value of the x axis lies.
double place_of(const std::string& drawn, double value) {
    const auto at = drawn.find("data-x=\"") + 8;
    const std::string text = drawn.substr(at, drawn.find('"', at) - at);
    std::size_t used = 0, more = 0;
    const double left = std::stod(text, &used), right = std::stod(text.substr(used), &more);
    used += more;
    const double low = std::stod(text.substr(used), &more), high = std::stod(text.substr(used + more));
    return left + (value - low) / (high - low) * (right - left);
}

}  // namespace

TEST_CASE("bars of a page stand over the names of their categories, side by side around the middle") {
    const std::vector<std::string> names{"left", "middle", "right"};
    for (const std::size_t groups : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
        Extra extra{.id = "bars", .title = "Bars", .kind = Kind::bars, .categories = names};
        for (std::size_t g = 0; g < groups; ++g)
            extra.series.push_back({.name = "s" + std::to_string(g), .y = {1, 2, 3}});
        RunRecord run;
        run.set("algorithm", "fedavg");
        run.add(extra);
        const std::string drawn = page::figure(to_html({run}, "A run"), "extra-bars");
        const auto bars = bars_in(drawn);
        REQUIRE(bars.size() == groups * names.size());
        for (std::size_t i = 0; i < names.size(); ++i) {
            double middle = 0;
            for (std::size_t g = 0; g < groups; ++g) middle += bars[g * names.size() + i].middle();
            CHECK(std::abs(middle / static_cast<double>(groups) - label_of(drawn, names[i])) < hair);
            for (std::size_t g = 1; g < groups; ++g)
                CHECK(bars[(g - 1) * names.size() + i].end() < bars[g * names.size() + i].begin + hair);
        }
    }
}

TEST_CASE("bars of a histogram fill their bins and lie in no other") {
    const std::string drawn = lab::page::histogram({.label = "n",
                                         .counted = "clients",
                                         .groups = {{1, 2, 2, 3.5}, {1, 3.5, 3.5}},
                                         .names = {"a", "b"},
                                         .colours = {0, 1}});
    // Steps of 0.2 from 1 to 3.6: a is in [1, 1.2), [2, 2.2), [3.4, 3.6], b in the first and the last of them.
    const std::vector<double> bins{1, 2, 3.4, 1, 3.4};
    const auto bars = bars_in(drawn);
    REQUIRE(bars.size() == bins.size());
    for (std::size_t i = 0; i < bars.size(); ++i) {
        const double half = i < 3 ? 0.05 : 0.15;  // two groups share a bin: the first has its left half
        CHECK(std::abs(bars[i].middle() - place_of(drawn, bins[i] + half)) < hair);
        CHECK(bars[i].begin > place_of(drawn, bins[i]) - hair);
        CHECK(bars[i].end() < place_of(drawn, bins[i] + 0.2) + hair);
    }
}

TEST_CASE("runs share figures by the names of series, whatever their order and whoever lacks one") {
    const auto run_with = [](const char* algorithm, std::vector<Extra::Series> series) {
        RunRecord run;
        run.set("algorithm", algorithm);
        run.add({.id = "dots", .title = "Dots", .kind = Kind::scatter, .series = std::move(series)});
        return run;
    };
    const std::string page = to_html({run_with("first", {{.name = "block 1", .x = {1}, .y = {11}},
                                                         {.name = "block 2", .x = {1}, .y = {12}}}),
                                      run_with("second", {{.name = "block 2", .x = {1}, .y = {22}},
                                                          {.name = "block 3", .x = {1}, .y = {23}}})},
                                     "Two");
    const auto numbers_of = [&](const std::string& id) {
        const std::string drawn = page::figure(page, "extra-" + id);
        const auto from = drawn.find("<metadata>");
        return drawn.find("Dots, block ") == std::string::npos || from == std::string::npos
                   ? "no figure " + id
                   : drawn.substr(drawn.find("Dots, block "), 13) +
                         drawn.substr(from, drawn.find("</metadata>") - from);
    };
    CHECK(numbers_of("dots") == "Dots, block 1<metadata>series,x,y\nfirst,1,11\n");
    CHECK(numbers_of("dots-1") == "Dots, block 2<metadata>series,x,y\nfirst,1,12\nsecond,1,22\n");
    CHECK(numbers_of("dots-2") == "Dots, block 3<metadata>series,x,y\nsecond,1,23\n");
}

}  // namespace bars_test
