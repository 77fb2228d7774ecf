// SPDX-License-Identifier: BSD-3-Clause
// The server's model against its clients', for report/analysis/ensemble.hpp. Nothing here changes a run: local models
// come from one more visit of each client, of which nothing is kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <tessera/report/analysis/ensemble.hpp>
#include <tessera/runtime/evaluate.hpp>

namespace tessera {

namespace detail {

// The logarithms of the probabilities that a predictor gives these examples.
template <class R, class Predict>
std::vector<double> log_answers(const Predict& predict, const ClientData& data, std::size_t outputs) {
    std::vector<double> all(data.train.size() * outputs);
    for_each_answer<R>(predict, *data.examples, data.train, outputs,
                       [&](std::size_t begin, const Batch<R>&, In<R> rows) {
                           std::copy(rows.begin(), rows.end(), all.data() + begin * outputs);
                       });
    return all;
}
inline std::vector<double> exponentials(std::vector<double> logs) {
    for (double& each : logs) each = std::exp(each);
    return logs;
}

// Mean over rows of KL(softmax(a) || exp(b)).
inline double mean_divergence(const std::vector<double>& a, const std::vector<double>& b, std::size_t outputs) {
    double sum = 0;
    for (std::size_t row = 0; row < a.size(); row += outputs) {
        double total = 0;
        for (std::size_t c = row; c < row + outputs; ++c) total += std::exp(a[c]);
        for (std::size_t c = row; c < row + outputs; ++c) {
            const double log_q = a[c] - std::log(total);
            sum += std::exp(log_q) * (log_q - b[c]);
        }
    }
    return sum * static_cast<double>(outputs) / static_cast<double>(a.size());
}

}  // namespace detail

// For methods whose clients send a whole model; `on` is usually run.public_data().
template <class Me, class M, Executor E = exec::Serial>
report::analysis::EnsembleDistance ensemble_distance(const Federation<Me, M>& run, const ClientData& on,
                                                     const E& executor = {}) {
    using R = real<M>;
    detail::require(on.examples && !on.train.empty(), "ensemble_distance needs public examples");
    detail::require(!run.data().pool().examples().targets,
                    "ensemble_distance compares probabilities, and these models predict real targets");
    const std::size_t outputs = run.setup().model.outputs();
    const auto g = detail::exponentials(detail::log_answers<R>(detail::global_predictor(run), on, outputs));
    report::analysis::EnsembleDistance result;
    result.local.resize(run.size());
    if constexpr (detail::serves_own<Me>()) result.personal.resize(run.size());
    std::vector<std::vector<double>> logs(run.size());
    std::vector<Vec<R>> locals(run.size());
    detail::validate_all(executor);
    std::vector<Workspace<R>> workspaces(executor.concurrency());
    detail::for_each_at_home(run, executor, [&](std::size_t k, std::size_t worker) {
        const FlushDenormals flush;
        run.at_client(static_cast<Id>(k), workspaces[worker], [&](const auto& client, auto received, auto& workspace) {
            if constexpr (detail::serves_own<Me>())
                result.personal[k] = report::analysis::mean_distance(
                    detail::exponentials(
                        detail::log_answers<R>(client.serve(received, run.rounds_done(), workspace), on, outputs)),
                    g, outputs);
            auto copy = client;
            locals[k] = copy.visit(std::move(received), run.rounds_done(), workspace).x;
            const auto local = [&](const Batch<R>& b, Out<R> out) { run.setup().model.predict(locals[k], b, out); };
            logs[k] = detail::log_answers<R>(local, on, outputs);
            result.local[k] = report::analysis::mean_distance(detail::exponentials(logs[k]), g, outputs);
        });
    });
    detail::know_everywhere(run, logs);
    detail::know_everywhere(run, locals);
    detail::know_everywhere(run, result.local);
    if constexpr (detail::serves_own<Me>()) detail::know_everywhere(run, result.personal);
    const double share = 1 / static_cast<double>(run.size());
    std::vector<double> mean(g.size()), mean_logs(g.size()), middle(locals[0].size());
    for (std::size_t k = 0; k < run.size(); ++k) {
        const auto one = detail::exponentials(logs[k]);
        for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += one[j] * share;
        for (std::size_t j = 0; j < mean.size(); ++j) mean_logs[j] += logs[k][j] * share;
        for (std::size_t j = 0; j < middle.size(); ++j) middle[j] += static_cast<double>(locals[k][j]) * share;
    }
    result.ensemble = report::analysis::mean_distance(mean, g, outputs);
    Vec<R> w(middle.size());
    for (std::size_t j = 0; j < w.size(); ++j) w[j] = static_cast<R>(middle[j]);
    const auto averaged = [&](const Batch<R>& b, Out<R> out) { run.setup().model.predict(w, b, out); };
    result.lesson = detail::mean_divergence(mean_logs, detail::log_answers<R>(averaged, on, outputs), outputs);
    return result;
}

}  // namespace tessera
