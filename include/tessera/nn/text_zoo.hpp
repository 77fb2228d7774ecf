// SPDX-License-Identifier: BSD-3-Clause
// Ready networks on text: recipes for any vocabulary, and the papers' sizes, known when compiling. They read as many
// words as an example has, named by whole numbers, and put out a row of scores for every position, or one for the last.
//
//   const Network<float> net(80, recipe::char_lstm(vocabulary.size()));
//
// Words are counted with all marks (padding, unknown, begin, end): a vocabulary of 10,000 has 10,004.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include <tessera/nn/activation.hpp>
#include <tessera/nn/attention.hpp>
#include <tessera/nn/layer_norm.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/recipe.hpp>
#include <tessera/nn/recurrence.hpp>
#include <tessera/nn/recurrent.hpp>
#include <tessera/nn/sequence.hpp>

namespace tessera::nn {

namespace recipe {

// Two layers of LSTM over characters (Flow's Shakespeare has 90 of them), the next one at every position.
constexpr auto char_lstm(std::size_t words, std::size_t hidden = 256, std::size_t width = 8) {
    return chain(Embedding{words, width}, Lstm{hidden}, Lstm{hidden}, Linear{words});
}
// The same as cells with both of torch's biases: routed, they are mixed at every position (Flow, section LSTM);
// embedding and scores are the global model's.
constexpr auto lstm_cell(std::size_t hidden) { return recurrence(LstmCore{hidden}, Linear{4 * hidden}, Bias{}); }
constexpr auto flow_shakespeare(std::size_t words, std::size_t hidden = 256, std::size_t width = 8) {
    return chain(unrouted(Embedding{words, width}), lstm_cell(hidden), lstm_cell(hidden), unrouted(Linear{words}));
}
// LEAF's: one character after 80 (Caldas et al., 2018).
constexpr auto leaf_lstm(std::size_t words, std::size_t hidden = 256, std::size_t width = 8) {
    return chain(Embedding{words, width}, Lstm{hidden}, Lstm{hidden}, last_position(), Linear{words});
}
// One layer of LSTM over words, and a narrow layer before the scores (Flow's Stack Overflow).
constexpr auto word_lstm(std::size_t words, std::size_t hidden = 670, std::size_t width = 96) {
    return chain(Embedding{words, width}, Lstm{hidden}, Linear{width}, Linear{words});
}
// As cells; all but the embedding is routed, word by word.
constexpr auto flow_stackoverflow(std::size_t words, std::size_t hidden = 670, std::size_t width = 96) {
    return chain(unrouted(Embedding{words, width}), lstm_cell(hidden), by_position(Linear{width}),
                 by_position(Linear{words}));
}

// pFedBreD's sentiment network as it was run: two layers of LSTM in both directions, and of the upper one what stands
// at the last position, then the last state of the way back, which stands at the first, and that of the way there.
struct SentimentFeatures {
    template <class B>
    constexpr int add(B& to, int v) const {
        const Shape in = to.shape(v);
        const std::size_t n = in.width(), end = (in.positions() - 1) * n;
        const int last = to.put(Cut{end, n}, std::array{v}), there = to.put(Cut{end, n / 2}, std::array{v}),
                  back = to.put(Cut{n / 2, n / 2}, std::array{v});
        return to.put(Concatenate{}, std::array{last, to.put(Concatenate{}, std::array{back, there})});
    }
};
constexpr auto sentiment_layers(std::size_t classes, std::size_t hidden = 50, std::size_t wide = 5000) {
    return chain(both_ways(Lstm{hidden}), both_ways(Lstm{hidden}), SentimentFeatures{}, Linear{wide}, LeakyRelu{},
                 Linear{classes});
}
// Its word vectors were given and stayed; here they are Part::input, so train all but that part to have the same.
constexpr auto sentiment_lstm(std::size_t words, std::size_t classes = 2, std::size_t hidden = 50,
                              std::size_t wide = 5000) {
    return chain(Embedding{words, hidden}, both_ways(Lstm{hidden}), both_ways(Lstm{hidden}), SentimentFeatures{},
                 Linear{wide}, LeakyRelu{}, Linear{classes});
}

// LN(x + dropped(inner(x))), with a bottleneck of Houlsby et al. before the sum if `rank` is not 0.
template <class Inner>
struct Sublayer {
    Inner inner;
    double dropout = 0;
    std::size_t rank = 0;

