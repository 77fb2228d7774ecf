// SPDX-License-Identifier: BSD-3-Clause
// What predictions are worth. A model that descends a loss of its own judges by it; others are judged by what their
// examples have: classes, multi-hot labels or real targets.
//
//   classes   loss -log p of the label, right where no class is likelier; ties go to the lowest class. Each label
//             counts, and one that is not there (negative) does not. Those that are words are counted by themselves.
//   multi-hot loss the mean over the classes of their cross-entropies, right the share of classes that are on their
//             side of one half. Each example counts.
//   targets   loss the mean over the targets of f(miss). Each example counts; nothing is right or wrong, and what R2
//             is made of is kept instead.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <tessera/contracts/model.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/error.hpp>

namespace tessera {

// R2 = 1 - missed / spread over examples with one or several real targets, each around its own mean.
struct Fit {
    Vec<double> means{};     // of each target
    double spread = 0;       // squared distances of targets from their means, summed
    double missed = 0;       // squared distances of predictions from targets, summed
    std::size_t examples = 0;

    // Nothing where targets do not differ.
    double r2() const { return spread > 0 ? 1 - missed / spread : std::numeric_limits<double>::quiet_NaN(); }

    // Squares are taken around the mean so far: a mean square less a squared mean cancels (Welford 1962).
    void add(std::size_t k, double target, double predicted) {
        if (k == 0) ++examples;
        if (means.size() <= k) means.resize(k + 1);
        const double before = target - means[k];
        means[k] += before / static_cast<double>(examples);
        spread += before * (target - means[k]);
        missed += (predicted - target) * (predicted - target);
    }
    void add(const Fit& other) {
        if (other.examples == 0) return;
        if (means.size() < other.means.size()) means.resize(other.means.size());
        const double a = static_cast<double>(examples), b = static_cast<double>(other.examples);
        for (std::size_t k = 0; k < other.means.size(); ++k) {
            const double apart = other.means[k] - means[k];
            spread += apart * apart * a * b / (a + b);
            means[k] += apart * b / (a + b);
        }
        spread += other.spread;
        missed += other.missed;
        examples += other.examples;
    }
};

// Sums over batches.
struct Judgement {
    double loss = 0, right = 0;
    std::size_t counted = 0;                   // labels that are there, or examples
    Fit fit{};                                 // of real targets
    double right_words = 0;                    // of the labels that are words of a vocabulary, and no marks of it
    std::size_t words = 0;
    std::size_t edits = 0, meant = 0;  // of labels without a place: those to change, leave out or put in, and all
    std::vector<std::uint8_t>* each = nullptr;  // if wanted: 1 or 0 for each label, in order

    void count(bool is_right) {
        if (each) each->push_back(is_right);
    }
};

// A model that judges by the loss it descends.
//
//   positions()                   rows of outputs, each for one label of an example; 1 where an example has one
//   judge(batch, predictions, to) adds what they are worth
//   accepts(examples, labelled)   before round one: ConfigError if the model cannot read these rows, or, unless only
//                                 their rows are read, learn from their labels
template <class M>
concept JudgingModel = Model<M> && requires(const M model, const Batch<real<M>>& batch, In<real<M>> predictions,
                                            Judgement& to, const Examples& examples) {
    { model.positions() } -> std::convertible_to<std::size_t>;
    model.judge(batch, predictions, to);
    model.accepts(examples, true);
};

template <Model M>
std::size_t positions(const M& model) {
    if constexpr (JudgingModel<M>) return model.positions();
    else return 1;
}

// predictions: log-probabilities of all classes for each position.
template <class R>
void judge_classes(const Batch<R>& batch, In<R> predictions, Judgement& to) {
    if (batch.size() == 0) return;
    const std::size_t each = batch.examples().labels_each, outputs = predictions.size() / batch.size();
    const std::size_t classes = outputs / each;
    if (classes * each != outputs || batch.examples().classes > classes)
        throw ConfigError("judging: the model has no output for each class of each label");
    for (std::size_t i = 0; i < batch.size(); ++i)
        for (std::size_t t = 0; t < each; ++t) {
            const std::int32_t label = batch.label(i, t);
            if (label < 0) continue;
            const R* row = predictions.data() + i * outputs + t * classes;
            std::size_t best = 0;
            for (std::size_t c = 1; c < classes; ++c) best = row[c] > row[best] ? c : best;
            const bool is_right = best == static_cast<std::size_t>(label) && std::isfinite(row[best]);
            to.loss -= static_cast<double>(row[label]);
            to.right += is_right;
            ++to.counted;
            to.count(is_right);
            if (label == 0 || static_cast<std::size_t>(label) > batch.examples().words) continue;
            to.right_words += is_right;
            ++to.words;
        }
}

// predictions: log-probabilities, each class for itself.
template <class R>
void judge_multi_hot(const Batch<R>& batch, In<R> predictions, Judgement& to) {
    if (batch.size() == 0) return;
    const std::size_t classes = predictions.size() / batch.size();
    if (batch.examples().classes != classes)
        throw ConfigError("judging: the model has no output for each class that examples may have");
    for (std::size_t i = 0; i < batch.size(); ++i) {
        double loss = 0;
        std::size_t right = 0;
        for (std::size_t c = 0; c < classes; ++c) {
            const double yes = static_cast<double>(predictions[i * classes + c]);
            const bool is_in = batch.in_class(i, c);
            // A probability that rounds to 1 is not taken as certainty: its opposite would be infinitely wrong.
            loss -= is_in ? yes : std::log(std::max(-std::expm1(yes), 1e-38));
            const bool is_right = is_in == (yes > std::log(0.5)) && std::isfinite(yes);
            right += is_right;
            to.count(is_right);
        }
        to.loss += loss / static_cast<double>(classes);
        to.right += static_cast<double>(right) / static_cast<double>(classes);
        ++to.counted;
    }
}

// predictions: the targets, as the model has them; f(miss) is the loss.
template <class R, class F>
void judge_targets(const Batch<R>& batch, In<R> predictions, const F& f, Judgement& to) {
    if (batch.size() == 0) return;
    const std::size_t each = batch.examples().targets_each, outputs = predictions.size() / batch.size();
    if (outputs < each) throw ConfigError("judging: the model has no output for each target");
    for (std::size_t i = 0; i < batch.size(); ++i) {
        double loss = 0;
        for (std::size_t k = 0; k < each; ++k) {
            const double said = static_cast<double>(predictions[i * outputs + k]);
            const double target = static_cast<double>(batch.target(i, k));
            loss += f(said - target);
            to.fit.add(k, target, said);
        }
        to.loss += loss / static_cast<double>(each);
        ++to.counted;
    }
}

// By the model's own loss, or by what the examples have.
template <class R>
void judge_as_labelled(const Batch<R>& batch, In<R> predictions, Judgement& to) {
    const Examples& e = batch.examples();
    if (e.labels) return judge_classes(batch, predictions, to);
    if (e.multi_hot) return judge_multi_hot(batch, predictions, to);
    if (!e.targets) throw ConfigError("judging: these examples have neither classes nor multi-hot labels nor targets");
    judge_targets(batch, predictions, [](double miss) { return miss * miss / 2; }, to);
}
template <Model M>
void judge(const M& model, const Batch<real<M>>& batch, In<real<M>> predictions, Judgement& to) {
    if constexpr (JudgingModel<M>) model.judge(batch, predictions, to);
    else judge_as_labelled(batch, predictions, to);
}

}  // namespace tessera
