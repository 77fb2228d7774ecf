// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/nn/ctc.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/private.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/nn/gradient_check.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/speech.hpp>
#include <tessera/report/json.hpp>
#include <tessera/rule/step.hpp>

#include <support/bits.hpp>
#include <support/toy_numbers.hpp>

namespace ctc_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using Labels = std::vector<std::int32_t>;

const conformance::Complaints none;

// Examples without rows that matter: a loss reads labels.
data::Dataset spoken(const Labels& labels, std::size_t each, std::size_t classes, std::size_t width = 1) {
    const std::size_t n = labels.size() / each;
    return data::Dataset::own(support::toy_numbers<double>(n * width, 5), labels, classes, each);
}
double loss_of(const Ctc& ctc, const data::Dataset& data, std::vector<double>& z, std::size_t frames) {
    const auto ids = support::first_ids(data.examples().size);
    return ctc.gradient(Batch<double>(data.examples(), ids), Out<double>(z), {frames});
}

// Of torch 2.15 (tests/nn/torch_vectors.py).
const double ctc_loss = 2.74122934;
const std::vector<double> ctc_slopes{
    0.01038232,   -0.04080942,  0.02710375,   0.003323346, 0.001042952,  -0.002749445, -0.01540768, 0.01711418,
    -0.02453848,  0.002600855,  -0.0558979,   0.07783553,  -0.04767784,  0.004330304,  -0.03918871, 0.08253626,
    -0.005663194, 0.0180022,    -0.02099537,  0.008656359, 0.01461913,   0.04535026,   -0.06143433, 0.001464942,
    -0.1710545,   0.1581727,    0.1182011,    -0.1053193,  -0.002883271, 0.02843482,   0.1739233,   -0.1994749,
    0.0004926545, 0.01371904,   0.07595069,   -0.09016238, -0.03249021,  0.02676119,   0.02073976,  -0.01501075,
    -0.07200654,  0.05321252,   0.009900584,  0.008893439, -0.2472083,   0.1766901,    0.05191447,  0.01860368,
    0.001006672,  -0.0496309,   0.04086375,   0.007760474, -0.003942657, -0.01396817,  0.04437179,  -0.02646096,
    0.003801656,  -0.001119948, 0.01425145,   -0.01693315, 0.001951806,  -0.01316789,  0.004692461, 0.006523624,
    0.033464,     -0.04191348,  0.0008960626, 0.007553418, 0.01845317,   0.04857751,   -0.06869059, 0.001659905};

}  // namespace

TEST_CASE("one label in two frames by hand: three alignments") {
    // Frame by frame p(blank), p(1) = 0.6, 0.4 and 0.3, 0.7.
    std::vector<double> z{std::log(0.6), std::log(0.4), std::log(0.3), std::log(0.7)};
    const double all = 0.6 * 0.7 + 0.4 * 0.3 + 0.4 * 0.7;  // -1, 1-, 11
    CHECK(loss_of({}, spoken({1}, 1, 2), z, 2) == doctest::Approx(-std::log(all)).epsilon(1e-14));
    // A slope is p less the share of the alignments that are there.
    CHECK(z[1] == doctest::Approx(0.4 - (0.4 * 0.3 + 0.4 * 0.7) / all).epsilon(1e-12));
    CHECK(z[2] == doctest::Approx(0.3 - 0.4 * 0.3 / all).epsilon(1e-12));
    // The same label twice needs a blank between: one alignment of three frames, and none of two.
    z = {std::log(0.6), std::log(0.4), std::log(0.3), std::log(0.7), std::log(0.5), std::log(0.5)};
    CHECK(loss_of({}, spoken({1, 1}, 2, 2), z, 3) == doctest::Approx(-std::log(0.4 * 0.3 * 0.5) / 2).epsilon(1e-14));
    z = {0, 0, 0, 0};
    CHECK(loss_of({}, spoken({1, 1}, 2, 2), z, 2) == std::numeric_limits<double>::infinity());
    CHECK(z == std::vector<double>{0, 0, 0, 0});
    // Nothing said: blanks alone. The blank may be another class, and labels that are not there are skipped.
    z = {std::log(0.6), std::log(0.4), std::log(0.3), std::log(0.7)};
    CHECK(loss_of({}, spoken({-1, -1}, 2, 2), z, 2) == doctest::Approx(-std::log(0.6 * 0.3)).epsilon(1e-14));
    z = {std::log(0.4), std::log(0.6), std::log(0.7), std::log(0.3)};
    CHECK(loss_of({.blank = 1}, spoken({-1, 0, -5}, 3, 2), z, 2) == doctest::Approx(-std::log(all)).epsilon(1e-14));
}

