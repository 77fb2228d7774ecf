// SPDX-License-Identifier: BSD-3-Clause
// Splits that a method's paper fixes.
#include <tessera/method/fedbabu.hpp>
#include <tessera/method/fedbn.hpp>
#include <tessera/method/fedpac.hpp>
#include <tessera/method/fedper.hpp>
#include <tessera/method/fedrep.hpp>
#include <tessera/method/lg_fedavg.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {

using tessera::rule::Sgd;

namespace {

// The library's FedBN takes a network without norms and is then FedAvg; who asks for it by name wants norms.
Entry on_norms(Entry e) {
    e.open = [open = e.open](const Stage& stage, const Task& task, tessera::Vec<float> warm_start) {
        const tessera::Layout layout = task.model.layout();
        if (tessera::select<tessera::scope::Norm>(layout).empty())
            throw tessera::ConfigError("--algorithm " + stage.options.algorithm +
                                       ": its personal part are the norms, of which --model " + *stage.options.model +
                                       " has none; dnn-norm has");
        return open(stage, task, std::move(warm_start));
    };
    return e;
}

Entry owning(std::string own, Entry e) {
    e.own = std::move(own);
    return e;
}

}  // namespace

std::vector<Entry> split_methods() {
    return {owning("output", entry<tessera::FedPer<Sgd, ServerFold>>(
                                 "fedper", "FedPer (Arivazhagan et al. 2019): personal head")),
            owning("output", entry<tessera::FedRep<Sgd, ServerFold>>(
                                 "fedrep", "FedRep (Collins et al. 2021): personal head, then body")),
            entry<tessera::FedPac<Sgd, ServerFold>>(
                "fedpac", "FedPAC (Xu et al. 2023): features pulled to their classes, heads mixed among those alike"),
            entry<tessera::LgFedAvg<Sgd, ServerFold>>("lg-fedavg", "LG-FedAvg (Liang et al. 2019): shared head"),
            entry<tessera::FedBabu<Sgd, ServerFold>>("fedbabu",
                                                     "FedBABU (Oh et al. 2022): frozen head, tuned at evaluation"),
            on_norms(entry<tessera::FedBn<Sgd, ServerFold>>("fedbn", "FedBN (Li et al. 2021): personal norms"))};
}

}  // namespace lab
