// SPDX-License-Identifier: BSD-3-Clause
#include "methods.hpp"

#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/local.hpp>

#include "server_fold.hpp"
#include "session.hpp"

namespace lab {
namespace {

using tessera::rule::Sgd;

template <class Me>
Entry entry(std::string name, std::string what) {
    return {name, std::move(what), tessera::settings_of(Me{}), [name](const Options& o) {
                Me method;
                apply_settings(method, name, o);
                return Session<Me>(o, method).run();
            }};
}

// FedAvg on one client that holds everybody's data.
Entry centralised() {
    using Me = tessera::FedAvg<Sgd, ServerFold>;
    auto e = entry<Me>("centralised", "Control: one model on all clients' training data together");
    const auto run = e.run;
    e.run = [run](Options o) {
        o.pooled = true;
        o.per_round = 1;
        return run(o);
    };
    return e;
}

}  // namespace

const std::vector<Entry>& catalogue() {
    static const std::vector<Entry> all{
        entry<tessera::FedAvg<Sgd, ServerFold>>("fedavg", "FedAvg (McMahan et al. 2017), any server optimizer"),
        entry<tessera::FedAvgFt<Sgd, ServerFold>>("fedavg-ft", "FedAvg, fine-tuned by each client at evaluation"),
        entry<tessera::FedProx<Sgd, ServerFold>>("fedprox", "FedProx (Li et al. 2020): proximal pull to the server's model"),
        entry<tessera::Local<Sgd>>("local", "Every client for itself; nothing travels"),
        centralised(),
    };
    return all;
}

}  // namespace lab
