// SPDX-License-Identifier: BSD-3-Clause
// What personalization does to each client of one run, as figures (Pillutla et al., ICML 2022, Figures 5, 7 and 8).
//
//   change_k = personal minus global accuracy of client k, in points, on its test and on its training data
//
// A client without either accuracy (no data, or a model that diverged) is left out of every number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::analysis {

struct Change {
    Id client;
    std::size_t n_train, n_test;
    double points;
};

// On `split`, in order of client number.
inline std::vector<Change> changes(const RunRecord& run, SplitOf split = SplitOf::test) {
    tessera::detail::require(split != SplitOf::validation, "changes per client are on test or on training data");
    std::vector<Change> out;
    for (const auto& client : run.per_client) {
        const double gain = split == SplitOf::test ? client.gain() : client.train_gain();
        if (std::isfinite(gain)) out.push_back({client.id, client.n_train, client.n_test, 100 * gain});
    }
    return out;
}

struct Harm {
    std::size_t clients = 0, gaining = 0, harmed = 0;  // strictly above, strictly below 0
    double share = absent;                             // harmed of clients
    double median_n_harmed = absent, median_n_others = absent;  // training examples
};

inline Harm harm(const std::vector<Change>& all) {
    Harm out{.clients = all.size()};
    std::vector<Weighted> harmed, others;
    for (const auto& change : all) {
        out.gaining += change.points > 0;
        out.harmed += change.points < 0;
        (change.points < 0 ? harmed : others).push_back({static_cast<double>(change.n_train), 1});
    }
    if (!all.empty()) out.share = static_cast<double>(out.harmed) / static_cast<double>(out.clients);
    out.median_n_harmed = quantile(harmed, 0.5);
    out.median_n_others = quantile(others, 0.5);
    return out;
}

namespace detail {

// Test first, then training where the run has it.
template <class Use>
void for_each_split(const RunRecord& run, Use use) {
    if (const auto test = changes(run); !test.empty()) use("test", test);
    if (const auto train = changes(run, SplitOf::train); !train.empty()) use("training", train);
}

inline Axis change_axis() { return {.title = "change", .unit = "points"}; }
inline std::string name_of(Id client) { return "client " + std::to_string(client); }

inline Extra::Series series_of(std::string name, const std::vector<Change>& all) {
    Extra::Series out{.name = std::move(name)};
    for (const auto& change : all) {
        out.y.push_back(change.points);
        out.texts.push_back(name_of(change.client));
    }
    return out;
}

}  // namespace detail

inline Extra change_against_size(const RunRecord& run) {
    Extra out{.id = "change-size",
              .title = "Change in accuracy and client size",
              .caption = "Personal minus global accuracy of each client, on its test and its training data, against "
                         "its training examples.",
              .kind = Kind::scatter,
              .x = {.title = "training examples of the client"},
              .y = detail::change_axis()};
    double least = HUGE_VAL, most = 0;
    detail::for_each_split(run, [&](const char* name, const std::vector<Change>& all) {
        auto& series = out.series.emplace_back(detail::series_of(name, all));
        for (const auto& change : all) {
            series.x.push_back(static_cast<double>(change.n_train));
            least = std::min(least, series.x.back()), most = std::max(most, series.x.back());
        }
    });
    out.x.logarithmic = most > 10 * least;
    return out;
}

inline Extra change_violins(const RunRecord& run) {
    Extra out{.id = "change-violins",
              .title = "Distribution of the change in accuracy",
              .caption = "Personal minus global accuracy over clients: outline by frequency, bar over the middle half, "
                         "dot at the median.",
              .kind = Kind::violin,
              .y = detail::change_axis()};
    detail::for_each_split(run, [&](const char* name, const std::vector<Change>& all) {
        out.series.push_back(detail::series_of(name, all));
    });
    return out;
}

// Test examples by which model is right on them, as the mean over clients (Panchal et al., NeurIPS 2023, Figure 2).
inline Extra breakdown_bars(const Shares& shares) {
    return {.id = "breakdown",
            .title = "Which model is right",
            .caption = "Test examples by the models that classify them correctly: mean over clients of their shares.",
            .kind = Kind::bars,
            .y = {.title = "test examples", .unit = "%"},
            .categories = {"both", "global only", "personal only", "neither"},
            .series = {{.name = "",
                        .y = {100 * shares.both, 100 * shares.global_only, 100 * shares.personal_only,
                              100 * shares.neither}}}};
}

