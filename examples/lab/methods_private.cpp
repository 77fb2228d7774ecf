// SPDX-License-Identifier: BSD-3-Clause
// Methods with differential privacy: of single examples, the name of the method and -dp, which is what --dp makes of it,
// and of whole clients, -clients-dp, for --dp per=client.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/local.hpp>
#include <tessera/method/perada.hpp>
#include <tessera/method/privacy_forecast.hpp>
#include <tessera/method/private.hpp>
#include <tessera/privacy/noise.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/rule/sgd.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {
namespace {

using Noisy = tessera::rule::DpSgd<tessera::privacy::Noise>;
using tessera::Private;
constexpr std::string_view per_example = "-dp", per_client = "-clients-dp";

std::string short_number(double x, int digits = 4) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*g", digits, x);
    return text;
}

// With a budget and no noise, the least noise that keeps to it; with both, a refusal where they contradict each other.
template <class Me>
void keep_to_budget(Stage& stage, const Task& task, const tessera::Vec<float>& warm_start) {
    Options& o = stage.options;
    auto method = method_of<Me>(o);
    if (!(method.epsilon > 0)) return;
    const double epsilon = std::exchange(method.epsilon, 0);
    const bool chosen = std::ranges::any_of(
        o.set, [](const auto& setting) { return setting.first == "noise" || setting.first.ends_with(".noise"); });
    if (!chosen) tessera::set_by_name(method, "noise", "1");
    tessera::ClientData aux;
    if (task.public_data) aux = {&task.public_data->examples.examples(), task.public_data->ids};
    const tessera::Federation<Me, Model> run(task.model, task.clients, method,
                                             {.seed = o.seed, .batch = *o.batch, .rounds = *o.rounds}, warm_start, aux);
    const auto ahead = tessera::privacy_forecast(
        run, tessera::sample::Uniform{.count = *o.per_round, .everyone_trains = *o.trains == "all"}, *o.rounds);
    if (!chosen) {
        const double noise = std::ceil(ahead.scale_within(epsilon, method.delta) * 1e4) / 1e4;
        o.set.emplace_back("noise", short_number(noise, 12));
        return;
    }
    const auto most = ahead.dearest(method.delta);
    if (most.epsilon <= epsilon) return;
    const std::string asked = "--dp epsilon=" + short_number(epsilon) + ": ";
    if (!std::isfinite(most.epsilon))
        throw tessera::ConfigError(asked + "without noise there is no epsilon; leave noise out to have it chosen");
    const auto fit = ahead.rounds_within(epsilon, method.delta);
    throw tessera::ConfigError(asked + std::to_string(*o.rounds) + " rounds with this noise would cost client " +
                               std::to_string(most.client) + " an epsilon of " + short_number(most.epsilon) +
                               " at delta " + short_number(method.delta) + "; " +
                               (fit == 0 ? "not one round keeps" : "no more than " + std::to_string(fit) + " keep") +
                               " to it, or all of them with " +
                               short_number(ahead.scale_within(epsilon, method.delta)) +
                               " times the noise; leave noise out to have it chosen");
}

// What the stages before have told of the same examples.
std::string covered(const std::vector<std::string>& before) {
    std::string plain, with_noise;
    for (const auto& algorithm : before) {
        auto& names = is_private(algorithm) ? with_noise : plain;
        names.append(names.empty() ? "" : ", ").append(algorithm);
    }
    std::string words = "this stage alone";
    if (!plain.empty()) words += "; before it " + plain + " had no noise and is not covered";
    if (!with_noise.empty())
        words += "; before it " + with_noise + " has spent an epsilon of its own, and epsilons and deltas add up";
    return words;
}

template <class Me>
Entry hidden(const std::string& name) {
    auto e = entry<Private<Me>>(name + "-dp", name + " with DP-SGD for all models and an epsilon for each client");
    e.open = [open = e.open](Stage stage, Task task, tessera::Vec<float> warm_start) {
        keep_to_budget<Private<Me>>(stage, task, warm_start);
        if (!stage.before.empty()) task.facts.emplace_back("epsilon_covers", covered(stage.before));
        return open(stage, task, std::move(warm_start));
    };
    return e;
}

