// SPDX-License-Identifier: BSD-3-Clause
// How far the server's model g is from its clients', on public examples (PerAda, Theorems 1 and 2):
//
//   Phi = mean_x |g(x) - (1/M) sum_m h_m(x)|_1        h_m: client m's local model, what it would send next
//   mean_x |p_m(x) - g(x)|_1 of each client           p_m: its personal model
//   mean_x KL(e(x) || h(x))                           e: softmax of the mean of the h_m's logits, h: their mean model
//
// Answers are probabilities, so the first two lie in [0, 2]. The third is the loss that distillation of that round
// would begin with: where it is 0, distillation has nothing to teach.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::analysis {

struct EnsembleDistance {
    double ensemble = 0;                      // Phi
    double lesson = 0;                        // KL(e || h)
    std::vector<double> local{}, personal{};  // of each client, to g

    double mean_personal() const {
        double sum = 0;
        for (const double each : personal) sum += each;
        return personal.empty() ? 0 : sum / static_cast<double>(personal.size());
    }
};

// Mean over rows of `outputs` numbers of the sum of |a - b|.
inline double mean_distance(std::span<const double> a, std::span<const double> b, std::size_t outputs) {
    tessera::detail::require(outputs > 0 && a.size() == b.size() && a.size() % outputs == 0,
                             "mean_distance: two tables of the same number of rows are needed");
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += std::fabs(a[i] - b[i]);
    return a.empty() ? 0 : sum * static_cast<double>(outputs) / static_cast<double>(a.size());
}

inline Extra ensemble_figure(const EnsembleDistance& d) {
    Extra out{.id = "ensemble-distance",
              .title = "Clients' answers against the server's",
              .caption = "Mean over public examples of the sum of absolute differences between probabilities, each "
                         "client's local and personal model against the server's. The ensemble's own distance is " +
                         report::detail::rounded(d.ensemble, 3) +
                         ". From the mean of the local models, distillation would begin with a divergence of " +
                         report::detail::rounded(d.lesson, 6) + ".",
              .kind = Kind::bars,
              .x = {.title = "client"},
              .y = {.title = "distance"}};
    for (std::size_t k = 0; k < d.local.size(); ++k) out.categories.push_back(std::to_string(k));
    out.series.push_back({.name = "local", .y = d.local});
    if (!d.personal.empty()) out.series.push_back({.name = "personal", .y = d.personal});
    return out;
}

}  // namespace tessera::report::analysis
