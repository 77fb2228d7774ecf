// SPDX-License-Identifier: BSD-3-Clause
// Figures over several runs (Pillutla et al., ICML 2022, Figures 4, 10 and 11): seeds, sizes of the personal part, and
// settings such as dropout or a penalty that are taken away or changed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/report/analysis/clients.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::analysis {

// A client's change in accuracy (points, own test data) over runs that differ in their seed.
struct SeedSpread {
    Id client;
    double mean, low, high;
    bool undecided() const { return low < 0 && high > 0; }  // helped by one seed, harmed by another
};

// In order of the mean; only clients that every run has a change for.
inline std::vector<SeedSpread> spread_of_clients(const std::vector<RunRecord>& runs) {
    tessera::detail::require(!runs.empty(), "the spread over seeds needs at least one run");
    std::vector<std::vector<Change>> all;
    for (const auto& run : runs) all.push_back(changes(run));
    std::vector<SeedSpread> out;
    for (const auto& first : all[0]) {
        std::vector<double> seen;
        for (const auto& run : all) {
            const auto found = std::ranges::lower_bound(run, first.client, {}, &Change::client);
            if (found != run.end() && found->client == first.client) seen.push_back(found->points);
        }
        if (seen.size() < runs.size()) continue;
        const auto [low, high] = std::ranges::minmax(seen);
        out.push_back({first.client, spread(seen).mean, low, high});
    }
    std::ranges::stable_sort(out, {}, &SeedSpread::mean);
    return out;
}

inline Extra spread_over_seeds(const std::vector<RunRecord>& runs) {
    using report::detail::cat, report::detail::digits;
    const auto all = spread_of_clients(runs);
    Extra out{.id = "seeds",
              .title = "Change per client over seeds",
              .caption = cat("Personal minus global accuracy on own test data over ", digits(runs.size()),
                             " runs, clients in order of their mean. For ",
                             digits(std::ranges::count_if(all, &SeedSpread::undecided)), " of ", digits(all.size()),
                             " clients the seed decides whether personalization helps."),
              .kind = Kind::line,
              .x = {.title = "clients in order of mean change", .integers = true},
              .y = detail::change_axis(),
              .series = {{.name = "mean"}, {.name = "least", .dashed = true}, {.name = "most", .dashed = true}},
              .shaded = true};
    for (const auto& each : all) {
        const double row[] = {each.mean, each.low, each.high};
        for (std::size_t s = 0; s < 3; ++s) {
            out.series[s].x.push_back(static_cast<double>(&each - all.data()));
            out.series[s].y.push_back(row[s]);
            out.series[s].texts.push_back(detail::name_of(each.client));
        }
    }
    return out;
}

// Pooled over test examples, in %; absent when no client has it.
inline double pooled_accuracy(const RunRecord& run, double ClientRecord::*accuracy) {
    std::vector<Weighted> all;
    for (const auto& client : run.per_client)
        if (std::isfinite(client.*accuracy))
            all.push_back({100 * client.*accuracy, static_cast<double>(client.n_test)});
    return spread(all).mean;
}

namespace detail {

inline double number_of(const Setting* setting) {
    if (!setting) return absent;
    return std::visit(
        [](const auto& value) {
            if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>)
                return static_cast<double>(value);
            else return absent;
        },
        setting->value());
}

}  // namespace detail

// Each run's gain in pooled test accuracy against the dimension of its personal part, which the runs hold as the
// setting `parameters`. Without a baseline (in %) the gain is over the run's own global model. A run without personal
// parameters has no place on the logarithmic axis and is left out.
inline Extra gain_against_parameters(const std::vector<RunRecord>& runs, double baseline = absent,
                                     std::string_view parameters = "personal_parameters") {
    Extra out{.id = "gain-parameters",
              .title = "Gain and number of personal parameters",
              .caption = std::isfinite(baseline)
                             ? "Personal accuracy, pooled over test examples, minus that of the common model."
                             : "Personal minus global accuracy, pooled over test examples.",
              .kind = Kind::scatter,
              .x = {.title = "personal parameters", .logarithmic = true},
              .y = {.title = "gain", .unit = "points"},
              .series = {}};
    const auto names = report::detail::names_of(runs);
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const double d = detail::number_of(runs[i].find(parameters));
        const double from =
            std::isfinite(baseline) ? baseline : pooled_accuracy(runs[i], &ClientRecord::accuracy_global);
        const double gain = pooled_accuracy(runs[i], &ClientRecord::accuracy_personal) - from;
        if (d > 0 && std::isfinite(gain)) out.series.push_back({.name = names[i], .x = {d}, .y = {gain}});
    }
    return out;
}

// The settings in which runs of one algorithm differ; of different ones none.
inline std::vector<std::string> changed_settings(const std::vector<RunRecord>& runs,
                                                 const std::vector<std::string>& ignored) {
    std::vector<std::string> out;
    const auto differs = [&](const std::string& name) {
        const Setting* first = runs[0].find(name);
        return std::ranges::any_of(runs, [&](const RunRecord& run) {
            const Setting* other = run.find(name);
            return !first || !other ? first != other : !(*first == *other);
        });
    };
    if (runs.empty() || differs("algorithm")) return out;
    for (const auto& run : runs)
        for (const auto& [name, value] : run.config)
            if (std::ranges::find(ignored, name) == ignored.end() && std::ranges::find(out, name) == out.end() &&
                differs(name))
                out.push_back(name);
    return out;
}

// Runs beside each other with the settings that were changed: what dropout or an L2 penalty does to the mean, to the
// spread and to the harmed clients.
inline Extra ablation(const std::vector<RunRecord>& runs, const std::vector<std::string>& settings) {
    Extra out{.id = "ablation",
              .title = "Settings changed between runs",
              .caption = "Own test data: accuracy pooled over examples (%), change per client (points).",
              .kind = Kind::table,
              .x = {.title = "run"},
              .categories = report::detail::names_of(runs),
              .series = {}};
    for (const auto& key : settings) {
        auto& series = out.series.emplace_back(Extra::Series{.name = key});
        for (const auto& run : runs) {
            const Setting* value = run.find(key);
            series.y.push_back(detail::number_of(value));
            series.texts.push_back(value ? report::detail::shown(*value) : "");
        }
    }
    const auto column = [&](const char* name, auto value) {
        auto& series = out.series.emplace_back(Extra::Series{.name = name});
        for (const auto& run : runs) series.y.push_back(value(run));
    };
    const auto of_changes = [](auto value) {
        return [value](const RunRecord& run) {
            std::vector<Weighted> once;
            for (const auto& change : changes(run)) once.push_back({change.points, 1});
            return value(once);
        };
    };
    column("personal accuracy",
           [](const RunRecord& run) { return pooled_accuracy(run, &ClientRecord::accuracy_personal); });
    column("mean change", of_changes([](const auto& once) { return spread(once).mean; }));
    column("deviation", of_changes([](const auto& once) { return spread(once).stddev; }));
    column("median change", of_changes([](const auto& once) { return quantile(once, 0.5); }));
    column("harmed", [](const RunRecord& run) { return static_cast<double>(harm(changes(run)).harmed); });
    column("harmed (%)", [](const RunRecord& run) { return 100 * harm(changes(run)).share; });
    return out;
}

}  // namespace tessera::report::analysis
