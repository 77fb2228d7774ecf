// SPDX-License-Identifier: BSD-3-Clause
// Small made-up runs, for whoever reads records (report/) and whoever draws them (the lab's pages).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/random.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>

namespace tessera::support {

// On the clients' own test data, of the last round; before adaptation if of the server's model.
inline report::Evaluation measured(double value, report::Which model = report::Which::personal,
                                   report::Metric metric = report::Metric::accuracy,
                                   report::Average average = report::Average::unweighted) {
    return {.model = model,
            .when = model == report::Which::global ? report::When::before : report::When::after,
            .on = report::On::local(),
            .split = report::SplitOf::test,
            .clients = report::Whom::all,
            .pick = report::Pick::last(),
            .average = average,
            .metric = metric,
            .stage = "",
            .value = value};
}

// Client k of a method that is `level` good: the client's own level, the luck that a whole run shares, and its own.
inline report::RunRecord run_of_clients(double level, std::uint64_t seed, const std::string& split = "one",
                                        std::size_t clients = 40) {
    Stream luck(Key{seed}(purpose::noise));
    const double shared = 0.01 * luck.normal();
    report::RunRecord run;
    run.set("algorithm", "some");
    run.set("seed", seed);
    run.set("split_fingerprint", split);
    double sum = 0;
    for (std::size_t k = 0; k < clients; ++k) {
        const double own = level + 0.1 * std::sin(static_cast<double>(k)) + shared + 0.02 * luck.normal();
        run.per_client.push_back({.id = static_cast<Id>(k), .n_test = 50, .accuracy_personal = own});
        sum += own;
    }
    run.final_evaluations = {measured(sum / static_cast<double>(clients))};
    return run;
}
inline std::vector<report::RunRecord> runs_of_clients(double level, std::uint64_t first_seed, std::size_t seeds,
                                                      std::size_t clients = 40) {
    std::vector<report::RunRecord> all;
    for (std::size_t s = 0; s < seeds; ++s) all.push_back(run_of_clients(level, first_seed + s, "one", clients));
    return all;
}

// A run whose personal accuracy was `curve`, round by round.
inline report::RunRecord run_of_curve(std::uint64_t seed, const std::vector<double>& curve) {
    const auto pooled = [](double value) {
        return measured(value, report::Which::personal, report::Metric::accuracy, report::Average::pooled);
    };
    report::RunRecord run;
    run.set("algorithm", "some");
    run.set("seed", seed);
    run.set("rate", 0.05);
    for (std::size_t t = 0; t < curve.size(); ++t) {
        run.rounds.push_back({.round = t + 1, .seconds = 0.25});
        run.rounds.back().evaluations = {pooled(curve[t])};
    }
    run.final_evaluations = {pooled(curve.back())};
    run.per_client = {{.id = 3, .n_train = 7, .n_test = 2, .accuracy_personal = 0.5, .labels = {4, 3}}};
    run.per_client[0].hits_personal = "10";
    run.state_hash = "abc";
    run.notes = {"a note"};
    return run;
}

// A run that says where it came from, with training losses and names of classes.
inline report::RunRecord run_with_provenance() {
    report::RunRecord run;
    run.set("algorithm", "fedavg");
    run.rounds = {{.round = 1, .train_loss = 2.25}, {.round = 2, .train_loss = 1.5}};
    run.per_client = {{.id = 0, .n_train = 3}};
    run.per_client[0].labels = {1, 2};
    run.class_names = {"<cat>", "dog"};
    run.provenance = {{"command", "tessera-lab run --data \"a b\""}, {"date", "2026-11-18"}};
    return run;
}

inline report::Extra curve(std::string id = "curve") {
    return {.id = std::move(id),
            .title = "A curve",
            .caption = "What it shows.",
            .kind = report::Kind::line,
            .x = {.title = "round"},
            .y = {.title = "share", .unit = "%"},
            .series = {{.name = "first", .x = {1, 2, 3}, .y = {10, 20.5, 30}},
                       {.name = "second", .x = {1, 2, 3}, .y = {5, report::absent, 7}, .dashed = true}}};
}

// A figure of each kind, with numbers that are not there.
inline std::vector<report::Extra> one_of_each() {
    using report::absent, report::Kind;
    return {curve(),
            {.id = "dots",
             .title = "Dots",
             .kind = Kind::scatter,
             .series = {{.name = "a", .x = {1, 2, absent}, .y = {3, -HUGE_VAL, 5}, .texts = {"p", "q", "r"}}}},
            {.id = "violins",
             .title = "Violins",
             .kind = Kind::violin,
             .series = {{.name = "test", .y = {1, 2, 2, 3, absent}}, {.name = "one", .y = {4}}, {.name = "none"}}},
            {.id = "bars",
             .title = "Bars",
             .kind = Kind::bars,
             .categories = {"left", "right"},
             .series = {{.name = "x", .y = {1, absent}}, {.name = "y", .y = {-2, 4}}}},
            {.id = "heat",
             .title = "Heat",
             .kind = Kind::heat,
             .x = {.title = "client"},
             .y = {.title = "class"},
             .categories = {"7", "8", "9"},
             .series = {{.name = "0", .y = {1, -2, 0}}, {.name = "1", .y = {absent, 4, 5}}}},
            {.id = "table",
             .title = "Table",
             .kind = Kind::table,
             .categories = {"row"},
             .series = {{.name = "number", .y = {0.125}}, {.name = "text", .y = {absent}, .texts = {"as it is"}}}}};
}
inline report::RunRecord run_with(const std::vector<report::Extra>& extras) {
    report::RunRecord run;
    run.set("algorithm", "fedalt");
    for (const auto& extra : extras) run.add(extra);
    return run;
}

}  // namespace tessera::support
