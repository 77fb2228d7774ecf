// SPDX-License-Identifier: BSD-3-Clause
// Losses turn raw outputs into numbers and gradients. One of your own has
//
//   double gradient(const Batch<R>&, Out<R> z, Outputs) const     z, raw outputs, leaves as the slope; the mean loss
//   void predict(Out<R> z, std::size_t outputs, Outputs) const    raw outputs to what a predictor speaks
//   void judge(const Batch<R>&, In<R> predictions, Judgement&) const   what they are worth (contracts/judgement.hpp)
//   void check(const Examples&, std::size_t outputs, std::size_t positions) const   ConfigError before round one
//   bool speaks_logarithms() const                                 of its predictions
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ratio>
#include <string>
#include <type_traits>

#include <tessera/contracts/judgement.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/kernels/softmax.hpp>

namespace tessera::nn {

// Each row of z, `classes` long, becomes its log softmax.
template <class R>
void log_softmax(Out<R> z, std::size_t classes) {
    const std::size_t rows = classes > 0 ? z.size() / classes : 0;
    const Scratch<R> room(z.size() + 2 * rows);
    R *exponentials = room.data(), *top = exponentials + z.size(), *sum = top + rows;
    std::copy(z.begin(), z.end(), exponentials);
    kernels::softmax_rows(exponentials, rows, classes, top, sum, nullptr);
    for (std::size_t i = 0; i < rows; ++i) top[i] += std::log(sum[i]);
    kernels::lower_rows(z.data(), rows, classes, top);
}
template <class R>
void log_softmax(Out<R> row) {
    log_softmax(row, row.size());
}

// How a loss reads the outputs of a network. Losses are means over the labels of a batch, or over its examples; where
// each example must have a slope that no other changes (clipping), they are means over examples of the examples' own
// losses. With one label an example these are the same.
struct Outputs {
    std::size_t positions = 1;  // rows an example
    bool alone = false;
};

// Mean over the labels of the batch of -weight * log softmax(z)[label], as everywhere in the field; a label that is not
// there (negative) costs nothing and is not counted. `alone`: mean over the examples of the mean over their labels.
struct SoftmaxCrossEntropy {
    static constexpr bool speaks_logarithms() { return true; }  // of its predictions

    // z holds batch x positions x classes raw outputs and leaves as the gradient with respect to them.
    template <class R>
    static double gradient(const Batch<R>& batch, Out<R> z, Outputs how = {}) {
        if (batch.size() == 0) return 0;
        const std::size_t each = how.positions, rows = batch.size() * each, classes = z.size() / rows;
        check(batch.examples(), z.size() / batch.size(), how.positions);
        const Scratch<R> room(4 * rows);
        R *chosen = room.data(), *scales = chosen + rows, *top = scales + rows, *sum = top + rows;
        const Scratch<std::int32_t> named(rows);
        std::size_t labels = 0;
        for (std::size_t i = 0, r = 0; i < batch.size(); ++i)
            for (std::size_t t = 0; t < each; ++t, ++r) {
                const std::int32_t label = named[r] = batch.label(i, t);
                labels += label >= 0;
                chosen[r] = label < 0 ? R(0) : z[r * classes + static_cast<std::size_t>(label)];
                scales[r] = batch.weight(i);
            }
        const R share = R(1) / static_cast<R>(how.alone ? batch.size() : labels);
        for (std::size_t r = 0; r < rows; ++r) {
            scales[r] *= share;
            if (how.alone && each > 1)
                scales[r] /= static_cast<R>(std::max<std::size_t>(1, batch.labelled(r / each)));
        }
        kernels::softmax_rows(z.data(), rows, classes, top, sum, scales);
        double loss = 0;
        for (std::size_t r = 0; r < rows; ++r) {
            R* row = z.data() + r * classes;
            if (named[r] < 0) {
                std::fill_n(row, classes, R(0));
                continue;
            }
            loss += static_cast<double>(scales[r]) *
                    (std::log(static_cast<double>(sum[r])) - static_cast<double>(chosen[r] - top[r]));
            row[named[r]] -= scales[r];
        }
        return loss;
    }
    // Raw outputs to what a predictor speaks.
    template <class R>
    static void predict(Out<R> z, std::size_t outputs, Outputs how = {}) {
        log_softmax(z, outputs / how.positions);
    }
    template <class R>
    static void judge(const Batch<R>& batch, In<R> predictions, Judgement& to) {
        judge_classes(batch, predictions, to);
    }
    static void check(const Examples& examples, std::size_t outputs, std::size_t positions = 1) {
        if (!examples.labels)
            throw ConfigError("nn::SoftmaxCrossEntropy needs one class an example; these have targets or multi-hot "
                              "labels");
        if (examples.labels_each != positions)
            throw ConfigError("nn::SoftmaxCrossEntropy needs a label for each position; the examples have " +
                              std::to_string(examples.labels_each) + ", the network " + std::to_string(positions));
        if (examples.classes > outputs / positions)
            throw ConfigError("nn::SoftmaxCrossEntropy needs an output for each class; these examples have more");
    }
};

// Several classes an example, each yes or no: mean over the batch of
//   -weight / classes * sum_c [ y_c log p_c + (1 - y_c) log(1 - p_c) ],   p = 1 / (1 + exp(-z))
struct BinaryCrossEntropy {
    static constexpr bool speaks_logarithms() { return true; }

