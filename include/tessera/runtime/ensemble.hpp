// SPDX-License-Identifier: BSD-3-Clause
// The server's model against its clients', for report/analysis/ensemble.hpp. Nothing here changes a run: local models
// come from one more visit of each client, of which nothing is kept.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <tessera/report/analysis/ensemble.hpp>
#include <tessera/runtime/evaluate.hpp>

namespace tessera {

namespace detail {

// The probabilities that a predictor gives these examples.
template <class R, class Predict>
std::vector<double> probabilities(const Predict& predict, const ClientData& data, std::size_t outputs) {
    std::vector<double> all(data.train.size() * outputs);
    for_each_answer<R>(predict, *data.examples, data.train, outputs,
                       [&](std::size_t begin, const Batch<R>&, In<R> rows) {
                           for (std::size_t j = 0; j < rows.size(); ++j)
                               all[begin * outputs + j] = std::exp(static_cast<double>(rows[j]));
                       });
    return all;
}

}  // namespace detail

// For methods whose clients send a whole model; `on` is usually run.public_data().
template <class Me, class M, Executor E = exec::Serial>
report::analysis::EnsembleDistance ensemble_distance(const Federation<Me, M>& run, const ClientData& on,
                                                     const E& executor = {}) {
    using R = real<M>;
    detail::require(on.examples && !on.train.empty(), "ensemble_distance needs public examples");
    const std::size_t outputs = run.setup().model.outputs();
    const auto g = detail::probabilities<R>(detail::global_predictor(run), on, outputs);
    report::analysis::EnsembleDistance result;
    result.local.resize(run.size());
    if constexpr (detail::serves_own<Me>()) result.personal.resize(run.size());
    std::vector<std::vector<double>> answers(run.size());
    std::vector<Workspace<R>> workspaces(executor.concurrency());
    executor.for_each(run.size(), [&](std::size_t k, std::size_t worker) {
        const FlushDenormals flush;
        run.at_client(static_cast<Id>(k), workspaces[worker], [&](const auto& client, auto received, auto& workspace) {
            if constexpr (detail::serves_own<Me>())
                result.personal[k] = report::analysis::mean_distance(
                    detail::probabilities<R>(client.serve(received, run.rounds_done(), workspace), on, outputs), g,
                    outputs);
            auto copy = client;
            const auto upload = copy.visit(std::move(received), run.rounds_done(), workspace);
            const auto local = [&](const Batch<R>& b, Out<R> out) { run.setup().model.predict(upload.x, b, out); };
            answers[k] = detail::probabilities<R>(local, on, outputs);
            result.local[k] = report::analysis::mean_distance(answers[k], g, outputs);
        });
    });
    std::vector<double> mean(g.size());
    for (const auto& one : answers)
        for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += one[j] / static_cast<double>(run.size());
    result.ensemble = report::analysis::mean_distance(mean, g, outputs);
    return result;
}

}  // namespace tessera
