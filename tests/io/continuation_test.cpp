// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/io/continuation.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace continuation_test {

using namespace tessera;

namespace {

io::Vocabulary letters() {
    const std::vector<std::string_view> texts{"aaaabbbccd"};
    return io::Vocabulary::of(texts, {});
}
constexpr std::size_t positions = 3;

// Says of every position that the letter after the one that stands there is likely, d being followed by a.
struct NextLetter {
    std::size_t classes;
    bool every = true;
    std::vector<std::vector<std::int32_t>>* rows = nullptr;

    void operator()(const Batch<double>& batch, Out<double> out) const {
        const auto x = batch.inputs();
        if (rows) rows->emplace_back(x.begin(), x.end());
        for (double& v : out) v = std::log(0.1);
        for (std::size_t t = every ? 0 : positions - 1; t < positions; ++t) {
            const auto next = static_cast<std::size_t>(x[t]) % 4 + 1;
            out[(every ? t : 0) * classes + next] = std::log(0.6);
        }
        out[0] = out[classes - 1] = out[classes - 2] = 5;  // marks are never said, however likely
    }
};

std::vector<std::int32_t> said(std::string_view prompt, const NextLetter& model, const io::ContinuationSettings& how) {
    const auto words = letters();
    return io::continued<double>(model, words.ids(prompt), {positions, (model.every ? positions : 1) * words.size()}, words,
                                 how);
}

}  // namespace

TEST_CASE("a model is asked for one word after the other, with the last it can read before it") {
    const auto words = letters();
    std::vector<std::vector<std::int32_t>> rows;
    const auto ids = said("b", {words.size(), true, &rows}, {.tokens = 5, .temperature = 0});
    CHECK(io::text_of(words, ids) == "cdabc");
    REQUIRE(rows.size() == 5);
    CHECK(rows[0] == std::vector<std::int32_t>{2, 0, 0});
    CHECK(rows[1] == std::vector<std::int32_t>{2, 3, 0});
    CHECK(rows[4] == std::vector<std::int32_t>{4, 1, 2});
    CHECK(io::text_of(words, said("abcd", {words.size(), false}, {.tokens = 3, .temperature = 0})) == "abc");
    CHECK(said("a", {words.size()}, {.tokens = 0}).empty());
}

TEST_CASE("words are drawn by their probability, warmed by the temperature, the same for a seed") {
    const NextLetter model{letters().size()};
    const auto share = [&](double temperature) {
        const auto ids = said("a", model, {.tokens = 4000, .temperature = temperature, .seed = 3});
        std::size_t followed = 0;
        for (std::size_t i = 1; i < ids.size(); ++i) followed += ids[i] == ids[i - 1] % 4 + 1;
        return static_cast<double>(followed) / 4000;
    };
    // 0.6 against three times 0.1; 0.02 is about three deviations of 4000 draws
    CHECK(std::fabs(share(1) - 0.6 / 0.9) < 0.025);
    CHECK(std::fabs(share(0.5) - 0.36 / 0.39) < 0.02);
    CHECK(std::fabs(share(1e6) - 0.25) < 0.025);
    const io::ContinuationSettings usual{.tokens = 50, .seed = 1};
    CHECK(said("a", model, usual) == said("a", model, usual));
    CHECK(said("a", model, usual) != said("a", model, {.tokens = 50, .seed = 2}));
    for (const auto id : said("a", model, usual)) CHECK((id >= 1 && id <= 4));
}

TEST_CASE("what cannot be gone on from is said") {
    const auto words = letters();
    const NextLetter model{words.size()}, last{words.size(), false};
    CHECK_THROWS_AS(said("", model, {}), ConfigError);
    CHECK_THROWS_AS(said("ab", last, {}), ConfigError);
    CHECK_THROWS_AS(said("ab", model, {.temperature = -1}), ConfigError);
    CHECK_THROWS_AS(said("ab", model, {.temperature = std::nan("")}), ConfigError);
    const std::vector<std::int32_t> prompt{1};
    CHECK_THROWS_AS(io::continued<double>(model, prompt, {positions, 5}, words, {}), ConfigError);
    const auto broken = [](const Batch<double>&, Out<double> out) {
        for (double& v : out) v = std::numeric_limits<double>::quiet_NaN();
    };
    CHECK_THROWS_AS(io::continued<double>(broken, prompt, {positions, positions * words.size()}, words, {}), Error);
}

TEST_CASE("words have spaces between them and none before punctuation") {
    const std::vector<std::string_view> texts{"to be, or not to be: that is"};
    const auto words = io::Vocabulary::of(texts, {.unit = io::TextUnit::words});
    CHECK(io::text_of(words, words.ids("to be, or not: that")) == "to be, or not: that");
    auto ids = words.ids("to what be");  // unknown
    ids.push_back(words.end());
    CHECK(io::text_of(words, ids) == "to be");
}

}  // namespace continuation_test
