// SPDX-License-Identifier: BSD-3-Clause
// Texts of different lengths in a batch: what is filled up costs nothing, and each text has the numbers it has alone.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/contracts/private.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/nn/gradient_check.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/recurrence.hpp>
#include <tessera/nn/text_zoo.hpp>

#include <support/bits.hpp>
#include <support/toy_numbers.hpp>

namespace lengths_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using support::first_ids;
using support::toy_numbers;

const conformance::Complaints none;
constexpr std::size_t words = 9, steps = 7;

// Texts of 7, 3, 5 and 1 words; 0 fills up, with no label.
data::Dataset texts(std::size_t each, std::int32_t filling = 0) {
    std::vector<std::int32_t> x, y;
    for (const std::size_t length : {7u, 3u, 5u, 1u})
        for (std::size_t t = 0; t < steps; ++t) {
            x.push_back(t < length ? static_cast<std::int32_t>(1 + (5 * x.size() + t * t) % (words - 1)) : filling);
            y.push_back(t < length ? static_cast<std::int32_t>((3 * y.size() + 1) % words) : -1);
        }
    if (each == 1) return data::Dataset::own(x, std::vector<std::int32_t>{1, 0, 2, 1}, 3);
    return data::Dataset::own(x, y, words, each);
}
// The second text alone, three words long.
data::Dataset short_text() {
    const auto all = texts(steps);
    const auto* x = static_cast<const std::int32_t*>(all.examples().rows) + steps;
    const auto* y = all.examples().labels + steps;
    return data::Dataset::own(std::vector<std::int32_t>(x, x + 3), std::vector<std::int32_t>(y, y + 3), words, 3);
}

// Without learnt positions, so that both lengths have the same parameters.
constexpr auto attentive =
    chain(Embedding{words, 18}, recipe::Sublayer<Attention>{{2, true}}, Linear{20}, Gelu{}, LayerNorm{}, Linear{words});
constexpr auto cells = chain(Embedding{words, 5}, recipe::lstm_cell(18), Linear{words});

template <class R>
Vec<R> numbers(std::size_t n) {
    const auto x = toy_numbers<R>(n, 3);
    return Vec<R>(x.begin(), x.end());
}

template <class R>
void alone_is_together(const Network<R>& padded, const Network<R>& exact) {
    REQUIRE(dimension(padded) == dimension(exact));
    const auto w = numbers<R>(dimension(padded));
    const auto all = texts(steps), one = short_text();
    const std::vector<Index> second{1}, first{0};
    const auto everybody = first_ids(4);
    const Batch<R> together(all.examples(), everybody), filled(all.examples(), second), cut(one.examples(), first);
    const std::size_t n = words;

    std::vector<R> scores(4 * padded.outputs()), own(exact.outputs());
    padded.predict(w, together, scores);
    exact.predict(w, cut, own);
    for (std::size_t j = 0; j < 3 * n; ++j) CHECK(scores[steps * n + j] == own[j]);
    CHECK(scores[steps * n] != scores[0]);

    Vec<R> a(w.size()), b(w.size());
    CHECK(padded.gradient(w, filled, a) == exact.gradient(w, cut, b));
    CHECK(a == b);
    // How a norm is taken depends on the number of positions, so it may differ in its last bits.
    const double rounding = sizeof(R) == 4 ? 3e-6 : 1e-13;
    Vec<R> c(w.size());
    padded.clipped_sum(w, filled, {.norm = 0.1}, a);
    exact.clipped_sum(w, cut, {.norm = 0.1}, b);
    CHECK(conformance::detail::distance(a, b) < rounding * 0.1);
    padded.gradient(w, filled, c);
    CHECK(conformance::detail::distance(a, c) > 1e-3);  // it was clipped

    // A batch is its texts, each with its share of the labels: 7, 3, 5 and 1 of 16. Sums of sums round once more each.
    Vec<double> sum(w.size());
    double loss = 0;
    const std::vector<double> labels{7, 3, 5, 1};
    for (const Index i : everybody) {
        const std::vector<Index> id{i};
        loss += labels[i] / 16 * padded.gradient(w, Batch<R>(all.examples(), id), c);
        for (std::size_t j = 0; j < w.size(); ++j) sum[j] += labels[i] / 16 * static_cast<double>(c[j]);
    }
    CHECK(padded.gradient(w, together, c) == doctest::Approx(loss).epsilon(rounding));
    double apart = 0, size = 0;
    for (std::size_t j = 0; j < w.size(); ++j) {
        apart = std::max(apart, std::abs(static_cast<double>(c[j]) - sum[j]));
        size = std::max(size, std::abs(sum[j]));
    }
    CHECK(apart < rounding * size);

    Judgement seen;
    padded.predict(w, together, scores);
    padded.judge(together, In<R>(scores), seen);
    CHECK(seen.counted == 16);

    // What fills up may be any word.
    const auto other = texts(steps, 4);
    CHECK(padded.gradient(w, Batch<R>(other.examples(), everybody), b) == padded.gradient(w, together, c));
    CHECK(b == c);
}

}  // namespace

