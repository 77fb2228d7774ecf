// SPDX-License-Identifier: BSD-3-Clause
// Connectionist temporal classification (Graves et al., ICML 2006): the loss of a sequence of labels when nobody says
// at which frame each was spoken. Scores come frame by frame; the labels of an example are those of its labels that are
// there (not negative), in order, and none is the blank.
//
//   an alignment names one class a frame; runs of one class are one label, and blanks are left out
//   loss = mean over the batch of -weight / max(1, labels) * log sum over alignments of prod_t p_t(class at t)
//
// Sums run forward and backward over the labels with blanks around them, in logarithms and in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <tessera/contracts/judgement.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/nn/loss.hpp>

namespace tessera::nn {

// What an example says by the likeliest class of each frame: runs are one label, blanks are left out.
template <class R>
std::vector<std::int32_t> ctc_greedy(In<R> scores, std::size_t classes, std::int32_t blank = 0) {
    std::vector<std::int32_t> said;
    std::int32_t before = blank;
    for (std::size_t at = 0; at + classes <= scores.size(); at += classes) {
        const auto row = scores.subspan(at, classes);
        const auto best = static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
        if (best != before && best != blank) said.push_back(best);
        before = best;
    }
    return said;
}

// The fewest labels to change, leave out or put in that make one sequence the other (Levenshtein 1966).
inline std::size_t edits(std::span<const std::int32_t> said, std::span<const std::int32_t> meant) {
    std::vector<std::size_t> row(meant.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 0; i < said.size(); ++i) {
        std::size_t corner = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < meant.size(); ++j) {
            const std::size_t changed = corner + (said[i] != meant[j]);
            corner = row[j + 1];
            row[j + 1] = std::min({changed, row[j] + 1, corner + 1});
        }
    }
    return row.back();
}

struct Ctc {
    std::int32_t blank = 0;  // the class that stands for no label

    static constexpr bool speaks_logarithms() { return true; }  // of its predictions

    // z holds batch x frames x classes raw outputs and leaves as the gradient with respect to them. Where no alignment
    // is possible the loss is infinite and has no slope; `check` refuses such examples.
    template <class R>
    double gradient(const Batch<R>& batch, Out<R> z, Outputs how = {}) const {
        if (batch.size() == 0) return 0;
        const std::size_t each = z.size() / batch.size(), classes = each / how.positions;
        double loss = 0;
        log_softmax(z, classes);
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const auto rows = z.subspan(i * each, each);
            const Vec<std::int32_t> meant = labels_of(batch, i);
            const double share = static_cast<double>(batch.weight(i)) /
                                 static_cast<double>(batch.size() * std::max<std::size_t>(1, meant.size()));
            const Sums<R> sums(*this, rows, classes, meant);
            if (!(sums.total > never)) {
                loss += share > 0 ? -share * sums.total : 0;
                std::fill(rows.begin(), rows.end(), sums.total == never ? R(0) : static_cast<R>(sums.total));
                continue;
            }
            loss -= share * sums.total;
            sums.slopes(rows, share);
        }
        return loss;
    }
    // Raw outputs to log-probabilities of each frame.
    template <class R>
    static void predict(Out<R> z, std::size_t outputs, Outputs how = {}) {
        log_softmax(z, outputs / how.positions);
    }
    // The loss of an example is that of all its labels. Edits are those of greedy decoding: edits / meant is the word
    // error rate where labels are words, and more than 1 is possible. Right are the labels less the edits, at least 0.
    template <class R>
    void judge(const Batch<R>& batch, In<R> predictions, Judgement& to) const {
        if (batch.size() == 0) return;
        const std::size_t each = predictions.size() / batch.size(), classes = classes_of(batch.examples());
        if (classes == 0 || each % classes != 0)
            throw ConfigError("nn::Ctc: examples need as many classes as the network puts out for a frame");
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const auto rows = predictions.subspan(i * each, each);
            const Vec<std::int32_t> meant = labels_of(batch, i);
            to.loss -= Sums<R>(*this, rows, classes, meant).total;
            const std::size_t wrong = edits(ctc_greedy(rows, classes, blank), meant);
            to.right += static_cast<double>(meant.size() - std::min(wrong, meant.size()));
            to.counted += meant.size();
            to.edits += wrong;
            to.meant += meant.size();
        }
    }
    void check(const Examples& examples, std::size_t outputs, std::size_t frames = 1) const {
        if (!examples.labels)
            throw ConfigError("nn::Ctc needs labels; these examples have targets or multi-hot labels");
        if (examples.classes != outputs / frames)
            throw ConfigError("nn::Ctc needs an output for each class, the blank among them: the examples have " +
                              std::to_string(examples.classes) + " classes, a frame of the network " +
                              std::to_string(outputs / frames) + " outputs");
        if (blank < 0 || static_cast<std::size_t>(blank) >= examples.classes)
            throw ConfigError("nn::Ctc: the blank is no class of these examples");
        for (std::size_t i = 0; i < examples.size; ++i) {
            std::size_t needed = 0;
            std::int32_t before = -1;
            for (std::size_t k = 0; k < examples.labels_each; ++k) {
                const std::int32_t label = examples.labels[i * examples.labels_each + k];
                if (label < 0) continue;
                if (label == blank)
                    throw ConfigError("nn::Ctc: example " + std::to_string(i) + " has the blank among its labels");
                needed += label == before ? 2 : 1;  // a blank must part two that are the same
                before = label;
            }
            if (needed > frames)
                throw ConfigError("nn::Ctc: the labels of example " + std::to_string(i) + " need " +
                                  std::to_string(needed) + " frames, the network has " + std::to_string(frames));
        }
    }

