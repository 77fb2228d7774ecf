// SPDX-License-Identifier: BSD-3-Clause
// How every client's test examples are routed, for report/analysis/routing.hpp. Nothing here changes a run.
//
//   routed_clients(run)   of a method that serves nn::RoutedPredictor: Flow, PiFlow
//   routing_cost_of(run)  parameters and operations of model and router
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <tessera/nn/routed.hpp>
#include <tessera/report/analysis/routing.hpp>
#include <tessera/runtime/evaluate.hpp>

namespace tessera {

template <class Me, class M, Executor E = exec::Serial>
std::vector<report::analysis::RoutedClient> routed_clients(const Federation<Me, M>& run, const E& executor = {}) {
    using R = real<M>;
    std::vector<report::analysis::RoutedClient> all(run.size());
    const M& model = run.setup().model;
    detail::require(run.data().pool().examples().one_label(),
                    "routed_clients: routes are held against right answers, one an example");
    const auto mean_loss = [](const report::ClientCount& count) {
        return count.n == 0 ? report::absent : count.loss_sum / static_cast<double>(count.n);
    };
    detail::for_each_model<Which::global, Whom::all>(
        run, executor, [&](Id k, const ClientData& data, const auto& predict) {
            auto& one = all[k];
            one.client = k;
            one.loss_global = mean_loss(detail::score(model, k, predict, *data.examples, data.test, &one.global_right));
        });
    detail::for_each_model<Which::personal, Whom::all>(
        run, executor, [&](Id k, const ClientData& data, const auto& predict) {
            auto& one = all[k];
            one.blocks = predict.blocks();
            one.loss_personal =
                mean_loss(detail::score(model, k, predict, *data.examples, data.test, &one.personal_right));
            for (std::size_t a = 0; a < one.by.size(); ++a)
                one.by[a].loss = mean_loss(detail::score(model, k, predict.by(static_cast<nn::Along>(a)),
                                                         *data.examples, data.test, &one.by[a].right));
            Vec<R> q0(data.test.size() * one.blocks);
            predict.shares(Batch<R>(*data.examples, data.test), Out<R>(q0));
            one.q0.assign(q0.begin(), q0.end());
        });
    detail::know_everywhere(run, all);
    return all;
}

// Of the first client; what it holds is what it is served with, so it is served once.
template <class Me, class M>
report::analysis::RoutingCost routing_cost_of(const Federation<Me, M>& run) {
    using R = real<M>;
    const auto& model = run.setup().model;
    const auto& method = run.setup().method;
    const auto& initial = run.setup().initial;
    const auto routes = model.routes(method.routing.mix);
    report::analysis::RoutingCost cost{.model = initial.size(),
                                       .router = dimension(Layout(method.gate.segments(routes))),
                                       .bytes_up = formula_bytes(Up<R>{run.server().w}),
                                       .model_bytes_down = formula_bytes(initial),
                                       .model_bytes_up = formula_bytes(Up<R>{initial})};
    Workspace<R> workspace;
    run.bring(0);
    run.at_client(0, workspace, [&](const auto& client, auto received, Workspace<R>& space) {
        cost.bytes_down = formula_bytes(received);
        cost.held = client.serve(std::move(received), run.rounds_done(), space).parameters().size();
    });
    if constexpr (CountedModel<M>) cost.model_flops = model.forward_flops();
    if constexpr (detail::offers_of<std::remove_cvref_t<decltype(method.gate)>>().has(offer::forward_flops))
        cost.router_flops = method.gate.forward_flops(routes);
    return cost;
}

}  // namespace tessera
