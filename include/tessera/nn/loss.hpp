// SPDX-License-Identifier: BSD-3-Clause
// Losses turn raw outputs into numbers and gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ratio>

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
    Scratch<R> exponentials(z.size()), top(rows), sum(rows);
    std::copy(z.begin(), z.end(), exponentials.begin());
    kernels::softmax_rows(exponentials.data(), rows, classes, top.data(), sum.data());
    for (std::size_t i = 0; i < rows; ++i) {
        const R log_sum = top[i] + std::log(sum[i]);
        for (R& v : z.subspan(i * classes, classes)) v -= log_sum;
    }
}
template <class R>
void log_softmax(Out<R> row) {
    log_softmax(row, row.size());
}

// Mean over the batch of -weight * log softmax(z)[label].
struct SoftmaxCrossEntropy {
    // z holds batch x classes raw outputs and leaves as the gradient with respect to them.
    template <class R>
    static double gradient(const Batch<R>& batch, Out<R> z) {
        const std::size_t rows = batch.size();
        if (rows == 0) return 0;
        if (!batch.examples().labels)
            throw ConfigError("nn::SoftmaxCrossEntropy needs one class an example; these have targets or marks");
        const std::size_t classes = z.size() / rows;
        if (batch.examples().classes > classes)
            throw ConfigError("nn::SoftmaxCrossEntropy needs an output for each class; these examples have more");
        const R share = R(1) / static_cast<R>(rows);
        Scratch<R> chosen(rows), top(rows), sum(rows);
        for (std::size_t i = 0; i < rows; ++i) chosen[i] = z[i * classes + batch.label(i)];
        kernels::softmax_rows(z.data(), rows, classes, top.data(), sum.data());
        double loss = 0;
        for (std::size_t i = 0; i < rows; ++i) {
            const R scale = batch.weight(i) * share, part = scale / sum[i];
            loss += static_cast<double>(scale) *
                    (std::log(static_cast<double>(sum[i])) - static_cast<double>(chosen[i] - top[i]));
            R* row = z.data() + i * classes;
            for (std::size_t c = 0; c < classes; ++c) row[c] *= part;
            row[batch.label(i)] -= scale;
        }
        return loss;
    }
    // Raw outputs to what a predictor speaks.
    template <class R>
    static void predict(Out<R> z, std::size_t classes) {
        log_softmax(z, classes);
    }
};

// Several classes an example, each yes or no: mean over the batch of
//   -weight / classes * sum_c [ y_c log p_c + (1 - y_c) log(1 - p_c) ],   p = 1 / (1 + exp(-z))
struct BinaryCrossEntropy {
    // z holds batch x classes raw outputs and leaves as the gradient with respect to them.
    template <class R>
    static double gradient(const Batch<R>& batch, Out<R> z) {
        const std::size_t rows = batch.size();
        if (rows == 0) return 0;
        const std::size_t classes = z.size() / rows;
        if (!batch.examples().marks || batch.examples().classes != classes)
            throw ConfigError("nn::BinaryCrossEntropy needs examples with a mark for each output of the network");
        double loss = 0;
        for (std::size_t i = 0; i < rows; ++i) {
            const double share =
                static_cast<double>(batch.weight(i)) / (static_cast<double>(rows) * static_cast<double>(classes));
            for (std::size_t c = 0; c < classes; ++c) {
                R& out = z[i * classes + c];
                const double score = static_cast<double>(out), mark = batch.marked(i, c) ? 1 : 0;
                const double small = std::exp(-std::fabs(score));  // so that no exponential overflows
                loss += share * (std::max(score, 0.0) - mark * score + std::log1p(small));
                out = static_cast<R>(share * ((score >= 0 ? 1 : small) / (1 + small) - mark));
            }
        }
        return loss;
    }
    // Raw outputs to log-probabilities, each class for itself: they do not sum to one.
    template <class R>
    static void predict(Out<R> z, std::size_t) {
        for (R& out : z) {
            const double score = static_cast<double>(out);
            out = static_cast<R>(std::min(score, 0.0) - std::log1p(std::exp(-std::fabs(score))));
        }
    }
};

namespace detail {
struct Miss {
    double value, slope;
};
// Of a regression: share * value(z - target) summed, z = share * slope(z - target).
template <class R, class F>
double regress(const Batch<R>& batch, Out<R> z, const char* sentence, const F& f) {
    if (batch.size() == 0) return 0;
    if (!batch.examples().targets || z.size() != batch.size()) throw ConfigError(sentence);
    double loss = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const double share = static_cast<double>(batch.weight(i)) / static_cast<double>(batch.size());
        const auto [value, slope] = f(static_cast<double>(z[i]) - static_cast<double>(batch.target(i)));
        loss += share * value;
        z[i] = static_cast<R>(share * slope);
    }
    return loss;
}
}  // namespace detail

// Mean over the batch of weight / 2 (z - target)^2. Predictions are the outputs themselves.
struct SquaredError {
    template <class R>
    static double gradient(const Batch<R>& batch, Out<R> z) {
        return detail::regress(batch, z, "nn::SquaredError needs a real target for each example, and one output",
                               [](double miss) -> detail::Miss {
                                   return {miss * miss / 2, miss};
                               });
    }
    template <class R>
    static void predict(Out<R>, std::size_t) {}
};

// The same up to a distance of Delta, a std::ratio, and linear from there on: Delta (|miss| - Delta / 2) (Huber 1964).
template <class Delta = std::ratio<1>>
struct Huber {
    template <class R>
    static double gradient(const Batch<R>& batch, Out<R> z) {
        constexpr double delta = static_cast<double>(Delta::num) / static_cast<double>(Delta::den);
        return detail::regress(batch, z, "nn::Huber needs a real target for each example, and one output",
                               [](double miss) -> detail::Miss {
                                   if (std::fabs(miss) <= delta) return {miss * miss / 2, miss};
                                   return {delta * (std::fabs(miss) - delta / 2), miss < 0 ? -delta : delta};
                               });
    }
    template <class R>
    static void predict(Out<R>, std::size_t) {}
};

}  // namespace tessera::nn
