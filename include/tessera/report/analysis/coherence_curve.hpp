// SPDX-License-Identifier: BSD-3-Clause
// Coherence of the clients' envelope gradients over the rounds, as measured and smoothed (pFedBreD, Figure 2; the paper
// smooths with a Savitzky-Golay filter whose window it does not state, so ours is the plainer exponential one).
//
//   s_1 = g_1,  s_t = factor s_(t-1) + (1 - factor) g_t
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::analysis {

// A value that is not finite is a gap in the result and changes nothing after it.
inline std::vector<double> smoothed(const std::vector<double>& values, double factor) {
    tessera::detail::require(factor >= 0 && factor < 1, "smoothing: the factor must be at least 0 and below 1");
    std::vector<double> out;
    double level = absent;
    for (const double value : values) {
        if (std::isfinite(value)) level = std::isnan(level) ? value : factor * level + (1 - factor) * value;
        out.push_back(std::isfinite(value) ? level : absent);
    }
    return out;
}

inline Extra coherence_curve(const std::vector<double>& rounds, const std::vector<double>& coherence,
                             double factor = 0.9) {
    tessera::detail::require(rounds.size() == coherence.size(), "coherence_curve: one value for each round");
    return {
        .id = "coherence",
        .title = "Coherence of the envelope gradients",
        .caption = report::detail::cat("1 - det^(1/n) of the Gram matrix of the n clients' unit directions mu - theta: "
                                       "0 when they are orthogonal, 1 when one depends on the others. Smoothed: "
                                       "exponentially, factor ",
                                       report::detail::digits(factor), "."),
        .kind = Kind::line,
        .x = {.title = "round", .integers = true},
        .y = {.title = "coherence"},
        .series = {{.name = "measured", .x = rounds, .y = coherence, .dashed = true},
                   {.name = "smoothed", .x = rounds, .y = smoothed(coherence, factor)}}};
}

}  // namespace tessera::report::analysis
