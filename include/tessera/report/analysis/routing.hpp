// SPDX-License-Identifier: BSD-3-Clause
// Which way examples go in a routed model (Panchal et al., NeurIPS 2023, Figures 2 to 4, Table 4): q0 by block and by
// who is right, on the client whose loss personalization changes most; what routing costs.
//
// A client whose losses are not finite, or that has no test data, is left out.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/view.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::analysis {

// Who can answer of a routed model, in the order of nn::Along.
inline constexpr std::array<std::string_view, 4> answers{"w_g alone", "w_l alone", "soft policy", "hard policy"};
struct Answered {
    std::vector<std::uint8_t> right{};
    double loss = absent;  // mean
};

// One client's test data: soft q0[i * blocks + j], which model is right where, and both mean losses.
struct RoutedClient {
    Id client = 0;
    std::size_t blocks = 0;
    std::vector<double> q0{};
    std::vector<std::uint8_t> global_right{}, personal_right{};
    double loss_global = absent, loss_personal = absent;
    std::array<Answered, answers.size()> by{};  // of the served model: its w_g may have been adapted

    std::size_t n() const { return global_right.size(); }
    double gain() const { return loss_global - loss_personal; }
    double mean_q0() const { return spread(q0).mean; }
    // Share of all decisions that go to the global branch under the hard policy; a tie does.
    double routed_global() const {
        if (q0.empty()) return absent;
        return static_cast<double>(std::ranges::count_if(q0, [](double q) { return q >= 0.5; })) /
               static_cast<double>(q0.size());
    }
    bool sound() const { return n() > 0 && std::isfinite(gain()); }
};

// The one with the largest difference between global and personal loss, either way; null if none is sound.
inline const RoutedClient* most_changed(const std::vector<RoutedClient>& all) {
    const RoutedClient* most = nullptr;
    for (const auto& one : all)
        if (one.sound() && (!most || std::fabs(one.gain()) > std::fabs(most->gain()))) most = &one;
    return most;
}

enum class RightModel : std::uint8_t { both, global_only, personal_only };
inline constexpr std::array<std::string_view, 3> right_models{"both right", "global only", "personal only"};

// q0 at one block over the examples of one category.
struct RouteBox {
    std::size_t n = 0;
    double mean = absent, least = absent, lower = absent, median = absent, upper = absent, most = absent;
    double routed_global = absent;  // share with q0 >= 1/2
};

inline std::vector<double> shares_of(const RoutedClient& one, std::size_t block, RightModel category) {
    std::vector<double> q0;
    for (std::size_t i = 0; i < one.n(); ++i) {
        const bool global = one.global_right[i] != 0, personal = one.personal_right[i] != 0;
        const bool fits = category == RightModel::both          ? global && personal
                          : category == RightModel::global_only ? global && !personal
                                                                : personal && !global;
        if (fits) q0.push_back(one.q0[i * one.blocks + block]);
    }
    return q0;
}

inline RouteBox box_of(const std::vector<double>& q0) {
    RouteBox box{.n = q0.size()};
    if (q0.empty()) return box;
    std::vector<Weighted> all;
    double global = 0;
    for (const double q : q0) {
        all.push_back({q, 1});
        global += q >= 0.5;
    }
    box.mean = spread(q0).mean;
    box.least = quantile(all, 0);
    box.lower = quantile(all, 0.25);
    box.median = quantile(all, 0.5);
    box.upper = quantile(all, 0.75);
    box.most = quantile(all, 1);
    box.routed_global = global / static_cast<double>(q0.size());
    return box;
}

namespace detail {

template <class Use>
void for_each_route(const RoutedClient& one, Use use) {
    for (std::size_t j = 0; j < one.blocks; ++j)
        for (std::size_t c = 0; c < right_models.size(); ++c)
            use("block " + std::to_string(j + 1) + ", " + std::string(right_models[c]),
                shares_of(one, j, static_cast<RightModel>(c)));
}

}  // namespace detail

// Distributions of q0; the bar of each is its middle half, the dot its median.
inline Extra routing_distributions(const RoutedClient& one) {
    Extra out{.id = "routing",
              .title = "Probability of the global branch",
              .caption = report::detail::cat("Soft q0 by block and by which model is right, test data of client ",
                                             report::detail::digits(one.client),
                                             ", whose loss personalization changes most."),
              .kind = Kind::violin,
              .y = {.title = "q0"}};
    detail::for_each_route(one, [&](std::string name, std::vector<double> q0) {
        if (!q0.empty()) out.series.push_back({.name = std::move(name), .y = std::move(q0)});
    });
    return out;
}
inline Extra routing_table(const RoutedClient& one) {
    Extra out{.id = "routing-boxes",
              .title = "Probability of the global branch, in numbers",
              .caption = "Soft q0; the last column is the share of examples that hard routing sends to the global "
                         "branch.",
              .kind = Kind::table};
    const std::vector<std::pair<const char*, double RouteBox::*>> columns{
        {"mean", &RouteBox::mean},     {"least", &RouteBox::least}, {"lower quartile", &RouteBox::lower},
        {"median", &RouteBox::median}, {"upper quartile", &RouteBox::upper}, {"most", &RouteBox::most},
        {"routed globally", &RouteBox::routed_global}};
    out.series.push_back({.name = "examples"});
    for (const auto& [name, field] : columns) out.series.push_back({.name = name});
    std::size_t left_out = 0;
    detail::for_each_route(one, [&](std::string name, const std::vector<double>& q0) {
        const auto box = box_of(q0);
        if (box.n == 0) return void(++left_out);
        out.categories.push_back(std::move(name));
        out.series[0].y.push_back(static_cast<double>(box.n));
        for (std::size_t k = 0; k < columns.size(); ++k) out.series[k + 1].y.push_back(box.*columns[k].second);
    });
    if (left_out > 0)
        out.caption += report::detail::cat(" Rows without an example are left out: ", report::detail::digits(left_out),
                                           ".");
    return out;
}