inline Extra harmed_clients(const RunRecord& run) {
    Extra out{.id = "harmed",
              .title = "Clients that personalization harms",
              .caption = "Harmed: personal accuracy strictly below global accuracy. Sizes are medians of training "
                         "examples.",
              .kind = Kind::table,
              .x = {.title = "on"},
              .series = {{.name = "clients"},
                         {.name = "gain"},
                         {.name = "harmed"},
                         {.name = "harmed (%)"},
                         {.name = "size of harmed"},
                         {.name = "size of others"}}};
    detail::for_each_split(run, [&](const char* name, const std::vector<Change>& all) {
        const Harm h = harm(all);
        out.categories.emplace_back(std::string(name) + " data");
        const double row[] = {static_cast<double>(h.clients), static_cast<double>(h.gaining),
                              static_cast<double>(h.harmed),  100 * h.share,
                              h.median_n_harmed,              h.median_n_others};
        for (std::size_t i = 0; i < out.series.size(); ++i) out.series[i].y.push_back(row[i]);
    });
    return out;
}

// Means, deviations and quantiles of accuracy and change (%, points), clients once and by their number of examples.
inline Extra quantiles(const RunRecord& run) {
    Extra out{.id = "quantiles",
              .title = "Accuracy over clients",
              .caption = "Own data, at the end of the run, in % and points, with quantiles over clients. Each client "
                         "counts once, or by its number of examples of that kind.",
              .kind = Kind::table,
              .series = {{.name = "mean"}, {.name = "deviation"}}};
    for (const double q : quantile_levels) out.series.push_back({.name = report::detail::fixed(100 * q, 0) + " %"});
    const auto row = [&](const std::string& name, const std::vector<Weighted>& all) {
        const auto [mean, stddev] = spread(all);
        out.categories.push_back(name);
        out.series[0].y.push_back(mean);
        out.series[1].y.push_back(stddev);
        for (std::size_t i = 0; i < quantile_levels.size(); ++i)
            out.series[2 + i].y.push_back(quantile(all, quantile_levels[i]));
    };
    const auto rows = [&](const std::string& name, SplitOf split, auto value) {
        std::vector<Weighted> once, by_size;
        for (const auto& client : run.per_client)
            if (const double percent = 100 * value(client); std::isfinite(percent)) {
                once.push_back({percent, 1});
                by_size.push_back(
                    {percent, static_cast<double>(split == SplitOf::test ? client.n_test : client.n_train)});
            }
        if (once.empty()) return;
        row(name, once);
        row(name + ", by size", by_size);
    };
    rows("personal", SplitOf::test, [](const ClientRecord& c) { return c.accuracy_personal; });
    rows("global", SplitOf::test, [](const ClientRecord& c) { return c.accuracy_global; });
    rows("change, test", SplitOf::test, [](const ClientRecord& c) { return c.gain(); });
    rows("change, training", SplitOf::train, [](const ClientRecord& c) { return c.train_gain(); });
    return out;
}

// All of the above that the run has numbers for; a size that all clients have is nothing to draw against.
inline void add_client_figures(RunRecord& run) {
    const auto other = [&](const ClientRecord& client) { return client.n_train != run.per_client[0].n_train; };
    const bool sized = std::ranges::any_of(run.per_client, other);
    for (auto&& extra : {change_against_size(run), change_violins(run), harmed_clients(run), quantiles(run)})
        if (!extra.series.empty() && !extra.series[0].y.empty() && (sized || extra.id != "change-size")) run.add(extra);
}

// What step (c) of FedAlt's pipeline adds: the same clients, before and after the last epochs on their own parameters.
template <When B, When A, SplitOf S, Whom P>
Extra final_fine_tuning(const PerClient<Which::personal, B, S, P>& before,
                        const PerClient<Which::personal, A, S, P>& after) {
    using tessera::detail::require;
    require(before.on() == after.on(), "final_fine_tuning: the two results are on different data");
    require(before.counts().size() == after.counts().size(),
            "final_fine_tuning: the two results have different clients");
    Extra out{.id = "fine-tuning",
              .title = "What final fine-tuning adds",
              .kind = Kind::scatter,
              .x = {.title = "accuracy before", .unit = "%"},
              .y = detail::change_axis(),
              .series = {{.name = ""}}};
    auto& series = out.series[0];
    std::size_t better = 0, worse = 0;
    for (std::size_t k = 0; k < before.counts().size(); ++k) {
        const ClientCount &b = before.counts()[k], &a = after.counts()[k];
        require(b.client == a.client && b.n == a.n, "final_fine_tuning: the two results differ in clients or examples");
        const auto n = static_cast<double>(b.n);
        series.x.push_back(100 * b.correct / n);
        series.y.push_back(100 * (a.correct - b.correct) / n);
        series.texts.push_back(detail::name_of(b.client));
        better += a.correct > b.correct;
        worse += a.correct < b.correct;
    }
    using report::detail::cat, report::detail::digits, report::detail::rounded;
    out.caption = cat("Accuracy of the personal model on ", ground_in_words(before.accuracy(Average::unweighted)),
                      ". Mean change ", series.y.empty() ? "n/a" : rounded(spread(series.y).mean, 3), " points; ",
                      digits(better), " clients better, ", digits(worse), " worse of ", digits(series.y.size()), ".");
    return out;
}

}  // namespace tessera::report::analysis
