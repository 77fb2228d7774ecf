// SPDX-License-Identifier: BSD-3-Clause
// Several methods in one order: what each serves its clients, against one baseline for all.
//
//   accuracy   of the model that is served (the personal one where there is one), each client once, of seeds the mean
//   interval   over clients, drawn again with replacement (percentile bootstrap)
//   gain       client by client against the same client under the baseline, where both are on one split
//
// A method's own global model is no baseline for others: the worse it is, the more everybody seems to gain.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>
#include <tessera/report/compare.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::analysis {

struct RankingSettings {
    double confidence = 0.95;
    std::size_t resamples = 2000;  // of the clients
    std::uint64_t seed = 1;        // of the resampling
};

// One method: its runs differ in their seed alone.
struct Ranked {
    std::string name;
    Interval accuracy{}, gain{};                      // shares
    double worst_tenth = absent, deviation = absent;  // over clients
    std::size_t clients = 0, worse = 0;               // than under the baseline
};

namespace detail {

// What each client is served: accuracy on its own test data, of seeds the mean.
inline std::map<Id, double> served_accuracy(const std::vector<RunRecord>& runs) {
    std::map<Id, std::pair<double, std::size_t>> sums;
    for (const auto& run : runs)
        for (const auto& client : run.per_client) {
            const double value =
                std::isfinite(client.accuracy_personal) ? client.accuracy_personal : client.accuracy_global;
            if (!std::isfinite(value)) continue;
            sums[client.id].first += value;
            ++sums[client.id].second;
        }
    std::map<Id, double> out;
    for (const auto& [id, sum] : sums)
        if (sum.second == runs.size()) out[id] = sum.first / static_cast<double>(sum.second);
    return out;
}

inline bool on_split_of(const std::vector<RunRecord>& a, const std::vector<RunRecord>& b) {
    return report::detail::one_split(a, b);
}

}  // namespace detail

// The set that others are held against: Local, where one trained alone, else the first.
inline std::size_t baseline_of(const std::vector<std::vector<RunRecord>>& sets) {
    for (std::size_t i = 0; i < sets.size(); ++i)
        if (const Setting* name = sets[i].at(0).find("algorithm"); name && report::detail::shown(*name) == "local")
            return i;
    return 0;
}

// Best first. `names[i]` are the runs `sets[i]`, which differ in their seed.
inline std::vector<Ranked> ranked(const std::vector<std::vector<RunRecord>>& sets,
                                  const std::vector<std::string>& names, std::size_t baseline,
                                  const RankingSettings& settings = {}) {
    tessera::detail::require(sets.size() == names.size() && baseline < sets.size(),
                             "ranking: a name for each set of runs and a baseline among them are needed");
    const auto against = detail::served_accuracy(sets[baseline]);
    std::vector<Ranked> out;
    for (std::size_t i = 0; i < sets.size(); ++i) {
        Ranked row{.name = names[i]};
        std::vector<double> values, gains;
        const bool matched = i == baseline || detail::on_split_of(sets[baseline], sets[i]);
        for (const auto& [id, value] : detail::served_accuracy(sets[i])) {
            values.push_back(value);
            const auto other = against.find(id);
            if (!matched || other == against.end()) continue;
            gains.push_back(value - other->second);
            row.worse += value < other->second ? 1 : 0;
        }
        row.clients = values.size();
        if (!values.empty()) {
            const tessera::Key key = tessera::Key{settings.seed}(tessera::purpose::sampling);
            row.accuracy = bootstrap_interval(values, settings.confidence, settings.resamples, key);
            row.deviation = spread(values).stddev;
            std::vector<Weighted> once;
            for (const double value : values) once.push_back({value, 1});
            row.worst_tenth = quantile(once, 0.10);
            if (i != baseline && gains.size() == values.size())
                row.gain = bootstrap_interval(gains, settings.confidence, settings.resamples, key);
        }
        out.push_back(std::move(row));
    }
    std::ranges::stable_sort(out, [](const Ranked& a, const Ranked& b) {
        return std::isfinite(a.accuracy.mean) && (!std::isfinite(b.accuracy.mean) || a.accuracy.mean > b.accuracy.mean);
    });
    return out;
}

inline Extra ranking(const std::vector<std::vector<RunRecord>>& sets, const std::vector<std::string>& names,
                     std::size_t baseline, const RankingSettings& settings = {}) {
    using report::detail::cat, report::detail::digits, report::detail::fixed;
    Extra out{
        .id = "ranking",
        .title = "Ranking",
        .caption = cat(
            "What clients are served (personal models where there are some), each client once, own test data, in %; "
            "in brackets ",
            fixed(100 * settings.confidence, 0), " % intervals over clients. Gains are points against ",
            names.at(baseline),
            ", client by client. Worst tenth: the accuracy that nine clients in ten have at least."),
        .kind = Kind::table,
        .x = {.title = "runs"}};
    for (const auto* name : {"accuracy", "gain", "worst tenth", "deviation", "clients worse off"})
        out.series.push_back({.name = name});
    const auto with_interval = [](const Interval& i, bool sign) {
        if (!std::isfinite(i.mean)) return std::string();
        const auto text = [&](double v) { return cat(sign && v > 0 ? "+" : "", fixed(100 * v, 2)); };
        return i.known() ? cat(text(i.mean), " [", text(i.low), ", ", text(i.high), "]") : text(i.mean);
    };
    for (const auto& row : ranked(sets, names, baseline, settings)) {
        const bool is_baseline = row.name == names[baseline];
        out.categories.push_back(row.name);
        const auto add = [&](std::size_t column, double value, std::string text) {
            out.series[column].y.push_back(value);
            out.series[column].texts.push_back(std::move(text));
        };
        add(0, 100 * row.accuracy.mean, with_interval(row.accuracy, false));
        add(1, 100 * row.gain.mean, is_baseline ? "baseline" : with_interval(row.gain, true));
        add(2, 100 * row.worst_tenth, std::isfinite(row.worst_tenth) ? fixed(100 * row.worst_tenth, 2) : "");
        add(3, 100 * row.deviation, std::isfinite(row.deviation) ? fixed(100 * row.deviation, 2) : "");
        const bool judged = !is_baseline && std::isfinite(row.gain.mean);
        add(4, judged ? static_cast<double>(row.worse) : absent,
            judged ? cat(digits(row.worse), " of ", digits(row.clients)) : "");
    }
    return out;
}

}  // namespace tessera::report::analysis