TEST_CASE("torch's loss and slopes, repeats among the labels") {
    std::vector<double> z;
    for (int i = 0; i < 3 * 6 * 4; ++i)
        z.push_back(std::floor(1e4 * (1.5 * std::sin(1.3 * i) + std::cos(0.37 * i)) + 0.5) / 1e4);
    std::vector<float> narrow(z.begin(), z.end());
    const auto data = spoken({1, 2, 2, -1, 3, -1, -1, -1, 1, 3, 1, 2}, 4, 4);
    CHECK(loss_of({}, data, z, 6) == doctest::Approx(ctc_loss).epsilon(1e-9));
    const auto ids = support::first_ids(3);
    const double loss = Ctc{}.gradient(Batch<float>(data.examples(), ids), Out<float>(narrow), {6});
    CHECK(loss == doctest::Approx(ctc_loss).epsilon(1e-4));
    REQUIRE(z.size() == ctc_slopes.size());
    for (std::size_t i = 0; i < z.size(); ++i) {
        CHECK(std::abs(z[i] - ctc_slopes[i]) < 1e-7);                                   // seven digits are written down
        CHECK(std::abs(static_cast<double>(narrow[i]) - ctc_slopes[i]) < 1e-4 * 0.25);  // of the largest
    }
}

TEST_CASE("slopes by differences, through a network, with weights; clipped sums are those of single gradients") {
    constexpr auto layers = chain(Windows{3, 2}, Linear{5}, Lstm{4}, Linear{4});
    const Network<double, Ctc> net(Shape(9, 2), layers);
    const auto data = spoken({1, 2, 2, -1, 3, -1, -1, -1, 1, 3, 1, 2, -1, -1, -1, -1}, 4, 4, 18);
    net.accepts(data.examples(), true);
    const auto ids = support::first_ids(4);
    const std::vector<double> weights{1, 0.5, 2, 0.25};
    const Batch<double> batch(data.examples(), ids, weights);
    CHECK(conformance::check_gradients(net, batch) == none);
    const auto w = initial_parameters(net, Key{1});
    Vec<double> ghost(w.size()), slow(w.size());
    net.clipped_sum(w, batch, {.norm = 0.05}, ghost);
    clipped_sum_one_by_one(net, In<double>(w), batch, {.norm = 0.05}, Out<double>(slow));
    CHECK(conformance::detail::distance(ghost, slow) < 1e-12);
    double size = 0;
    for (const double v : ghost) size += v * v;
    CHECK(size > 1e-6);
}

