// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/knn_per.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/answers.hpp>
#include <support/bits.hpp>
#include <support/method_laws.hpp>
#include <support/quadratic.hpp>
#include <support/toy_data.hpp>

namespace knn_per_test {

using namespace tessera;
using support::answers;
using support::same_bits;
using support::Toy;
using support::toy_data;

namespace {
using Line = nn::Mclr<1, 3>;  // its last layer reads the input itself, so distances can be written down
using Net = nn::Dnn<Toy::width, 6, Toy::classes>;
constexpr Settings usual{.seed = 3, .batch = 5};

// One client: training examples (x, class), and test examples at the queries.
data::FederatedDataset on_a_line(const std::vector<std::pair<float, int>>& train, const std::vector<float>& queries) {
    std::vector<float> rows;
    std::vector<std::int32_t> labels;
    data::Split split;
    split.clients.resize(1);
    const auto add = [&](std::vector<Index>& to, float x, int label) {
        to.push_back(static_cast<Index>(rows.size()));
        rows.push_back(x);
        labels.push_back(label);
    };
    for (const auto& [x, label] : train) add(split.clients[0].train, x, label);
    for (const float x : queries) add(split.clients[0].test, x, 0);
    return {data::Dataset::own(std::move(rows), std::move(labels), 3), std::move(split)};
}
// Probabilities at one query, for a model that says 1/3 everywhere.
std::array<double, 3> at(float query, const std::vector<std::pair<float, int>>& train, const KnnPer<>& method) {
    const Federation<KnnPer<>, Line> run{{}, on_a_line(train, {query}), method, usual, Vec<float>(6, 0.0f)};
    const auto log_p = answers(run);
    return {std::exp(static_cast<double>(log_p[0])), std::exp(static_cast<double>(log_p[1])),
            std::exp(static_cast<double>(log_p[2]))};
}
// A float log-probability carries about 1e-7 times itself; those asked here are below 10.
bool near(const std::array<double, 3>& got, const std::array<double, 3>& expected) {
    bool all = true;
    for (std::size_t c = 0; c < 3; ++c) all = all && std::fabs(got[c] - expected[c]) < 2e-6;
    return all;
}
}  // namespace

TEST_CASE("L-BASE-4 lambda = 0 predicts as FedAvg, bit for bit, and every lambda trains as FedAvg") {
    const auto data = toy_data();
    Federation<FedAvg<>, Net> average{{}, data, {}, usual};
    average.run(3, sample::Everyone{});
    for (const double lambda : {0.0, 0.5}) {
        Federation<KnnPer<>, Net> run{{}, data, {.lambda = lambda}, usual};
        run.run(3, sample::Everyone{});
        CHECK(same_bits(run.server().w, average.server().w));
        for (Id k = 0; k < 6; ++k) CHECK(same_bits(answers(run, k), answers(average, k)) == (lambda == 0));
    }
}

TEST_CASE("L-BASE-4 all neighbours at equal distances: the frequencies of the labels") {
    const std::vector<std::pair<float, int>> same{{2, 0}, {2, 1}, {2, 1}, {2, 2}, {2, 1}};
    const KnnPer<> everybody{.neighbours = 5, .lambda = 1};
    CHECK(near(at(7, same, everybody), {0.2, 0.6, 0.2}));
    CHECK(near(at(7, same, {.neighbours = 500, .lambda = 1}), {0.2, 0.6, 0.2}));  // k is at most n_k
    CHECK(near(at(0, {{-1, 0}, {1, 1}, {-1, 1}, {1, 1}}, {.neighbours = 4, .lambda = 1}), {0.25, 0.75, 0}));
    CHECK_FALSE(near(at(7, {{2, 0}, {2, 1}, {2, 1}, {3, 2}, {2, 1}}, everybody), {0.2, 0.6, 0.2}));
}

TEST_CASE("lambda = 1, k = 1 is the nearest neighbour; of equals, the one stored first") {
    const std::vector<std::pair<float, int>> train{{0, 0}, {4, 1}, {6, 2}};
    const KnnPer<> nearest{.neighbours = 1, .lambda = 1};
    CHECK(near(at(1.9f, train, nearest), {1, 0, 0}));
    CHECK(near(at(2.1f, train, nearest), {0, 1, 0}));
    CHECK(near(at(5, train, nearest), {0, 1, 0}));
    CHECK(near(at(5.1f, train, nearest), {0, 0, 1}));
}

TEST_CASE("votes fade with the distance, and mix with the model as probabilities") {
    const std::vector<std::pair<float, int>> train{{1, 0}, {2, 1}, {9, 2}};
    const double a = std::exp(-1.0), b = std::exp(-2.0);
    CHECK(near(at(0, train, {.neighbours = 2, .lambda = 1}), {a / (a + b), b / (a + b), 0}));
    CHECK(near(at(0, train, {.neighbours = 2, .lambda = 0.25}),
               {0.25 * a / (a + b) + 0.25, 0.25 * b / (a + b) + 0.25, 0.25}));
    const double wide_a = std::exp(-1.0 / 3), wide_b = std::exp(-2.0 / 3);
    CHECK(near(at(0, train, {.neighbours = 2, .lambda = 1, .bandwidth = 3}),
               {wide_a / (wide_a + wide_b), wide_b / (wide_a + wide_b), 0}));
    const double square_a = std::exp(-1.0 / 2), square_b = std::exp(-4.0 / 2);  // one feature
    CHECK(near(at(0, train, {.neighbours = 2, .lambda = 1, .fade = Fade::squared, .bandwidth = 2}),
               {square_a / (square_a + square_b), square_b / (square_a + square_b), 0}));
}

TEST_CASE("squared distances fade by the number of features, whichever of them it is that differs") {
    using Plane = nn::Mclr<2, 2>;
    data::Split split;
    split.clients.push_back({.train = {0, 1}, .test = {2}, .key = 1});
    const data::FederatedDataset data{
        data::Dataset::own(std::vector<float>{1, -1, 1, 2, 0, 0}, {0, 1, 0}, 2), std::move(split)};  // D^2 is 2 and 5
    const Federation<KnnPer<>, Plane> run{{},
                                          data,
                                          {.neighbours = 2, .lambda = 1, .fade = Fade::squared, .bandwidth = 3},
                                          usual,
                                          Vec<float>(Plane::parameters)};
    const double a = std::exp(-2.0 / (2 * 3)), b = std::exp(-5.0 / (2 * 3));
    const auto log_p = answers(run);
    CHECK(std::fabs(std::exp(static_cast<double>(log_p[0])) - a / (a + b)) < 2e-6);
    CHECK(std::fabs(std::exp(static_cast<double>(log_p[1])) - b / (a + b)) < 2e-6);
}

TEST_CASE("neighbours so far away that exp(-D) is 0 still vote, and nothing is infinite") {
    const std::vector<std::pair<float, int>> train{{5000, 0}, {5001, 1}};
    const double a = 1, b = std::exp(-1.0);
    CHECK(near(at(0, train, {.neighbours = 2, .lambda = 1}), {a / (a + b), b / (a + b), 0}));
    const Federation<KnnPer<>, Line> run{{}, on_a_line(train, {0}), {.lambda = 1}, usual};
    CHECK(all_finite(answers(run)));
}

TEST_CASE("the neighbours are those of a loop in double, also where dot products cancel") {
    // Features near 1000 that differ by thousandths: |q|^2 has no digit left for them in float.
    std::vector<std::pair<float, int>> train;
    std::vector<float> queries;
    Stream draw(Key{4});
    for (int i = 0; i < 300; ++i)
        train.emplace_back(1000 + static_cast<float>(draw.uniform()), static_cast<int>(draw.below(3)));
    for (int i = 0; i < 70; ++i) queries.push_back(1000 + static_cast<float>(draw.uniform()));
    const KnnPer<> method{.neighbours = 1, .lambda = 1};
    const Federation<KnnPer<>, Line> run{{}, on_a_line(train, queries), method, usual};
    const auto log_p = answers(run);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < queries.size(); ++i) {
        const auto& nearest = *std::ranges::min_element(train, {}, [&](const auto& each) {
            return std::fabs(static_cast<double>(each.first) - static_cast<double>(queries[i]));
        });
        wrong += log_p[3 * i + static_cast<std::size_t>(nearest.second)] != 0;
    }
    CHECK(wrong == 0);
}