// What routing is worth: the branches alone, both by either policy, and what a router could reach at most that always
// takes a branch that is right. Pooled over the clients' test data.
inline Extra routing_worth(const std::vector<RoutedClient>& all) {
    Extra out{.id = "routing-worth",
              .title = "The branches alone and routed",
              .caption = "The models that clients are served, on their own test data, pooled. The last row counts the "
                         "examples that at least one branch alone gets right.",
              .kind = Kind::table,
              .series = {{.name = "accuracy"}, {.name = "mean loss"}}};
    double n = 0, either = 0;
    std::array<double, answers.size()> right{}, loss{};
    for (const auto& one : all) {
        if (!one.sound()) continue;
        n += static_cast<double>(one.n());
        for (std::size_t i = 0; i < one.n(); ++i) either += one.by[0].right[i] != 0 || one.by[1].right[i] != 0;
        for (std::size_t a = 0; a < answers.size(); ++a) {
            for (const auto hit : one.by[a].right) right[a] += hit;
            loss[a] += one.by[a].loss * static_cast<double>(one.n());
        }
    }
    const auto row = [&](std::string_view name, double accuracy, double mean_loss) {
        out.categories.emplace_back(name);
        out.series[0].y.push_back(n > 0 ? accuracy / n : absent);
        out.series[1].y.push_back(n > 0 ? mean_loss / n : absent);
    };
    for (std::size_t a = 0; a < answers.size(); ++a) row(answers[a], right[a], loss[a]);
    row("the better branch", either, absent);
    return out;
}
// Mean q0 of every block and the share that is routed globally, over all clients' test data.
inline Extra routing_by_block(const std::vector<RoutedClient>& all) {
    Extra out{.id = "routing-blocks",
              .title = "Probability of the global branch by block",
              .caption = "All clients' test data, pooled.",
              .kind = Kind::table,
              .series = {{.name = "mean q0"}, {.name = "routed globally"}}};
    std::vector<std::vector<double>> q0;
    for (const auto& one : all) {
        if (!one.sound()) continue;
        q0.resize(one.blocks);
        for (std::size_t k = 0; k < one.q0.size(); ++k) q0[k % one.blocks].push_back(one.q0[k]);
    }
    for (std::size_t j = 0; j < q0.size(); ++j) {
        const auto box = box_of(q0[j]);
        out.categories.push_back("block " + std::to_string(j + 1));
        out.series[0].y.push_back(box.mean);
        out.series[1].y.push_back(box.routed_global);
    }
    return out;
}

// Do clients whose losses fall apart route more locally? One point a client.
inline Extra routing_against_loss(const std::vector<RoutedClient>& all) {
    Extra out{.id = "routing-loss",
              .title = "Loss difference and routing per client",
              .caption =
                  "Mean test loss of the global model minus that of the personal one, against the mean of soft "
                  "q0 over examples and blocks: where the local model helps more, less should be routed globally.",
              .kind = Kind::scatter,
              .x = {.title = "global minus personal loss"},
              .y = {.title = "mean q0"},
              .series = {{.name = "clients"}}};
    for (const auto& one : all) {
        if (!one.sound()) continue;
        out.series[0].x.push_back(one.gain());
        out.series[0].y.push_back(one.mean_q0());
        out.series[0].texts.push_back("client " + std::to_string(one.client));
    }
    return out;
}

// What a routed model is: numbers of parameters, of the model, its router, and all that a client answers with; bytes of
// a visit; operations of a forward pass over one example (0: not known).
struct RoutingCost {
    std::size_t model = 0, router = 0, held = 0;
    double bytes_down = 0, bytes_up = 0;              // by the papers' count
    double model_bytes_down = 0, model_bytes_up = 0;  // were the model alone sent
    double model_flops = 0, router_flops = 0;

    double hard_flops() const { return model_flops + router_flops; }
    double soft_flops() const { return 2 * model_flops + router_flops; }
};
inline Extra routing_cost(const RoutingCost& cost) {
    Extra out{.id = "routing-cost",
              .title = "Cost of routing",
              .caption = "The model alone, hard routing and soft routing. Operations are those of a forward pass over "
                         "one example; a multiply-add counts two.",
              .kind = Kind::table,
              .categories = {"parameters stored", "bytes down a visit", "bytes up a visit",
                             "operations of an example"}};
    const auto column = [&](const char* name, std::size_t stored, double down, double up, double flops) {
        out.series.push_back({.name = name, .y = {static_cast<double>(stored), down, up, flops}});
    };
    column("model alone", cost.model, cost.model_bytes_down, cost.model_bytes_up, cost.model_flops);
    column("hard", cost.held, cost.bytes_down, cost.bytes_up, cost.hard_flops());
    column("soft", cost.held, cost.bytes_down, cost.bytes_up, cost.soft_flops());
    return out;
}

}  // namespace tessera::report::analysis
