// SPDX-License-Identifier: BSD-3-Clause
// Losses turn raw outputs into numbers and gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
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
        const std::size_t classes = z.size() / rows;
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

}  // namespace tessera::nn
