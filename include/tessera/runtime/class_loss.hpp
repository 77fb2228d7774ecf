// SPDX-License-Identifier: BSD-3-Clause
// Losses per client and class, for report/analysis/class_loss.hpp. Nothing here changes a run.
//
//   class_losses<Which::personal>(run)             each model on its client's own test data
//   class_losses_on_union<Which::personal>(run)    each model on the test data of all clients
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <tessera/report/analysis/class_loss.hpp>
#include <tessera/runtime/evaluate.hpp>

namespace tessera {

namespace detail {

template <class R>
void add_class_losses(report::analysis::ClassLoss& sums, Predictor<R> predict, const Examples& examples,
                      std::span<const Index> ids, std::size_t outputs) {
    for_each_answer<R>(predict, examples, ids, outputs, [&](std::size_t, const Batch<R>& batch, In<R> rows) {
        const std::size_t each = examples.labels_each, width = outputs / each;
        for (std::size_t i = 0; i < batch.size() * each; ++i) {
            const std::int32_t label = batch.label(i / each, i % each);
            if (label < 0) continue;
            const auto c = static_cast<std::size_t>(label);
            sums.loss_sum[c] -= static_cast<double>(rows[i * width + c]);
            ++sums.n[c];
        }
    });
}

// each(add, data of the client): add(data) counts the test data of one client.
template <Which W, class Me, class M, class E, class Each>
std::vector<report::analysis::ClassLoss> class_losses_of(const Federation<Me, M>& run, const E& executor, Each each) {
    const std::size_t classes = run.data().pool().examples().classes, outputs = run.setup().model.outputs();
    require(classes > 0 && run.data().pool().examples().labels,
            "class_losses: these examples have no labels of classes");
    std::vector<report::analysis::ClassLoss> all(run.size());
    judge_models<W, Whom::all>(run, executor, [&](Id k, const ClientData& own, Predictor<real<M>> predict) {
        all[k] = {k, std::vector<double>(classes), std::vector<std::size_t>(classes)};
        each(own, [&](const ClientData& data) {
            add_class_losses<real<M>>(all[k], predict, *data.examples, data.test, outputs);
        });
    });
    know_everywhere(run, all);
    return all;
}

}  // namespace detail

template <Which W, class Me, class M, Executor E = exec::Serial>
std::vector<report::analysis::ClassLoss> class_losses(const Federation<Me, M>& run, const E& executor = {}) {
    return detail::class_losses_of<W>(run, executor, [](const ClientData& own, const auto& add) { add(own); });
}

template <Which W, class Me, class M, Executor E = exec::Serial>
std::vector<report::analysis::ClassLoss> class_losses_on_union(const Federation<Me, M>& run, const E& executor = {}) {
    return detail::class_losses_of<W>(run, executor, [&](const ClientData&, const auto& add) {
        for (std::size_t k = 0; k < run.size(); ++k) add(run.data()[k]);
    });
}

}  // namespace tessera