    template <class B>
    constexpr int add(B& to, int v) const {
        int z = to.part(0, "inner", inner, v);
        if (dropout > 0) z = to.part(1, {}, Dropout{dropout}, z);
        if (rank > 0) z = to.part(2, "adapter", bottleneck(rank, Near{}), z);
        return to.part(3, "norm", LayerNorm{}, to.put(Add{}, std::array{v, z}));
    }
};

// FedAlt's transformer (Pillutla et al., ICML 2022): the norm follows the sum, words have one table for reading and for
// scores, x = relu(sqrt(width) E[word] + P[position]).
struct Transformer {
    std::size_t words;
    std::size_t width = 256, heads = 4, inner = 1024, blocks = 4;
    std::size_t rank = 0;  // of the adapters, two a block; 0: none
    double dropout = 0;
    bool every = true;  // scores at every position; else at the last

    template <class B>
    constexpr int add(B& to, int v) const {
        Tie table;
        std::size_t at = 0;
        const std::size_t mark = to.mark();
        v = to.element(at++, Tied<Embedding>{{words, width}, &table}, v);
        // Rows of length about 1, so that neither the inputs nor the scores start far out.
        to.change(mark, [&](Segment& s, bool) { s.deviation = 1 / root(); });
        v = to.element(at++, Scale{root()}, v);
        v = to.element(at++, Positions{}, v);
        v = to.element(at++, Relu{}, v);
        const auto two = chain(Linear{inner}, Relu{}, Linear{width});
        const Sublayer<std::remove_const_t<decltype(two)>> feed{two, dropout, rank};
        for (std::size_t i = 0; i < blocks; ++i)
            v = to.element(at++, chain(Sublayer<Attention>{{heads, true}, dropout, rank}, feed), v);
        if (!every) v = to.element(at++, last_position(), v);
        v = to.element(at++, Tied<WordScores>{{words}, &table}, v);
        return to.element(at, Bias{}, v);
    }

private:
    constexpr double root() const {  // of the width, by Newton's steps, for std::sqrt is no constant expression
        double r = static_cast<double>(width);
        for (int i = 0; i < 60; ++i) r = (r + static_cast<double>(width) / r) / 2;
        return r;
    }
};
constexpr Transformer fedalt_transformer(std::size_t words, std::size_t rank = 0) {
    return {.words = words, .rank = rank};
}
// For quick studies: 2 blocks of 64.
constexpr Transformer small_transformer(std::size_t words, std::size_t rank = 0) {
    return {.words = words, .width = 64, .heads = 2, .inner = 128, .blocks = 2, .rank = rank};
}

}  // namespace recipe

namespace detail {
struct FlowShakespeareRecipe {
    static constexpr Shape in = 80;
    static constexpr auto layers = recipe::flow_shakespeare(90);
};
struct FlowStackOverflowRecipe {
    static constexpr Shape in = 20;
    static constexpr auto layers = recipe::flow_stackoverflow(10'004);
};
struct LeafShakespeareRecipe {
    static constexpr Shape in = 80;
    static constexpr auto layers = recipe::leaf_lstm(80);
};
template <std::size_t Words, std::size_t Positions, std::size_t Rank>
struct FedAltTransformerRecipe {
    static constexpr Shape in = Positions;
    static constexpr auto layers = recipe::fedalt_transformer(Words, Rank);
};
}  // namespace detail

template <class R = float>
using FlowShakespeare = Fixed<detail::FlowShakespeareRecipe, R>;
template <class R = float>
using FlowStackOverflow = Fixed<detail::FlowStackOverflowRecipe, R>;
template <class R = float>
using LeafShakespeare = Fixed<detail::LeafShakespeareRecipe, R>;
template <std::size_t Rank = 0, class R = float, std::size_t Words = 10'004, std::size_t Positions = 20>
using FedAltTransformer = Fixed<detail::FedAltTransformerRecipe<Words, Positions, Rank>, R>;

}  // namespace tessera::nn
