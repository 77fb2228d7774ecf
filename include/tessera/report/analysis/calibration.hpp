// SPDX-License-Identifier: BSD-3-Clause
// Calibration: whether what a model is sure of comes true (Guo et al., On Calibration of Modern Neural Networks, 2017).
//
//   ece = sum_b |B_b|/n | right(B_b)/|B_b| - confidence(B_b)/|B_b| |      15 bins of equal width over (0, 1]
//
// Confidence is the largest probability. Of few examples the number comes out too large, for chance alone is a
// deviation too. Pooled over clients all examples share the bins, whichever model answered.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <tessera/core/view.hpp>
#include <tessera/report/evaluation.hpp>

namespace tessera::report::analysis {

struct Calibration {
    static constexpr std::size_t bins = 15;
    std::array<double, bins> confidence{}, right{};  // sums
    std::size_t n = 0;

    void add(double sure, bool hit) {
        // The bin that ends at or above it; what is no number makes the error none.
        const double place = std::isfinite(sure) ? std::ceil(sure * static_cast<double>(bins)) - 1 : 0;
        const auto b = static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(bins - 1)));
        confidence[b] += sure;
        right[b] += hit ? 1 : 0;
        ++n;
    }
    void add(const Calibration& more) {
        for (std::size_t b = 0; b < bins; ++b) {
            confidence[b] += more.confidence[b];
            right[b] += more.right[b];
        }
        n += more.n;
    }
    // Absent without an example, and where a model is sure of nothing that is a number.
    double ece() const {
        double off = 0;
        for (std::size_t b = 0; b < bins; ++b) off += std::abs(right[b] - confidence[b]);
        return n > 0 && std::isfinite(off) ? off / static_cast<double>(n) : absent;
    }
};

// The largest of softmax(scores), and whether it is the label's. Scores are what the loss reads, logarithms too.
template <class R>
void add_answer(Calibration& to, In<R> scores, std::size_t label) {
    const auto top = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
    double sum = 0;
    for (const R score : scores) sum += std::exp(static_cast<double>(score) - static_cast<double>(scores[top]));
    to.add(1 / sum, top == label);
}

// Over clients with examples: the mean of their errors, or the error of all examples together.
inline double ece_of(const std::vector<Calibration>& clients, Average how) {
    Calibration all;
    std::vector<double> each;
    for (const auto& one : clients) {
        if (one.n == 0) continue;
        all.add(one);
        each.push_back(one.ece());
    }
    return how == Average::pooled ? all.ece() : spread(each).mean;
}

}  // namespace tessera::report::analysis
