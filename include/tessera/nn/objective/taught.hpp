// SPDX-License-Identifier: BSD-3-Clause
// What a student descends: the divergence from its teachers' answers at a temperature tau, with no factor tau^2.
//
//   classes  mean_x KL(q || softmax(z / tau));                slope in z: (softmax(z / tau) - q) / (tau batch)
//   labels   the binary KL of each label, mean over labels;   slope in z: (sigmoid(z / tau) - q) / (tau batch labels)
//
// The answers q are given, so labels are never read. A student that answers as its teachers do, bit for bit, has
// the slope 0 exactly: teachers and students are softened by the same code.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tessera/contracts/judgement.hpp>
#include <tessera/contracts/model.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/kernels/softmax.hpp>

namespace tessera::nn {

// What a row of outputs says: one class of several, or yes and no to each label.
enum class Answer : std::uint8_t { classes, labels };
constexpr std::array<std::string_view, 2> words_of(Answer) { return {"classes", "labels"}; }

struct Softening {
    double temperature = 1;  // tau
    Answer answer = Answer::classes;

    // Raw outputs become probabilities, row by row; `logs`, if wanted, their logarithms (of yes, for labels).
    template <class R>
    void operator()(Out<R> z, std::size_t outputs, R* logs = nullptr) const {
        const R scale = static_cast<R>(1 / temperature);
        for (R& each : z) each *= scale;
        if (answer == Answer::labels) {
            for (std::size_t i = 0; i < z.size(); ++i) {
                if (logs) logs[i] = z[i];
                z[i] = R(1) / (R(1) + std::exp(-z[i]));
            }
            return;
        }
        const std::size_t rows = outputs > 0 ? z.size() / outputs : 0;
        if (logs) std::copy(z.begin(), z.end(), logs);
        Scratch<R> top(rows), sum(rows);
        kernels::softmax_rows(z.data(), rows, outputs, top.data(), sum.data(), nullptr);
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t c = i * outputs; c < (i + 1) * outputs; ++c) {
                z[c] /= sum[i];
                if (logs) logs[c] -= top[i] + std::log(sum[i]);
            }
    }
};

// The teachers' probabilities for some examples.
template <class R>
struct Answers {
    Vec<Index> ids;  // ascending
    Vec<R> q;        // one row of outputs an id

    const R* of(Index id, std::size_t outputs) const {
        const auto place = std::lower_bound(ids.begin(), ids.end(), id) - ids.begin();
        return q.data() + static_cast<std::size_t>(place) * outputs;
    }
};

// Model and answers must outlive it; batches hold answered examples only.
template <Model M>
struct Taught {
    using Real = real<M>;
    static_assert(LogitModel<M>, "tessera::nn::Taught: this model has no `logits` and `pullback`; only models with "
                                 "logits can be taught");

    const M* model;
    const Answers<Real>* answers;
    Softening soften{};

    Layout layout() const { return model->layout(); }
    std::size_t outputs() const { return model->outputs(); }
    void predict(In<Real> x, const Batch<Real>& b, Out<Real> out) const { model->predict(x, b, out); }
    double gradient(In<Real> x, const Batch<Real>& b, Out<Real> out) const {
        const std::size_t each = outputs(), n = b.size() * each;
        const Scratch<Real> z(n);
        model->logits(x, b, Out<Real>(z.data(), n));
        const double loss = slope(b, Out<Real>(z.data(), n));
        model->pullback(x, b, In<Real>(z.data(), n), out);
        return loss;
    }

    // z, the student's logits, leaves as the gradient with respect to them; returns the loss.
    double slope(const Batch<Real>& b, Out<Real> z) const {
        if (b.size() == 0) return 0;
        const std::size_t each = outputs(), rows = positions(*model);
        const bool labels = soften.answer == Answer::labels;
        const double terms = static_cast<double>(b.size() * (labels ? each : rows));
        const Real share = static_cast<Real>(1 / (soften.temperature * terms));
        const Scratch<Real> logs(z.size());
        soften(z, each / rows, logs.data());
        double loss = 0;
        for (std::size_t i = 0; i < b.size(); ++i) {
            const Real* q = answers->of(b.ids()[i], each);
            for (std::size_t c = 0; c < each; ++c) {
                Real& p = z[i * each + c];
                const auto yes = static_cast<double>(q[c]), said = static_cast<double>(logs[i * each + c]);
                if (labels) loss += surprise(yes, -log1p_exp(-said)) + surprise(1 - yes, -log1p_exp(said));
                else loss += surprise(yes, said);
                p = (p - q[c]) * share;
            }
        }
        return loss / terms;
    }

private:
    static double surprise(double q, double log_p) { return q > 0 ? q * (std::log(q) - log_p) : 0; }
    static double log1p_exp(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
};

}  // namespace tessera::nn
