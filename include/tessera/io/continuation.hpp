// SPDX-License-Identifier: BSD-3-Clause
// How a model of text goes on: words drawn one after the other, each from what the model says about the word behind
// those before it.
//
//   const auto ids = io::continued<float>(predict, words.ids("To be"), {80, 80 * words.size()}, words, {.tokens = 50});
//   const auto text = io::text_of(words, ids);
//
// predict(batch, out) writes log-probabilities, as a model or a served client does: a row for every position, or one
// for the word behind the last. Padding, unknown, begin and end are never drawn. The same seed gives the same words.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/core/batch.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/io/text.hpp>

namespace tessera::io {

struct ContinuationSettings {
    std::size_t tokens = 100;
    double temperature = 1;  // 0: always the likeliest word, the first of equals
    std::uint64_t seed = 0;

    void validate() const {
        tessera::detail::require(tokens <= (std::size_t{1} << 20), "io::ContinuationSettings: at most 2^20 tokens");
        tessera::detail::require(std::isfinite(temperature) && temperature >= 0,
                                 "io::ContinuationSettings: the temperature must be 0 or more, and finite");
    }
};

// What a model of text reads and puts out.
struct ReadsText {
    std::size_t positions = 0, outputs = 0;
};

namespace detail {

// Of ids 1 .. count, whose log-probabilities are scores[id].
template <class R>
std::int32_t drawn(const R* scores, std::size_t count, double temperature, Stream& draw) {
    const R* first = scores + 1;
    const R* best = std::max_element(first, first + count);
    if (!std::isfinite(static_cast<double>(*best)))
        throw Error("io::continued: the model's answers are no finite numbers");
    if (temperature == 0) return static_cast<std::int32_t>(best - scores);
    std::vector<double> sums(count);
    double sum = 0;
    for (std::size_t k = 0; k < count; ++k)
        sums[k] = sum += std::exp((static_cast<double>(first[k]) - static_cast<double>(*best)) / temperature);
    const auto at = std::upper_bound(sums.begin(), sums.end(), draw.uniform() * sum) - sums.begin();
    return static_cast<std::int32_t>(std::min<std::ptrdiff_t>(at, std::ssize(sums) - 1)) + 1;
}

}  // namespace detail

// The words behind the prompt, as ids. A prompt longer than the model reads counts by its end.
template <class R, class Predict>
std::vector<std::int32_t> continued(const Predict& predict, std::span<const std::int32_t> prompt, ReadsText model,
                                    const Vocabulary& words, const ContinuationSettings& s) {
    s.validate();
    const std::size_t classes = words.size();
    const bool every = model.outputs == model.positions * classes;
    tessera::detail::require(!prompt.empty(), "io::continued: the prompt is empty; a model goes on from a word");
    tessera::detail::require(every || model.outputs == classes,
                             "io::continued: the model puts out other numbers than a score for each word");
    if (!every && prompt.size() < model.positions)
        throw ConfigError("io::continued: the model reads " + std::to_string(model.positions) +
                          " words and says the next one; the prompt has " + std::to_string(prompt.size()));
    std::vector<std::int32_t> ids(prompt.begin(), prompt.end());
    std::vector<R> scores(model.outputs);
    const std::vector<Index> one{0};
    Stream draw(Key{s.seed});
    for (std::size_t k = 0; k < s.tokens; ++k) {
        const std::size_t n = std::min(ids.size(), model.positions);
        std::vector<std::int32_t> row(ids.end() - static_cast<std::ptrdiff_t>(n), ids.end());
        row.resize(model.positions, Vocabulary::pad);
        const std::size_t labels = every ? model.positions : 1;
        const auto example =
            data::Dataset::own(std::move(row), std::vector<std::int32_t>(labels, 0), classes, labels);
        predict(Batch<R>(example.examples(), one), Out<R>(scores));
        ids.push_back(detail::drawn(scores.data() + (every ? (n - 1) * classes : 0), words.tokens().size(),
                                    s.temperature, draw));
    }
    ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
    return ids;
}

// Characters as they are; words with a space before each that is no mark of punctuation. What is no word is left out.
inline std::string text_of(const Vocabulary& words, std::span<const std::int32_t> ids) {
    std::string text;
    for (const auto id : ids) {
        if (id < 1 || static_cast<std::size_t>(id) > words.tokens().size()) continue;
        const std::string& word = words.tokens()[static_cast<std::size_t>(id) - 1];
        const bool mark = word.size() == 1 && std::string_view(",.!?;:").find(word) != std::string_view::npos;
        if (words.unit() == TextUnit::words && !text.empty() && !mark) text += ' ';
        text += word;
    }
    return text;
}

}  // namespace tessera::io