TEST_CASE("greedy decoding joins runs and leaves out blanks; edits between sequences") {
    const auto scores = [](const Labels& best) {
        std::vector<double> z(3 * best.size());
        for (std::size_t t = 0; t < best.size(); ++t) z[3 * t + static_cast<std::size_t>(best[t])] = 1;
        return z;
    };
    CHECK(ctc_greedy(In<double>(scores({0, 1, 1, 0, 1, 2, 2, 0})), 3) == Labels{1, 1, 2});
    CHECK(ctc_greedy(In<double>(scores({0, 0})), 3).empty());
    CHECK(ctc_greedy(In<double>(scores({2, 2, 1})), 3, 2) == Labels{1});
    const auto apart = [](const Labels& a, const Labels& b) { return edits(a, b); };
    CHECK(apart({}, {}) == 0);
    CHECK(apart({1, 2, 3}, {1, 2, 3}) == 0);
    CHECK(apart({1, 2, 3}, {}) == 3);
    CHECK(apart({}, {4, 4}) == 2);
    CHECK(apart({1, 2, 3}, {1, 3}) == 1);
    CHECK(apart({1, 2, 3, 4}, {2, 3, 5, 4}) == 2);
}

TEST_CASE("word errors by hand: edits of greedy decoding over words meant, more than one being possible") {
    // Three examples of four frames: silence is 0. Said and meant: 1 2 | 1 3, one changed; 2 | nothing, one put in;
    // nothing | 3 3, two left out.
    const Labels best{1, 1, 0, 2, 0, 2, 2, 2, 0, 0, 0, 0};
    std::vector<double> z(4 * best.size(), -10.0);
    for (std::size_t t = 0; t < best.size(); ++t) z[4 * t + static_cast<std::size_t>(best[t])] = 0;
    const auto data = spoken({1, 3, -1, -1, 3, 3}, 2, 4);
    const auto judged = [&](const std::vector<Index>& ids, std::size_t first) {
        Judgement to;
        const auto rows = In<double>(z).subspan(16 * first, 16 * ids.size());
        Ctc{}.judge(Batch<double>(data.examples(), ids), rows, to);
        return to;
    };
    const auto all = judged({0, 1, 2}, 0), noise = judged({1}, 1);
    CHECK(all.edits == 4);
    CHECK(all.meant == 4);
    CHECK(all.right == 1);  // two labels less one edit, and never less than none
    CHECK(noise.edits == 1);
    CHECK(noise.meant == 0);

    // Over clients: 4 edits of 4 words; 6 edits of 2, for somebody who says much that nobody meant; nobody's words.
    using namespace report;
    const PerClient<Which::global, When::before, SplitOf::test, Whom::all> result(
        On::local(), Pick::last(), "",
        {{.client = 0, .correct = 1, .loss_sum = 3, .n = 4, .edits = 4, .meant = 4},
         {.client = 1, .loss_sum = 1, .n = 2, .edits = 6, .meant = 2},
         {.client = 2, .loss_sum = 1, .n = 1}});
    CHECK(result.word_error_rate(Average::pooled).value == doctest::Approx(10.0 / 6));
    CHECK(result.word_error_rate(Average::unweighted).value == 2);
    CHECK(result.word_error_rate(Average::pooled).metric == parse<Metric>("word_error_rate"));
    CHECK(is_share(Metric::word_error_rate));
    RunRecord record;
    fill(record.per_client, result);
    CHECK(record.per_client[1].word_error_rate_global == 3);
    CHECK(std::isnan(record.per_client[2].word_error_rate_global));
    const auto text = to_json(record);
    CHECK(text.find("\"word_error_rate_global\":3") != std::string::npos);
    CHECK(text.find("word_error_rate_personal") == std::string::npos);
    // Where labels have their places there is none.
    const PerClient<Which::global, When::before, SplitOf::test, Whom::all> placed(
        On::local(), Pick::last(), "", {{.client = 0, .correct = 1, .loss_sum = 3, .n = 4}});
    CHECK(std::isnan(placed.word_error_rate(Average::pooled).value.get()));
}

