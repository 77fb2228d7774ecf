// SPDX-License-Identifier: BSD-3-Clause
// Losses turn raw outputs into numbers and gradients.
#pragma once

#include <cmath>
#include <cstddef>

#include <tessera/core/batch.hpp>
#include <tessera/core/view.hpp>

namespace tessera::nn {

// z <- log softmax(z)
template <class R>
void log_softmax(Out<R> z) {
    R most = z[0];
    for (const R v : z) most = v > most ? v : most;
    R sum = 0;
    for (const R v : z) sum += std::exp(v - most);
    const R log_sum = most + std::log(sum);
    for (R& v : z) v -= log_sum;
}

// Mean over the batch of -weight * log softmax(z)[label].
struct SoftmaxCrossEntropy {
    // z holds batch x classes raw outputs and leaves as the gradient with respect to them.
    template <class R>
    static double gradient(const Batch<R>& batch, Out<R> z) {
        if (batch.size() == 0) return 0;
        const std::size_t classes = z.size() / batch.size();
        const R share = R(1) / static_cast<R>(batch.size());
        double loss = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const Out<R> row = z.subspan(i * classes, classes);
            log_softmax(row);
            const std::size_t label = batch.label(i);
            const R scale = batch.weight(i) * share;
            loss -= static_cast<double>(scale) * static_cast<double>(row[label]);
            for (R& v : row) v = std::exp(v) * scale;
            row[label] -= scale;
        }
        return loss;
    }
    // Raw outputs to what a predictor speaks.
    template <class R>
    static void predict(Out<R> row) {
        log_softmax(row);
    }
};

}  // namespace tessera::nn
