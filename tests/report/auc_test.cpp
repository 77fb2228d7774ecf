// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/report/analysis/auc.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <tessera/core/random.hpp>

namespace auc_test {

using namespace tessera;
using namespace tessera::report;
using analysis::auc;
using analysis::macro_auc;

namespace {
using Marks = std::vector<std::uint8_t>;
double area(const std::vector<double>& scores, const Marks& marks) { return auc(scores, marks); }
}  // namespace

TEST_CASE("areas counted by hand") {
    CHECK(area({0.1, 0.4, 0.35, 0.8}, {0, 0, 1, 1}) == 0.75);  // three of four pairs in order
    CHECK(area({1, 2, 3}, {0, 1, 1}) == 1);
    CHECK(area({3, 2, 1}, {0, 1, 1}) == 0);
    CHECK(area({-1, -5, -2, -3}, {1, 0, 0, 1}) == 0.75);  // only the order matters
}

TEST_CASE("a tie is half a pair, however many there are and wherever they stand") {
    CHECK(area({1, 1}, {0, 1}) == 0.5);
    CHECK(area({1, 1}, {1, 0}) == 0.5);
    CHECK(area({2, 2, 2, 2, 2}, {0, 1, 0, 1, 1}) == 0.5);
    CHECK(area({1, 2, 2, 3}, {0, 0, 1, 1}) == 0.875);  // three pairs and one tie of four
    CHECK(area({2, 2, 1, 2}, {1, 0, 1, 0}) == 0.25);   // two ties and two pairs the wrong way
}

TEST_CASE("many scores with many ties: the count over all pairs") {
    Stream draw(Key{2});
    std::vector<double> scores;
    Marks marks;
    for (int i = 0; i < 300; ++i) {
        scores.push_back(static_cast<double>(draw.below(20)));
        marks.push_back(draw.below(3) == 0);
    }
    double wins = 0, pairs = 0;
    for (std::size_t i = 0; i < 300; ++i)
        for (std::size_t j = 0; j < 300; ++j)
            if (marks[i] && !marks[j]) {
                wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
                pairs += 1;
            }
    CHECK(area(scores, marks) == wins / pairs);
}

TEST_CASE("no positive, no negative or a score that is no number: absent") {
    CHECK(std::isnan(area({1, 2}, {1, 1})));
    CHECK(std::isnan(area({1, 2}, {0, 0})));
    CHECK(std::isnan(area({}, {})));
    CHECK(std::isnan(area({1, std::nan("")}, {0, 1})));
    CHECK_THROWS_AS(area({1}, {0, 1}), ConfigError);
}

TEST_CASE("macro: the mean over the classes that have both kinds") {
    // Class 0 in order (1), class 1 a tie (0.5), class 2 has positives only.
    const std::vector<double> scores{0.1, 0.5, 0.3, 0.9, 0.5, 0.2};
    CHECK(macro_auc(scores, Marks{0, 0, 1, 1, 1, 1}, 3) == 0.75);
    CHECK(macro_auc(scores, Marks{0, 0, 0, 1, 1, 1}, 3) == 0.5);  // and with it: in the wrong order
    CHECK(std::isnan(macro_auc(scores, Marks{1, 1, 1, 1, 1, 1}, 3)));
    CHECK_THROWS_AS(macro_auc(scores, Marks{0, 0, 0, 1, 1, 1}, 4), ConfigError);
}

TEST_CASE("over clients: each once or by its examples; who has no area is left out") {
    const analysis::AucPerClient<Which::personal, When::after, SplitOf::test, Whom::all> all(
        On::local(), Pick::last(), "here", {{2, 0.5, 10}, {0, 1.0, 30}, {1, absent, 1000}});
    CHECK(all.values().size() == 2);
    CHECK(all.values()[0].client == 0);
    CHECK(all.mean(Average::unweighted).value == 0.75);
    CHECK(all.mean(Average::pooled).value == 0.875);
    CHECK(all.stddev() == 0.25);
    CHECK(all.mean(Average::pooled).metric == Metric::auc);
    CHECK(all.mean(Average::pooled).stage == std::string("here"));
}

}  // namespace auc_test