private:
    static constexpr double never = -std::numeric_limits<double>::infinity();

    static std::size_t classes_of(const Examples& e) { return e.classes; }
    template <class R>
    static Vec<std::int32_t> labels_of(const Batch<R>& batch, std::size_t i) {
        Vec<std::int32_t> labels;
        for (std::size_t k = 0; k < batch.examples().labels_each; ++k)
            if (const std::int32_t label = batch.label(i, k); label >= 0) labels.push_back(label);
        return labels;
    }
    static double plus(double a, double b) {  // log(exp a + exp b)
        const double most = std::max(a, b), least = std::min(a, b);
        return least == never ? most : most + std::log1p(std::exp(least - most));
    }

    // Of one example: alpha(t, s), the logarithm of the sum over the beginnings of alignments that end at frame t in
    // place s, of the labels with blanks around them.
    template <class R>
    struct Sums {
        const Ctc& ctc;
        In<R> rows;  // log-probabilities
        std::size_t classes, frames, places;
        const Vec<std::int32_t>& labels;
        Vec<double> alpha;
        double total = never;

        Sums(const Ctc& c, In<R> z, std::size_t n, const Vec<std::int32_t>& l)
            : ctc(c),
              rows(z),
              classes(n),
              frames(z.size() / n),
              places(2 * l.size() + 1),
              labels(l),
              alpha(frames * places, never) {
            for (std::size_t t = 0; t < frames; ++t)
                for (std::size_t s = 0; s < places; ++s) {
                    double before = t == 0 ? (s < 2 ? 0 : never) : at(t - 1, s);
                    if (t > 0 && s > 0) before = plus(before, at(t - 1, s - 1));
                    if (t > 0 && skips(s)) before = plus(before, at(t - 1, s - 2));
                    alpha[t * places + s] = before + log_p(t, s);
                }
            total = at(frames - 1, places - 1);
            if (places > 1) total = plus(total, at(frames - 1, places - 2));
        }
        std::int32_t label(std::size_t s) const { return s % 2 == 0 ? ctc.blank : labels[s / 2]; }
        bool skips(std::size_t s) const { return s >= 2 && s % 2 == 1 && label(s) != label(s - 2); }
        double at(std::size_t t, std::size_t s) const { return alpha[t * places + s]; }
        double log_p(std::size_t t, std::size_t s) const {
            return static_cast<double>(rows[t * classes + static_cast<std::size_t>(label(s))]);
        }
        // to[t][c] = share (p - sum over the places of c of what share of the alignments is there at frame t); `to` may
        // lie where the rows lie.
        void slopes(Out<R> to, double share) const {
            Vec<double> beta(places, never), next(places), here(classes);  // of what follows frame t
            beta[places - 1] = 0;
            if (places > 1) beta[places - 2] = 0;
            for (std::size_t t = frames; t-- > 0;) {
                std::fill(here.begin(), here.end(), 0.0);
                for (std::size_t s = 0; s < places; ++s)
                    here[static_cast<std::size_t>(label(s))] += std::exp(at(t, s) + beta[s] - total);
                for (std::size_t s = 0; s < places; ++s) {
                    next[s] = beta[s] + log_p(t, s);
                    if (s + 1 < places) next[s] = plus(next[s], beta[s + 1] + log_p(t, s + 1));
                    if (s + 2 < places && skips(s + 2)) next[s] = plus(next[s], beta[s + 2] + log_p(t, s + 2));
                }
                std::swap(beta, next);
                for (std::size_t c = 0; c < classes; ++c) {
                    R& out = to[t * classes + c];
                    out = static_cast<R>(share * (std::exp(static_cast<double>(out)) - here[c]));
                }
            }
        }
    };
};

}  // namespace tessera::nn
