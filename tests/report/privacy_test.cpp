// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/analysis/privacy.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include <doctest/doctest.h>

namespace privacy_test {

using namespace tessera;
using namespace tessera::report;

namespace {
analysis::PrivacyStatement statement(std::vector<double> epsilon) {
    return {.epsilon = std::move(epsilon), .delta = 1e-6, .adjacency = "one example added or removed",
            .sampling = "Poisson samples", .conversion = "improved", .noise = "replayable: NOT PRIVATE",
            .personal = "covered"};
}
std::string text(const Extra& table, const std::string& row) {
    const auto at = std::ranges::find(table.categories, row) - table.categories.begin();
    return table.series[0].texts[static_cast<std::size_t>(at)];
}
}  // namespace

TEST_CASE("the statement leads with the client that paid most, and names what it assumes") {
    const auto table = analysis::privacy_table(statement({3, 1, 2, 10}));
    CHECK_NOTHROW(table.validate());
    CHECK(table.categories[0] == "epsilon, largest");
    CHECK(text(table, "epsilon, largest") == "10");
    CHECK(text(table, "epsilon, 95 % of clients") == "10");
    CHECK(text(table, "epsilon, median") == "2");
    CHECK(text(table, "epsilon, mean") == "4");
    CHECK(text(table, "epsilon, smallest") == "1");
    CHECK(text(table, "delta") == "1e-06");
    CHECK(text(table, "clients") == "4");
    CHECK(text(table, "neighbours") == "one example added or removed");
    CHECK(text(table, "examples are drawn as") == "Poisson samples");
    CHECK(text(table, "noise") == "replayable: NOT PRIVATE");
    CHECK(text(table, "personal models") == "covered");
}

TEST_CASE("no noise is said in words, and nobody is no statement") {
    const auto table = analysis::privacy_table(statement({1, std::numeric_limits<double>::infinity()}));
    CHECK(text(table, "epsilon, largest") == "infinite: nothing is hidden");
    CHECK(text(table, "epsilon, smallest") == "1");
    CHECK_THROWS_AS(analysis::privacy_table(statement({})), ConfigError);
}

TEST_CASE("every client has its epsilon in the figure, in order; those that hide nothing are counted") {
    auto figure = analysis::privacy_figure(statement({3, 1, 2}));
    CHECK_NOTHROW(figure.validate());
    CHECK(figure.series[0].y == std::vector<double>{1, 2, 3});
    CHECK(figure.series[0].texts == std::vector<std::string>{"client 1", "client 2", "client 0"});
    CHECK(figure.caption.find("infinite") == std::string::npos);
    figure = analysis::privacy_figure(statement({std::numeric_limits<double>::infinity(), 5}));
    CHECK(figure.series[0].y[0] == 5);
    CHECK(figure.caption.find("Of 1 it is infinite: nothing is hidden.") != std::string::npos);
}

TEST_CASE("quantiles are values of clients, not between them") {
    std::vector<double> all(100);
    for (std::size_t i = 0; i < 100; ++i) all[i] = static_cast<double>(i + 1);
    CHECK(analysis::quantile(all, 0.95) == 95);
    CHECK(analysis::quantile(all, 0.951) == 96);
    CHECK(analysis::quantile(all, 0) == 1);
    CHECK(analysis::quantile(all, 1) == 100);
}

}  // namespace privacy_test