TEST_CASE_TEMPLATE("a text that is filled up has the bits it has alone in scores, loss and gradient, and its clipped sum", R,
                   float, double) {
    SUBCASE("an LSTM") {
        alone_is_together<R>({steps, recipe::char_lstm(words, 18, 5)}, {3, recipe::char_lstm(words, 18, 5)});
    }
    SUBCASE("cells") { alone_is_together<R>({steps, cells}, {3, cells}); }
    SUBCASE("causal attention") { alone_is_together<R>({steps, attentive}, {3, attentive}); }
}

TEST_CASE("the last state is that of the last word, not of what fills up") {
    constexpr auto layers = chain(Embedding{words, 5}, Lstm{6}, last_word(), Linear{3});
    const auto all = texts(1);
    const auto everybody = first_ids(4);
    const Network<double> net(steps, layers);
    const Batch<double> batch(all.examples(), everybody);
    const auto w = numbers<double>(dimension(net));
    std::vector<double> scores(4 * 3), own(3);
    net.predict(w, batch, scores);
    const auto one = short_text();
    const Network<double> exact(3, chain(Embedding{words, 5}, Lstm{6}, last_position(), Linear{3}));
    const std::vector<Index> first{0};
    exact.predict(w, Batch<double>(one.examples(), first), own);
    CHECK(std::vector<double>(scores.begin() + 3, scores.begin() + 6) == own);
    const Network<double> wrong(steps, chain(Embedding{words, 5}, Lstm{6}, last_position(), Linear{3}));
    wrong.predict(w, batch, scores);
    CHECK(std::vector<double>(scores.begin() + 3, scores.begin() + 6) != own);

    CHECK(conformance::check_gradients(net, batch) == none);
    Vec<double> ghost(w.size()), slow(w.size());
    net.clipped_sum(w, batch, {.norm = 0.1}, ghost);
    clipped_sum_one_by_one(net, In<double>(w), batch, {.norm = 0.1}, Out<double>(slow));
    CHECK(conformance::detail::distance(ghost, slow) < 1e-12);
    CHECK_THROWS_WITH_AS(Network<double>(Shape(4, 2), chain(Lstm{3}, last_word())),
                         "nn::AtLastWord: it reads a sequence and a word for each of its positions", ConfigError);
}

TEST_CASE("clipped sums in float are those of single gradients: embedding, LSTM, cells, attention") {
    const auto all = texts(steps);
    const auto everybody = first_ids(4);
    const Batch<float> batch(all.examples(), everybody);
    for (const auto& net :
         {Network<float>(steps, recipe::char_lstm(words, 18, 5)), Network<float>(steps, cells),
          Network<float>(steps, attentive),
          Network<float>(steps, recipe::Transformer{
                                    .words = words, .width = 20, .heads = 2, .inner = 17, .blocks = 2, .rank = 3})}) {
        const auto w = initial_parameters(net, Key{2});
        Vec<float> ghost(w.size()), slow(w.size());
        const Clip<float> clip{.norm = 0.1};
        REQUIRE(net.clips(clip));
        net.clipped_sum(w, batch, clip, ghost);
        clipped_sum_one_by_one(net, In<float>(w), batch, clip, Out<float>(slow));
        double apart = 0, size = 0;
        for (std::size_t j = 0; j < w.size(); ++j) {
            apart = std::max(apart, std::abs(static_cast<double>(ghost[j]) - static_cast<double>(slow[j])));
            size = std::max(size, std::abs(static_cast<double>(slow[j])));
        }
        CHECK(apart <= 1e-6 * size);
        CHECK(size > 1e-3);
    }
}

TEST_CASE("dropout between layers draws by example and place, the same in both directions") {
    constexpr auto layers = chain(Embedding{words, 5}, Lstm{6}, Dropout{0.4}, Lstm{5}, Dropout{0.3}, Linear{words});
    const auto all = texts(steps);
    const auto everybody = first_ids(4);
    const Network<double> net(steps, layers);
    const auto w = numbers<double>(dimension(net));
    const Key one{5}, two{6};
    const Batch<double> batch(all.examples(), everybody, {}, &one), again(all.examples(), everybody, {}, &two);
    CHECK(conformance::check_gradients(net, batch) == none);
    Vec<double> a(w.size()), b(w.size());
    const double loss = net.gradient(w, batch, a);
    CHECK(net.gradient(w, batch, b) == loss);
    CHECK(a == b);
    CHECK(net.gradient(w, again, b) != loss);
    CHECK(net.gradient(w, batch.evaluated(), b) != loss);
}

}  // namespace lengths_test