TEST_CASE("what cannot be learnt from is refused before round one") {
    const Network<float, Ctc> net(Shape(3, 2), chain(Linear{4}));
    const auto complaint = [&](const Labels& labels, std::size_t each, std::size_t classes) -> std::string {
        const auto data = spoken(labels, each, classes, 6);
        try {
            net.accepts(data.examples(), true);
        } catch (const ConfigError& e) {
            return e.what();
        }
        return {};
    };
    CHECK(complaint({1, 2, 3}, 3, 4).empty());
    CHECK(complaint({1, 2, -1, 2, 2, 3}, 3, 4) == "nn::Ctc: the labels of example 1 need 4 frames, the network has 3");
    CHECK(complaint({1, 0, -1}, 3, 4) == "nn::Ctc: example 0 has the blank among its labels");
    CHECK(complaint({1}, 1, 3) ==
          "nn::Ctc needs an output for each class, the blank among them: the examples have 3 "
          "classes, a frame of the network 4 outputs");
    CHECK_THROWS_WITH_AS(Ctc{.blank = 4}.check(spoken({1}, 1, 4).examples(), 12, 3),
                         "nn::Ctc: the blank is no class of these examples", ConfigError);
    CHECK_THROWS_WITH_AS(Network<float>(Shape(9, 2), chain(Windows{4, 2})),
                         "nn::Windows: a window is an odd number of frames, a stride at least 1", ConfigError);
}

TEST_CASE("windows over frames are a convolution; the layers of the recogniser keep the law of a layer") {
    CHECK(conformance::layer(Windows{3, 2}, Shape(7, 2)) == none);
    CHECK(conformance::layer(Windows{5, 1}, Shape(3, 2)) == none);
    CHECK(conformance::layer(Sinusoids{}, Shape(4, 3)) == none);
}

// The paper's: 0.8 million in the convolutions, 13.4 million in all, 0.6 million in the second layer of the last block.
static_assert(parameters(Shape(400, 40), recipe::speech_transformer(5000)) ==
              77'184 + 737'664 + 6 * 1'772'928 + 1'925'000);
static_assert(output(Shape(400, 40), recipe::speech_transformer(5000)) == Shape(100, 5000));

TEST_CASE("a small recogniser learns synthetic frames: the error rate falls") {
    // Each label is four frames of a wave of its own, with noise, between frames of silence.
    constexpr std::size_t frames = 32, width = 4, classes = 4, each = 3, examples = 24;
    std::vector<float> x;
    Labels labels;
    Stream draw(Key{7});
    for (std::size_t i = 0; i < examples; ++i)
        for (std::size_t k = 0, t = 0; k < each; ++k) {
            labels.push_back(1 + static_cast<std::int32_t>(draw.below(classes - 1)));
            for (std::size_t end = k + 1 < each ? t + 10 : frames, begin = t; t < end; ++t)
                for (std::size_t j = 0; j < width; ++j) {
                    const bool speaks =
                        t >= begin + 3 && t < begin + 7 && static_cast<std::int32_t>(j) == labels.back();
                    x.push_back((speaks ? 1.0f : 0.0f) + 0.1f * static_cast<float>(draw.normal()));
                }
        }
    const auto data = data::Dataset::own(x, labels, classes, each);
    const Network<float, Ctc> net(Shape(frames, width), recipe::speech_transformer(classes, 0, 12, 2, 16, 1));
    net.accepts(data.examples(), true);
    const auto ids = support::first_ids(examples);
    const Batch<float> batch(data.examples(), ids);
    auto w = initial_parameters(net, Key{1});
    Vec<float> out(examples * net.outputs());
    const auto judged = [&] {
        Judgement to;
        net.predict(w, batch, out);
        net.judge(batch, In<float>(out), to);
        return to;
    };
    const auto rate = [](const Judgement& to) { return static_cast<double>(to.edits) / static_cast<double>(to.meant); };
    const double before = rate(judged());
    for (int s = 0; s < 400; ++s) net.fused_step(w, batch, Step<float>{.rate = 0.1});
    CHECK(before > 0.6);
    const auto to = judged();
    CHECK(rate(to) < 0.1);
    CHECK(to.counted == examples * each);
    CHECK(to.right >= 0.9 * static_cast<double>(to.counted));
}

}  // namespace ctc_test
