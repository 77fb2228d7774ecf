// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/text_zoo.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/conformance.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/nn/gradient_check.hpp>
#include <tessera/nn/layer_check.hpp>

#include <support/toy_numbers.hpp>

namespace text_zoo_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using support::toy_numbers;

const conformance::Complaints none;

// Parameter counts of the papers' networks, two biases a cell as torch has them.
static_assert(parameters(80, recipe::char_lstm(90)) == 822'570);
static_assert(FlowShakespeare<>::parameters == 720 + 272'384 + 526'336 + 23'130);
static_assert(parameters(20, recipe::word_lstm(10'004)) == 4'053'428);
static_assert(FlowStackOverflow<>::parameters == 960'384 + 2'058'240 + 64'416 + 970'388);
static_assert(LeafShakespeare<>::parameters == 640 + 272'384 + 526'336 + 20'560);
static_assert(parameters(Shape(25, 50), recipe::sentiment_layers(2)) == 101'600 + 1'005'000 + 10'002);
static_assert(parameters(25, recipe::sentiment_lstm(22'764)) == 22'764 * 50 + 1'116'602);
static_assert(FedAltTransformer<>::parameters == 2'561'024 + 5'120 + 4 * 788'736 + 10'004);
static_assert(FedAltTransformer<16>::parameters == 5'731'092 + 67'712);
static_assert(FedAltTransformer<64>::parameters == 5'731'092 + 264'704);

constexpr std::size_t of_part(Part part) {
    std::size_t n = 0;
    for (const auto& s : FedAltTransformer<16>::segments) n += s.part == part ? s.size() : 0;
    return n;
}
// FedAlt's adapter split is these two: 71,808 numbers.
static_assert(of_part(Part::adapter) == 67'712 && of_part(Part::norm) == 4'096);

constexpr std::size_t words = 7, steps = 4, examples = 3;

// A label at every position but two, or one an example.
data::Dataset sentences(std::size_t each, std::size_t classes = words, bool bytes = false) {
    std::vector<std::int32_t> x, y;
    for (std::size_t i = 0; i < examples * steps; ++i) x.push_back(static_cast<std::int32_t>((5 * i + i * i) % words));
    for (std::size_t i = 0; i < examples * each; ++i) y.push_back(static_cast<std::int32_t>((3 * i + 1) % classes));
    if (each > 1) y[2] = y[examples * each - 1] = -1;
    if (bytes) return data::Dataset::own(std::vector<std::uint8_t>(x.begin(), x.end()), y, classes, each);
    return data::Dataset::own(x, y, classes, each);
}
const std::vector<Index> all{0, 1, 2};

template <class L>
conformance::Complaints slopes(const L& layers, std::size_t each, std::size_t classes = words) {
    const auto pool = sentences(each, classes);
    return conformance::check_gradients(Network<double>(steps, layers), Batch<double>(pool.examples(), all));
}

constexpr recipe::Transformer tiny(std::size_t rank, bool every = true) {
    return {.words = words, .width = 6, .heads = 2, .inner = 5, .blocks = 2, .rank = rank, .every = every};
}

}  // namespace

TEST_CASE("small layers on sequences keep the law of a layer") {
    CHECK(conformance::layer(Scale{1.5}, Shape(4, 3)) == none);
    CHECK(conformance::layer(Positions{}, Shape(4, 3)) == none);
    CHECK(conformance::layer(Bias{}, Shape(4, 3)) == none);
    CHECK(conformance::layer(Bias{}, Shape(5)) == none);
    CHECK(conformance::layer(Reverse{}, Shape(4, 3)) == none);
    CHECK(conformance::layer(WordScores{5}, Shape(4, 3)) == none);
    CHECK(conformance::layer(both_ways(Lstm{2}), Shape(4, 3)) == none);
    CHECK(conformance::layer(chain(last_position(), Linear{2}), Shape(4, 3)) == none);
    CHECK(conformance::layer(recipe::Sublayer<Attention>{{2, true}, 0.3, 2}, Shape(4, 6)) == none);
}

TEST_CASE("gradients of the zoo by differences, with labels that are not there") {
    CHECK(slopes(recipe::char_lstm(words, 5, 3), steps) == none);
    CHECK(slopes(recipe::flow_shakespeare(words, 3, 2), steps) == none);
    CHECK(slopes(recipe::leaf_lstm(words, 4, 3), 1) == none);
    CHECK(slopes(recipe::word_lstm(words, 5, 3), steps) == none);
    CHECK(slopes(recipe::flow_stackoverflow(words, 4, 3), steps) == none);
    CHECK(slopes(recipe::sentiment_lstm(words, 2, 3, 6), 1, 2) == none);
    CHECK(slopes(tiny(0), steps) == none);
    CHECK(slopes(tiny(2), steps) == none);
    CHECK(slopes(tiny(0, false), 1) == none);
}

TEST_CASE("the table of words is one: what it reads with and what it scores with move together") {
    const Network<double> net(steps, tiny(0));
    const auto pool = sentences(steps);
    const Batch<double> batch(pool.examples(), all);
    CHECK(net.layout()[0].size() == words * 6);
    std::size_t tables = 0;
    for (const auto& s : net.layout()) tables += s.size() == words * 6 && s.rank == 2;
    CHECK(tables == 1);
    // A word that no example holds still has a slope, as a score that was wrong.
    std::vector<std::int32_t> x(steps, 1), y(steps, 2);
    const auto one = data::Dataset::own(x, y, words, steps);
    const std::vector<Index> first{0};
    const auto w = toy_numbers<double>(dimension(net), 3);
    Vec<double> g(w.size());
    net.gradient(w, Batch<double>(one.examples(), first), g);
    CHECK(g[5 * 6] != 0);
}

TEST_CASE("words as bytes and as whole numbers of 32 bits are the same words") {
    const auto wide = sentences(steps), narrow = sentences(steps, words, true);
    for (const auto& net : {Network<float>(steps, recipe::char_lstm(words, 5, 3)), Network<float>(steps, tiny(2))}) {
        const auto w = toy_numbers<float>(dimension(net), 3);
        Vec<float> a(w.size()), b(w.size());
        CHECK(net.gradient(w, Batch<float>(wide.examples(), all), a) ==
              net.gradient(w, Batch<float>(narrow.examples(), all), b));
        CHECK(a == b);
    }
}

TEST_CASE("padding costs nothing: what stands behind the last label moves no number") {
    const std::vector<std::int32_t> labels{1, 2, -1, -1, 3, 4, 5, 6};
    const std::vector<std::int32_t> padded{2, 3, 0, 0, 4, 5, 6, 1}, other{2, 3, 6, 5, 4, 5, 6, 1};
    const auto a = data::Dataset::own(padded, labels, words, steps), b = data::Dataset::own(other, labels, words, steps);
    const std::vector<Index> both{0, 1};
    for (const auto& net : {Network<double>(steps, recipe::char_lstm(words, 5, 3)), Network<double>(steps, tiny(2))}) {
        const auto w = toy_numbers<double>(dimension(net), 3);
        Vec<double> x(w.size()), y(w.size());
        CHECK(net.gradient(w, Batch<double>(a.examples(), both), x) ==
              net.gradient(w, Batch<double>(b.examples(), both), y));
        CHECK(x == y);
        Judgement one, two;
        std::vector<double> out(2 * net.outputs());
        net.predict(w, Batch<double>(a.examples(), both), out);
        net.judge(Batch<double>(a.examples(), both), out, one);
        CHECK(one.counted == 6);
        // A label at a padded place does count: the law above can fail.
        auto more = labels;
        more[2] = 1;
        const auto c = data::Dataset::own(padded, more, words, steps);
        net.gradient(w, Batch<double>(c.examples(), both), y);
        CHECK(x != y);
    }
}

}  // namespace text_zoo_test