// The divisor is what a round merges, unless it is given.
Options with_clients(Options o) {
    const bool given = std::ranges::any_of(o.set, [](const auto& setting) { return setting.first.ends_with("clients"); });
    if (!given && o.per_round) o.set.emplace_back("fold.clients", std::to_string(*o.per_round));
    return o;
}
template <class Me>
Entry hidden_clients(const std::string& name) {
    auto e = entry<Me>(name + std::string(per_client), name + " with each client's whole update clipped, and noise on their sum");
    e.check = [check = e.check](const Options& o) { check(with_clients(o)); };
    e.open = [open = e.open](Stage stage, Task task, tessera::Vec<float> warm_start) {
        stage.options = with_clients(std::move(stage.options));
        if (!stage.before.empty()) task.facts.emplace_back("epsilon_covers", covered(stage.before));
        return open(stage, task, std::move(warm_start));
    };
    return e;
}

}  // namespace

std::vector<Entry> private_methods() {
    using Hidden = tessera::fold::PrivateMean<tessera::privacy::Noise>;
    using Distill = tessera::fold::Distill<ServerFold>;
    return {hidden<tessera::FedAvg<Noisy, ServerFold>>("fedavg"), hidden<tessera::Ditto<Noisy, ServerFold>>("ditto"),
            hidden<tessera::Local<Noisy>>("local"),
            on_adapters(hidden<tessera::PerAda<Noisy, Distill>>("perada")),
            on_adapters(hidden<tessera::PerAda<Noisy, ServerFold>>("perada-nokd")),
            hidden_clients<tessera::FedAvg<tessera::rule::Sgd, Hidden>>("fedavg"),
            hidden_clients<tessera::Ditto<tessera::rule::Sgd, Hidden>>("ditto")};
}

void make_private(Options& o, const NamedValues& settings) {
    if (settings.empty()) return;
    if (!o.stages.empty())
        throw tessera::ConfigError("--dp goes with --algorithm; a stage is private by its name, as in fedavg-dp");
    if (o.algorithm.empty()) o.algorithm = usual_algorithm;
    bool clients = false;
    for (const auto& [key, value] : settings) {
        if (key != "per") continue;
        if (value != "example" && value != "client")
            throw tessera::ConfigError("--dp per is one of example, client, not '" + value + "'");
        clients = value == "client";
    }
    const auto known = private_methods();
    const std::string ending(clients ? per_client : per_example), name = o.algorithm + ending;
    if (std::ranges::any_of(known, [&](const Entry& e) { return e.name == o.algorithm; }))
        throw tessera::ConfigError(
            "--dp: " + o.algorithm + " is private already; write --algorithm " +
            o.algorithm.substr(0, o.algorithm.size() -
                                      (o.algorithm.ends_with(per_client) ? per_client : per_example).size()) +
            " --dp ..., or --set NAME=VALUE");
    if (std::ranges::none_of(known, [&](const Entry& e) { return e.name == name; })) {
        std::string all;
        for (const auto& e : known)
            if (e.name.ends_with(ending) && (clients || !e.name.ends_with(per_client)))
                all.append(all.empty() ? "" : ", ").append(e.name.substr(0, e.name.size() - ending.size()));
        throw tessera::ConfigError("--dp: " + o.algorithm + " cannot be private " +
                                   (clients ? "client by client" : "example by example") + "; these can: " + all);
    }
    o.algorithm = name;
    for (const auto& [key, value] : settings) {
        if (key == "per") continue;
        constexpr std::array<std::string_view, 6> keys{"clip", "noise", "delta", "source", "epsilon", "sampling_rate"};
        const auto last = keys.begin() + (clients ? 4 : 6);
        if (std::find(keys.begin(), last, key) == last)
            throw tessera::ConfigError("--dp " + key +
                                       (clients ? ": with per=client it takes clip, noise, delta and source"
                                                : ": it takes clip, noise, epsilon, delta, sampling_rate, source and per"));
        double number = 0;
        auto source = tessera::privacy::Source::system;
        if (key == "source") tessera::detail::read_text("--dp source", value, source);
        else tessera::detail::read_text("--dp " + key, value, number);
        if (key == "epsilon" && !(number > 0))
            throw tessera::ConfigError("--dp epsilon=" + value +
                                       ": a budget is a positive number; leave epsilon out to have none");
        o.set.emplace_back(clients && key != "source" ? "fold." + key : key, value);  // of several clips one
    }
}

}  // namespace lab
