// SPDX-License-Identifier: BSD-3-Clause
// What sparse training costs by formula (FedSpa, Tables 1 to 3), and how accuracy stands against cost over a run.
//
//   forward of a convolution   (2 nnz_w + out has_bias) H_out W_out     per example
//   forward of a linear layer  2 nnz_w + nnz_bias
//   training                   3 forward; norms, activations and pooling are not counted
//   visit                      E n 3 forward(sparse) + B 3 forward(dense)     the second term is the mask search's
//   bytes                      4 a number sent, down and up counted alike; masks not counted
//
// From a layout alone: `places` says at how many places of its output a tensor is used (H_out W_out, 1 for a linear
// layer, 0 for what is not counted), `active` how many of its coordinates exist.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::analysis {

// Of one example. A bias stands behind its weights in the layout; that of a convolution counts in full.
inline double forward_flops(Layout layout, std::span<const std::size_t> places, std::span<const std::size_t> active) {
    tessera::detail::require(places.size() == layout.size() && active.size() == layout.size(),
                             "forward_flops: give one number of places and of active coordinates for each tensor");
    double sum = 0;
    for (std::size_t l = 0; l < layout.size(); ++l) {
        const bool weights = layout[l].rank > 1, of_linear = l > 0 && layout[l - 1].rank == 2;
        const std::size_t counted = weights ? 2 * active[l] : of_linear ? active[l] : layout[l].size();
        sum += static_cast<double>(counted) * static_cast<double>(places[l]);
    }
    return sum;
}
inline double forward_flops(Layout layout, std::span<const std::size_t> places) {
    std::vector<std::size_t> all;
    for (const auto& s : layout) all.push_back(s.size());
    return forward_flops(layout, places, all);
}

// A run of `rounds` rounds with `per_round` visits each.
struct Schedule {
    std::size_t rounds = 1, per_round = 10, epochs = 5, examples = 500, batch = 128;

    double visits() const { return static_cast<double>(rounds) * static_cast<double>(per_round); }
    double training_flops(double forward) const {
        return visits() * static_cast<double>(epochs) * static_cast<double>(examples) * 3 * forward;
    }
    // The dense gradient that ranks coordinates for growing, once a visit. The paper bills it to static masks as well.
    double search_flops(double dense_forward) const {
        return visits() * static_cast<double>(batch) * 3 * dense_forward;
    }
    double bytes(double down, double up) const { return visits() * 4 * (down + up); }  // numbers a visit
};

enum class CostOf : std::uint8_t { formula_bytes, measured_bytes, seconds };

namespace detail {

inline double cost_of(const RoundRecord& round, CostOf what) {
    switch (what) {
        case CostOf::formula_bytes: return (round.formula_bytes_up + round.formula_bytes_down) / 1e9;
        case CostOf::measured_bytes: return static_cast<double>(round.bytes_up + round.bytes_down) / 1e9;
        case CostOf::seconds: return round.seconds;
    }
    return absent;
}

// The mean over clients of own test accuracy in a round, in %; absent where it was not evaluated.
inline double accuracy_of(const RoundRecord& round, Which model) {
    for (const auto& e : round.evaluations)
        if (e.model == model && e.metric == Metric::accuracy && e.split == SplitOf::test && e.on == On::local() &&
            e.clients == Whom::all && e.average == Average::unweighted)
            return 100 * e.value.get();
    return absent;
}

// What a client of this run is served in the end: its own model where the method has one.
inline Which served(const RunRecord& run) {
    const std::string stage = report::detail::main_stage(run);
    for (const auto& round : run.rounds)
        for (const auto& e : round.evaluations)
            if (e.model == Which::personal && e.stage == stage) return Which::personal;
    return Which::global;
}
inline std::string_view in_words(std::optional<Which> model) { return model ? word(*model) : "served"; }

}  // namespace detail