TEST_CASE("a capacity keeps that many examples, the same in every round") {
    const std::vector<std::pair<float, int>> train{{0, 0}, {0, 0}, {0, 0}, {0, 1}, {0, 1}, {0, 2}};
    const auto kept = [&](std::size_t capacity, std::uint64_t seed) {
        Federation<KnnPer<>, Line> run{{}, on_a_line(train, {0}), {.lambda = 1, .capacity = capacity},
                                       {.seed = seed, .batch = 5}};
        const auto first = answers(run);
        run.run(2, sample::Everyone{});
        CHECK(same_bits(first, answers(run)));  // x = 0 has the same features under every w
        return first;
    };
    const auto all = kept(0, 1);
    CHECK(same_bits(kept(6, 1), all));
    CHECK(same_bits(kept(100, 1), all));
    bool halves = true, differs = false;
    const auto first = kept(2, 1);
    for (std::uint64_t seed = 1; seed < 6; ++seed) {
        const auto two = kept(2, seed);
        differs = differs || !same_bits(two, first);
        for (const float v : two) {
            const double twice = 2 * std::exp(static_cast<double>(v));
            halves = halves && std::fabs(twice - std::round(twice)) < 1e-6;  // 0, 1 or 2 of two votes
        }
    }
    CHECK(halves);
    CHECK(differs);
}