    // z holds batch x classes raw outputs and leaves as the gradient with respect to them.
    template <class R>
    static double gradient(const Batch<R>& batch, Out<R> z, Outputs = {}) {
        const std::size_t rows = batch.size();
        if (rows == 0) return 0;
        const std::size_t classes = z.size() / rows;
        check(batch.examples(), classes);
        double loss = 0;
        for (std::size_t i = 0; i < rows; ++i) {
            const double share =
                static_cast<double>(batch.weight(i)) / (static_cast<double>(rows) * static_cast<double>(classes));
            for (std::size_t c = 0; c < classes; ++c) {
                R& out = z[i * classes + c];
                const double score = static_cast<double>(out), mark = batch.in_class(i, c) ? 1 : 0;
                const double small = std::exp(-std::fabs(score));  // so that no exponential overflows
                loss += share * (std::max(score, 0.0) - mark * score + std::log1p(small));
                out = static_cast<R>(share * ((score >= 0 ? 1 : small) / (1 + small) - mark));
            }
        }
        return loss;
    }
    // Raw outputs to log-probabilities, each class for itself: they do not sum to one.
    template <class R>
    static void predict(Out<R> z, std::size_t, Outputs = {}) {
        for (R& out : z) {
            const double score = static_cast<double>(out);
            out = static_cast<R>(std::min(score, 0.0) - std::log1p(std::exp(-std::fabs(score))));
        }
    }
    template <class R>
    static void judge(const Batch<R>& batch, In<R> predictions, Judgement& to) {
        judge_multi_hot(batch, predictions, to);
    }
    static void check(const Examples& examples, std::size_t outputs, std::size_t = 1) {
        if (!examples.multi_hot || examples.classes != outputs)
            throw ConfigError("nn::BinaryCrossEntropy needs multi-hot labels, one for each output of the network");
    }
};

namespace detail {
struct Miss {
    double value, slope;
};
// Real targets: mean over the batch of weight times the mean over the targets of F::of(z - target).value.
template <class F>
struct Regression {
    static constexpr bool speaks_logarithms() { return false; }  // predictions are the outputs themselves

    // z holds batch x targets raw outputs and leaves as the gradient with respect to them.
    template <class R>
    static double gradient(const Batch<R>& batch, Out<R> z, Outputs = {}) {
        if (batch.size() == 0) return 0;
        check(batch.examples(), z.size() / batch.size());
        const std::size_t each = batch.examples().targets_each;
        double loss = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const double share =
                static_cast<double>(batch.weight(i)) / (static_cast<double>(batch.size()) * static_cast<double>(each));
            for (std::size_t k = 0; k < each; ++k) {
                R& out = z[i * each + k];
                const auto [value, slope] = F::of(static_cast<double>(out) - static_cast<double>(batch.target(i, k)));
                loss += share * value;
                out = static_cast<R>(share * slope);
            }
        }
        return loss;
    }
    template <class R>
    static void predict(Out<R>, std::size_t, Outputs = {}) {}
    template <class R>
    static void judge(const Batch<R>& batch, In<R> predictions, Judgement& to) {
        judge_targets(batch, predictions, [](double miss) { return F::of(miss).value; }, to);
    }
    static void check(const Examples& examples, std::size_t outputs, std::size_t = 1) {
        if (!examples.targets || examples.targets_each != outputs) throw ConfigError(F::sentence);
    }
};
struct SquaredMiss {
    static constexpr const char* sentence = "nn::SquaredError needs an output for each real target of an example";
    static Miss of(double miss) { return {miss * miss / 2, miss}; }
};
template <class Delta>
struct HuberMiss {
    static constexpr const char* sentence = "nn::Huber needs an output for each real target of an example";
    static Miss of(double miss) {
        constexpr double delta = static_cast<double>(Delta::num) / static_cast<double>(Delta::den);
        if (std::fabs(miss) <= delta) return {miss * miss / 2, miss};
        return {delta * (std::fabs(miss) - delta / 2), miss < 0 ? -delta : delta};
    }
};
}  // namespace detail

// Mean of weight / 2 (z - target)^2.
struct SquaredError : detail::Regression<detail::SquaredMiss> {};

// The same up to a distance of Delta, a std::ratio, and linear from there on: Delta (|miss| - Delta / 2) (Huber 1964).
template <class Delta = std::ratio<1>>
struct Huber : detail::Regression<detail::HuberMiss<Delta>> {};

// Whether z leaves with the slopes of a softmax, which kernels know.
template <class Loss>
constexpr bool is_softmax(const Loss& loss) {
    if constexpr (requires { loss.is_softmax(); }) return loss.is_softmax();
    else return std::is_same_v<Loss, SoftmaxCrossEntropy>;
}

}  // namespace tessera::nn
