// SPDX-License-Identifier: BSD-3-Clause
// The rounds of a stage as reflected values, so that a checkpoint carries them and a resumed run reports all.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <tessera/core/bytes.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/report/record.hpp>
#include <tessera/runtime/federation.hpp>

namespace lab {

// Over all labels, and the mean over clients; absent where there is none.
struct Rate {
    double pooled = tessera::report::absent, unweighted = tessera::report::absent;
};

struct Score {
    tessera::report::Which model{};
    tessera::report::SplitOf split{};
    std::uint8_t served = 0;                      // with which settings; see Session
    double pooled = 0, unweighted = 0, loss = 0;  // accuracies or R2, pooled loss
    tessera::report::Metric quality = tessera::report::Metric::accuracy;
    // Of text; 0 where there is none, which no perplexity is.
    double perplexity = 0, perplexity_unweighted = 0, words = 0, words_unweighted = 0;
    // Where --metrics asks for them; absent too where clients have one class alone.
    double auc = tessera::report::absent, auc_unweighted = tessera::report::absent;
    double ece = tessera::report::absent, ece_unweighted = tessera::report::absent;
    Rate word_errors{};  // of labels without a place
};

// What takes a pass of its own, where it is asked for.
struct Measured {
    double coherence = tessera::report::absent, gradient_norm = tessera::report::absent;
};

struct Line {
    std::uint64_t round = 0;  // rounds done, from 1
    double seconds = 0;
    std::uint64_t bytes_up = 0, bytes_down = 0;
    double formula_up = 0, formula_down = 0, flops = 0, train_loss = 0;
    std::uint64_t examples = 0, trained = 0, merged = 0, rejected = 0, diverged = 0;
    tessera::Fingerprint state{};
    Measured measured{};
    tessera::Vec<Score> scores;
};

struct History {
    tessera::Vec<Line> lines;
};

inline Line line_of(const tessera::RoundReport& r) {
    return {.round = r.round + 1,
            .seconds = r.seconds,
            .bytes_up = r.bytes_up,
            .bytes_down = r.bytes_down,
            .formula_up = r.formula_bytes_up,
            .formula_down = r.formula_bytes_down,
            .flops = r.flops,
            .train_loss = r.train_loss,
            .examples = r.examples,
            .trained = r.trained,
            .merged = r.outcome.merged,
            .rejected = r.outcome.rejected(),
            .diverged = r.diverged,
            .state = r.state,
            .scores = {}};
}

inline std::vector<tessera::report::Evaluation> evaluations_of(const Score& s, tessera::report::Pick pick,
                                                               const std::string& stage) {
    using namespace tessera::report;
    const auto tagged = [&](Average average, Metric metric, double value) {
        return Evaluation{.model = s.model,
                          .when = s.model == Which::global ? When::before : When::after,
                          .on = On::local(),
                          .split = s.split,
                          .clients = Whom::all,
                          .pick = pick,
                          .average = average,
                          .metric = metric,
                          .stage = stage,
                          .value = value};
    };
    std::vector<Evaluation> all{tagged(Average::pooled, s.quality, s.pooled),
                                tagged(Average::unweighted, s.quality, s.unweighted),
                                tagged(Average::pooled, Metric::loss, s.loss)};
    if (std::isfinite(s.auc)) {
        all.push_back(tagged(Average::pooled, Metric::auc, s.auc));
        all.push_back(tagged(Average::unweighted, Metric::auc, s.auc_unweighted));
    }
    if (std::isfinite(s.ece)) {
        all.push_back(tagged(Average::pooled, Metric::ece, s.ece));
        all.push_back(tagged(Average::unweighted, Metric::ece, s.ece_unweighted));
    }
    if (std::isfinite(s.word_errors.pooled)) {
        all.push_back(tagged(Average::pooled, Metric::word_error_rate, s.word_errors.pooled));
        all.push_back(tagged(Average::unweighted, Metric::word_error_rate, s.word_errors.unweighted));
    }
    if (s.perplexity == 0) return all;
    all.push_back(tagged(Average::pooled, Metric::perplexity, s.perplexity));
    all.push_back(tagged(Average::unweighted, Metric::perplexity, s.perplexity_unweighted));
    all.push_back(tagged(Average::pooled, Metric::in_vocabulary, s.words));
    all.push_back(tagged(Average::unweighted, Metric::in_vocabulary, s.words_unweighted));
    return all;
}

inline std::size_t evaluated_rounds(const History& history) {
    std::size_t n = 0;
    for (const auto& line : history.lines) n += !line.scores.empty();
    return n;
}

inline constexpr auto numbers_of_score = std::to_array<double Score::*>(
    {&Score::pooled, &Score::unweighted, &Score::loss, &Score::perplexity, &Score::perplexity_unweighted, &Score::words,
     &Score::words_unweighted, &Score::auc, &Score::auc_unweighted, &Score::ece, &Score::ece_unweighted});

// Each model, split and way of serving over the last n evaluated rounds.
inline std::vector<Score> mean_of_last(const History& history, std::size_t n) {
    std::vector<Score> means;
    std::vector<double> counts;
    std::size_t taken = 0;
    for (auto line = history.lines.rbegin(); line != history.lines.rend() && taken < n; ++line) {
        if (line->scores.empty()) continue;
        ++taken;
        for (const auto& s : line->scores) {
            std::size_t i = 0;
            while (i < means.size() &&
                   (means[i].model != s.model || means[i].split != s.split || means[i].served != s.served))
                ++i;
            if (i == means.size()) {
                means.push_back({.model = s.model, .split = s.split, .served = s.served, .quality = s.quality});
                for (const auto number : numbers_of_score) means.back().*number = 0;
                means.back().word_errors = {0, 0};
                counts.push_back(0);
            }
            for (const auto number : numbers_of_score) means[i].*number += s.*number;
            means[i].word_errors.pooled += s.word_errors.pooled;
            means[i].word_errors.unweighted += s.word_errors.unweighted;
            counts[i] += 1;
        }
    }
    for (std::size_t i = 0; i < means.size(); ++i) {
        for (const auto number : numbers_of_score) means[i].*number /= counts[i];
        means[i].word_errors.pooled /= counts[i];
        means[i].word_errors.unweighted /= counts[i];
    }
    return means;
}

}  // namespace lab
