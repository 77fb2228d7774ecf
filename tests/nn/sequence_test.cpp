// SPDX-License-Identifier: BSD-3-Clause
// Layers on sequences.
#include <tessera/nn/attention.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/recurrent.hpp>

#include <support/one_layer.hpp>
#include <support/toy_numbers.hpp>

namespace sequence_test {

namespace {

using namespace tessera;
using namespace tessera::nn;
using support::OneLayer;
using support::toy_numbers;

const conformance::Complaints none;

// A block of a transformer with adapters beside it.
constexpr auto transformer = chain(residual(chain(GroupNorm{}, Attention{2})),
                                   residual(chain(GroupNorm{}, Linear{8}, Relu{}, Linear{6})), bottleneck(2));

}  // namespace

TEST_CASE("layers on sequences keep the law of a layer") {
    CHECK(conformance::layer(Lstm{5}, Shape(4, 3)) == none);
    CHECK(conformance::layer(chain(Lstm{5}, Lstm{4}), Shape(4, 3)) == none);
    CHECK(conformance::layer(Attention{2}, Shape(4, 6)) == none);
    CHECK(conformance::layer(Attention{.heads = 3, .causal = false}, Shape(4, 6)) == none);
    CHECK(conformance::layer(GroupNorm{}, Shape(4, 6)) == none);
    CHECK(conformance::layer(transformer, Shape(4, 6)) == none);
}

TEST_CASE("an LSTM of one number by hand, two steps") {
    // Gates i, f, g, o with weights 1, 2, 3, 4 of x, 0.5 of h and no biases.
    const std::vector<double> w{1, 2, 3, 4, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0};
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    double h = 0, c = 0;
    std::vector<double> expected;
    for (const double x : {0.3, -0.2}) {
        const double i = sigmoid(x + 0.5 * h), f = sigmoid(2 * x + 0.5 * h), g = std::tanh(3 * x + 0.5 * h),
                     o = sigmoid(4 * x + 0.5 * h);
        c = f * c + i * g;
        expected.push_back(h = o * std::tanh(c));
    }
    const auto y = OneLayer<Lstm>({1}, Shape(2, 1), w, {0.3, -0.2}).y();
    for (std::size_t t = 0; t < 2; ++t) CHECK(y[t] == doctest::Approx(expected[t]).epsilon(1e-14));
    static_assert(parameters(Shape(80, 8), Lstm{256}) == 272'384);  // torch's, LEAF's Shakespeare
}

TEST_CASE("causal attention reads nothing that comes later; the other kind does") {
    const auto w = toy_numbers<double>(4 * 36, 1);
    auto x = toy_numbers<double>(24, 2);
    const auto causal = OneLayer<Attention>({2, true}, Shape(4, 6), w, x).y();
    const auto all = OneLayer<Attention>({2, false}, Shape(4, 6), w, x).y();
    x[20] += 1;  // of the last position
    const auto later = OneLayer<Attention>({2, true}, Shape(4, 6), w, x).y();
    CHECK(std::vector<double>(causal.begin(), causal.begin() + 18) ==
          std::vector<double>(later.begin(), later.begin() + 18));
    CHECK(causal[20] != later[20]);
    CHECK(OneLayer<Attention>({2, false}, Shape(4, 6), w, x).y()[0] != all[0]);
}

TEST_CASE("an embedding gives the rows of its table; equal words share theirs") {
    const std::vector<double> w{1, 2, 3, 4, 5, 6, /* positions */ 0.1, 0.2, 0.3, 0.4};
    OneLayer<Embedding> plain({3, 2, false}, 2, {1, 2, 3, 4, 5, 6}, {2, 0, 1, 1});
    CHECK(plain.y() == std::vector<double>{5, 6, 1, 2, 3, 4, 3, 4});
    CHECK(plain.dw({1, 2, 3, 4, 5, 6, 7, 8}) == std::vector<double>{3, 4, 12, 14, 1, 2});
    OneLayer<Embedding> placed({3, 2, true}, 2, w, {2, 0});
    CHECK(placed.y() == std::vector<double>{5.1, 6.2, 1.3, 2.4});
    CHECK_THROWS_WITH_AS(OneLayer<Embedding>({3, 2, false}, 2, {1, 2, 3, 4, 5, 6}, {3, 0}),
                         "nn::Embedding: an example holds a word that is not there", ConfigError);

    // Next to an LSTM, on words: gradients by differences, clipped sums with words that meet.
    std::vector<float> words;
    Stream draw(Key{3});
    for (int i = 0; i < 5 * 4; ++i) words.push_back(static_cast<float>(draw.below(6)));
    const auto data = data::Dataset::own(words, std::vector<std::int32_t>{0, 1, 2, 1, 0}, 3);
    const auto ids = support::first_ids(5);
    const Batch<double> batch(data.examples(), ids);
    const Network<double> net(4, chain(Embedding{6, 3, true}, Lstm{4}, Cut{12, 4}, Linear{3}));
    CHECK(conformance::check_gradients(net, batch) == none);
    const auto x = initial_parameters(net, Key{1});
    Vec<double> ghost(x.size()), slow(x.size());
    net.clipped_sum(x, batch, {.norm = 0.3}, ghost);
    clipped_sum_one_by_one(net, In<double>(x), batch, {.norm = 0.3}, Out<double>(slow));
    CHECK(conformance::detail::distance(ghost, slow) < 1e-12);
}

TEST_CASE("sentences") {
    CHECK_THROWS_WITH_AS(Network<float>(5, chain(Lstm{3})),
                         "nn::Lstm: it reads a sequence; say the shape of the input as positions, width", ConfigError);
    CHECK_THROWS_WITH_AS(Network<float>(Shape(4, 6), chain(Attention{4})),
                         "nn::Attention: the heads must divide the width", ConfigError);
}

}  // namespace sequence_test