// Accuracy against what had been spent when it was measured, a line for each run. Without a model, of the one that a
// client is served: its own where the method has one.
inline Extra accuracy_against(CostOf what, const std::vector<RunRecord>& runs, std::optional<Which> model = {}) {
    const bool time = what == CostOf::seconds, formula = what == CostOf::formula_bytes;
    Extra out{.id = time ? "accuracy-seconds" : formula ? "accuracy-formula-bytes" : "accuracy-bytes",
              .title = time ? "Accuracy and time" : "Accuracy and communication",
              .caption = report::detail::cat("Mean over clients, own test data, ", detail::in_words(model),
                                             " model, against ",
                                             time      ? "the seconds"
                                             : formula ? "the gigabytes by formula (down and up)"
                                                       : "the gigabytes on the wire (down and up)",
                                             " of all rounds so far."),
              .kind = Kind::line,
              .x = {.title = time ? "time" : "communication", .unit = time ? "s" : "GB"},
              .y = {.title = "accuracy", .unit = "%"}};
    const auto names = report::detail::names_of(runs);
    for (std::size_t i = 0; i < runs.size(); ++i) {
        auto& series = out.series.emplace_back(Extra::Series{.name = names[i]});
        double spent = 0;
        const Which asked = model.value_or(detail::served(runs[i]));
        for (const auto& round : runs[i].rounds) {
            spent += detail::cost_of(round, what);
            if (const double accuracy = detail::accuracy_of(round, asked); std::isfinite(accuracy)) {
                series.x.push_back(spent);
                series.y.push_back(accuracy);
            }
        }
    }
    return out;
}

// The first round (counted from 1) whose accuracy reaches the target, and what had been spent by then.
struct Reached {
    double round = absent, spent = absent;
};
inline Reached reached(const RunRecord& run, double percent, std::optional<Which> model = {},
                       CostOf what = CostOf::formula_bytes) {
    double spent = 0;
    const Which asked = model.value_or(detail::served(run));
    for (std::size_t r = 0; r < run.rounds.size(); ++r) {
        spent += detail::cost_of(run.rounds[r], what);
        if (detail::accuracy_of(run.rounds[r], asked) >= percent) return {static_cast<double>(r + 1), spent};
    }
    return {};
}

// Rounds and bytes by formula until a target is reached, a row for each run; ">T" where T rounds were not enough.
inline Extra rounds_to_reach(const std::vector<RunRecord>& runs, const std::vector<double>& percents,
                             std::optional<Which> model = {}) {
    using report::detail::cat, report::detail::digits, report::detail::rounded;
    Extra out{.id = "rounds-to-reach",
              .title = "Rounds to reach an accuracy",
              .caption = cat("First round whose accuracy (mean over clients, own test data, ", detail::in_words(model),
                             " model) reaches the target, and the bytes by formula until then."),
              .kind = Kind::table,
              .x = {.title = "run"},
              .categories = report::detail::names_of(runs)};
    double largest = 0;  // in bytes; one unit for the whole table
    for (const double percent : percents)
        for (const auto& run : runs)
            if (const double spent = reached(run, percent, model).spent; spent > 0)
                largest = std::max(largest, 1e9 * spent);
    const auto prefix = report::detail::prefix_of(largest);
    for (const double percent : percents) {
        Extra::Series rounds{.name = cat(digits(percent), " %: rounds")};
        Extra::Series bytes{.name = cat(digits(percent), " %: ", prefix.name, "B")};
        for (const auto& run : runs) {
            const auto [round, spent] = reached(run, percent, model);
            rounds.y.push_back(round);
            rounds.texts.push_back(std::isfinite(round) ? digits(round) : cat(">", digits(run.rounds.size())));
            bytes.y.push_back(1e9 * spent / prefix.divisor);
            bytes.texts.push_back(std::isfinite(spent) ? rounded(bytes.y.back(), 4) : "");
        }
        out.series.push_back(std::move(rounds));
        out.series.push_back(std::move(bytes));
    }
    return out;
}

}  // namespace tessera::report::analysis
