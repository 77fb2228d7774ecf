// SPDX-License-Identifier: BSD-3-Clause
// Methods with differential privacy of single examples: the name of the method and -dp, which is what --dp makes of it.
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/local.hpp>
#include <tessera/method/perada.hpp>
#include <tessera/method/private.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {
namespace {

using Noisy = tessera::rule::DpSgd<tessera::privacy::Noise>;
using tessera::Private;

template <class Me>
Entry hidden(const std::string& name) {
    return entry<Private<Me>>(name + "-dp", name + " with DP-SGD for all models and an epsilon for each client");
}

}  // namespace

std::vector<Entry> private_methods() {
    using Distill = tessera::fold::Distill<ServerFold>;
    return {hidden<tessera::FedAvg<Noisy, ServerFold>>("fedavg"), hidden<tessera::Ditto<Noisy, ServerFold>>("ditto"),
            hidden<tessera::Local<Noisy>>("local"),
            on_adapters(hidden<tessera::PerAda<Noisy, Distill>>("perada")),
            on_adapters(hidden<tessera::PerAda<Noisy, ServerFold>>("perada-nokd"))};
}

void make_private(Options& o, const NamedValues& settings) {
    if (settings.empty()) return;
    if (!o.stages.empty())
        throw tessera::ConfigError("--dp goes with --algorithm; a stage is private by its name, as in fedavg-dp");
    if (o.algorithm.empty()) o.algorithm = usual_algorithm;
    const auto known = private_methods();
    const std::string name = o.algorithm + "-dp";
    if (std::ranges::none_of(known, [&](const Entry& e) { return e.name == name; })) {
        std::string all;
        for (const auto& e : known)
            all.append(all.empty() ? "" : ", ").append(e.name.substr(0, e.name.size() - 3));
        throw tessera::ConfigError("--dp: " + o.algorithm + " cannot be private example by example; these can: " + all);
    }
    o.algorithm = name;
    for (const auto& [key, value] : settings) {
        if (key != "clip" && key != "noise" && key != "delta" && key != "source" && key != "sampling_rate")
            throw tessera::ConfigError("--dp " + key + ": it takes clip, noise, delta, sampling_rate and source");
        o.set.emplace_back(key, value);
    }
}

}  // namespace lab
