// SPDX-License-Identifier: BSD-3-Clause
// How far a personal model's loss on a class is from the clients' common loss on it (pFedBreD, Figure 3 and B.4).
//
//   L_ic   mean loss of client i's personal model on its examples of class c, 0 if it has none
//   dL_ic = L_ic - sum_i n_ic L_ic / sum_i n_ic        on own test data
//   dG_ic = G_ic - (1/N) sum_i G_ic                    on the test data of all clients
//
// A client whose loss is not finite counts in no mean and has gaps of its own.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>

namespace tessera::report::analysis {

// One client: per class the sum of losses and the number of examples.
struct ClassLoss {
    Id client = 0;
    std::vector<double> loss_sum{};
    std::vector<std::size_t> n{};

    double mean(std::size_t c) const { return n[c] == 0 ? 0 : loss_sum[c] / static_cast<double>(n[c]); }
};

// deviations[i][c] for all[i]. Pooled weighs clients by n_ic, unweighted counts each once.
inline std::vector<std::vector<double>> loss_deviations(const std::vector<ClassLoss>& all, Average how) {
    std::vector<std::vector<double>> out(all.size());
    const std::size_t classes = all.empty() ? 0 : all[0].n.size();
    for (const auto& one : all)
        tessera::detail::require(one.n.size() == classes && one.loss_sum.size() == classes,
                                 "loss_deviations: the clients have different numbers of classes");
    for (std::size_t c = 0; c < classes; ++c) {
        std::vector<Weighted> sound;
        for (const auto& one : all)
            if (std::isfinite(one.mean(c)))
                sound.push_back({one.mean(c), how == Average::pooled ? static_cast<double>(one.n[c]) : 1.0});
        const double common = spread(sound).mean;  // absent when nobody has the class
        for (std::size_t i = 0; i < all.size(); ++i) out[i].push_back(all[i].mean(c) - common);
    }
    return out;
}

namespace detail {

inline Extra deviation_map(const std::vector<ClassLoss>& all, Average how, std::string id, std::string title,
                           std::string caption) {
    Extra out{.id = std::move(id),
              .title = std::move(title),
              .caption = std::move(caption),
              .kind = Kind::heat,
              .x = {.title = "client"},
              .y = {.title = "class"}};
    for (const auto& one : all) out.categories.push_back(std::to_string(one.client));
    const auto deviations = loss_deviations(all, how);
    for (std::size_t c = 0; !all.empty() && c < all[0].n.size(); ++c) {
        auto& series = out.series.emplace_back(Extra::Series{.name = std::to_string(c)});
        for (const auto& of_client : deviations) series.y.push_back(of_client[c]);
    }
    return out;
}

}  // namespace detail

inline Extra loss_deviation_on_own(const std::vector<ClassLoss>& all) {
    return detail::deviation_map(all, Average::pooled, "loss-deviation", "Loss deviation per class, own test data",
                                 "Loss of each personal model on its own test examples of a class (0 if it has none) "
                                 "minus the clients' mean on that class, weighted by their examples of it.");
}

inline Extra loss_deviation_on_union(const std::vector<ClassLoss>& all) {
    return detail::deviation_map(all, Average::unweighted, "loss-deviation-union",
                                 "Loss deviation per class, all test data",
                                 "Loss of each personal model on the test examples of a class of all clients, minus "
                                 "the mean over the models.");
}

}  // namespace tessera::report::analysis