TEST_CASE("a client without training data is served the global model; other inner methods have one too") {
    const auto data = on_a_line({{1, 0}, {2, 1}}, {0});
    auto split = data.split();
    split.clients.push_back({.train = {}, .test = split.clients[0].test, .key = 9});
    const data::FederatedDataset two{data.pool(), split};
    Federation<KnnPer<>, Line> run{{}, two, {}, usual};
    Federation<FedAvg<>, Line> average{{}, two, {}, usual};
    run.run(2, sample::Everyone{});
    average.run(2, sample::Everyone{});
    CHECK(same_bits(answers(run, 1), answers(average, 1)));
    CHECK_FALSE(same_bits(answers(run, 0), answers(average, 0)));

    Federation<KnnPer<FedAlt<>>, Net> partial{{}, toy_data(), {.lambda = 0}, usual};
    partial.run(2, sample::Everyone{});
    const auto share = partial.data()[1];
    Vec<float> expected(share.test.size() * Toy::classes);
    const auto w = partial.setup().method.inner.global(partial.server(), partial.setup().initial);
    Net{}.predict(w, Batch<float>(*share.examples, share.test), expected);
    CHECK(same_bits(answers(partial, 1), expected));
}

TEST_CASE("repeatable, any number of threads, over the wire, resumed, relabelled; L-GEN-4, L-GEN-9") {
    CHECK(support::broken_laws(KnnPer<>{}) == "");
    CHECK(support::broken_laws<KnnPer<>, Net>({.neighbours = 3, .lambda = 1, .capacity = 7}) == "");
}

TEST_CASE("wrong settings, and a model without features, are refused before round one") {
    const auto data = toy_data();
    using Run = Federation<KnnPer<>, Net>;
    CHECK_THROWS_WITH_AS((Run{{}, data, {.neighbours = 0}}), "neighbours must be at least 1", ConfigError);
    CHECK_THROWS_WITH_AS((Run{{}, data, {.lambda = 1.5}}), doctest::Contains("lambda must lie in [0, 1]"), ConfigError);
    CHECK_THROWS_AS((Run{{}, data, {.bandwidth = 0}}), ConfigError);
    using Any = Federation<KnnPer<FedAvg<>>, nn::AnyModel<double>>;
    CHECK_THROWS_WITH_AS((Any{support::Quadratic<>{}, support::quadratic_data({{{1, 1}}}), {}}),
                         doctest::Contains("no features"), ConfigError);
}

}  // namespace knn_per_test
