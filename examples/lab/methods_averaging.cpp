// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/feddyn.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/local.hpp>
#include <tessera/method/scaffold.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {

using tessera::rule::Sgd;

template <>
inline constexpr bool control_of_distillation<tessera::FedAvg<Sgd, ServerFold>> = true;  // FedDF's

namespace {

// FedAvg on one client that holds everybody's data.
Entry centralised() {
    auto e = entry<tessera::FedAvg<Sgd, ServerFold>>("centralised",
                                                     "Control: one model on all clients' training data together");
    e.open = [open = e.open](Stage stage, const Task& task, tessera::Vec<float> warm_start) {
        stage.options.pooled = true;
        stage.options.per_round = 1;
        return open(stage, task, std::move(warm_start));
    };
    return e;
}

// Whose memory the server must hear of: a client that trains and is not merged would part from it.
Entry merged_alone(Entry e) {
    e.open = [open = e.open](const Stage& stage, const Task& task, tessera::Vec<float> warm_start) {
        const Options& o = stage.options;
        if (*o.trains == "all" && *o.per_round < task.clients.size())
            throw tessera::ConfigError("--trains all: the server of " + o.algorithm +
                                       " must hear of every client that trains; leave it out, or merge all");
        return open(stage, task, std::move(warm_start));
    };
    return e;
}

}  // namespace

std::vector<Entry> averaging_methods() {
    using Average = tessera::FedAvg<Sgd, ServerFold>;
    return {with_codec<Average>(entry<Average>("fedavg", "FedAvg (McMahan et al. 2017), any server optimizer")),
            entry<tessera::FedAvgFt<Sgd, ServerFold>>("fedavg-ft", "FedAvg, fine-tuned by each client at evaluation"),
            entry<tessera::FedProx<Sgd, ServerFold>>("fedprox",
                                                     "FedProx (Li et al. 2020): proximal pull to the server's model"),
            entry<tessera::FedDyn<Sgd, ServerFold>>("feddyn",
                                                    "FedDyn (Acar et al. 2021): FedProx, and clients remember slopes"),
            merged_alone(entry<tessera::Scaffold<ServerFold>>(
                "scaffold", "SCAFFOLD (Karimireddy et al. 2020): clients correct the drift of their own data")),
            entry<tessera::Local<Sgd>>("local", "Every client for itself; nothing travels"), centralised()};
}

}  // namespace lab
