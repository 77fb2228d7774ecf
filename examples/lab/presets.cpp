// SPDX-License-Identifier: BSD-3-Clause
#include "presets.hpp"

#include <algorithm>

#include <tessera/core/error.hpp>

namespace lab {
namespace {

using tessera::ConfigError;

constexpr const char* bregman = "pfedme pfedbred-";

// Section 6 of the pFedBreD paper: alpha = alpha_m = 0.01, R = 20, K = 5, eta = 0.05, eta_a = 0.01, beta = 1.
std::vector<Offer> pfedbred(const char* lambda) {
    return {{"", "rate", "0.01"},       {"", "steps", "20"},          {"", "beta", "1"},
            {bregman, "alpha_m", "0.01"}, {bregman, "inner_steps", "5"}, {bregman, "lambda", lambda},
            {bregman, "eta", "0.05"},     {bregman, "eta_a", "0.01"},    {"per-fedavg", "alpha", "0.01"},
            {"per-fedavg", "beta_m", "0.01"}};
}

constexpr std::string_view beaten = " [the flag wins]";

std::string in_words(const Offer& s, const Options& given) {
    std::string text = s.name + "=" + s.value;
    if (!s.of.empty()) {
        std::string whose = s.of;
        for (std::size_t at = 0; (at = whose.find(' ', at)) != whose.npos; at += 2) whose.replace(at, 1, ", ");
        text += " (" + whose + ")";
    }
    for (const auto& [name, value] : given.set)
        if (name == s.name) text += beaten;
    return text;
}

template <class T>
void fill(std::optional<T>& field, const T& value) {
    if (!field) field = value;
}

}  // namespace

bool Offer::concerns(std::string_view algorithm) const {
    std::string_view rest = of;
    while (!rest.empty()) {
        const auto head = rest.substr(0, rest.find(' '));
        if (algorithm.starts_with(head)) return true;
        rest.remove_prefix(std::min(rest.size(), head.size() + 1));
    }
    return of.empty();
}

const std::vector<Preset>& presets() {
    static const std::vector<Preset> all{
        {"pfedbred/fmnist-mclr", "pFedBreD, Table 1: Fashion-MNIST, 2 labels a client, logistic regression",
         "fashion-mnist", "lognormal:2", "mclr", 100, 20, 200, 20, "", pfedbred("15")},
        {"pfedbred/fmnist-dnn", "pFedBreD, Table 1: Fashion-MNIST, 2 labels a client, 784-100-10 network",
         "fashion-mnist", "lognormal:2", "dnn", 100, 20, 200, 20, "", pfedbred("30")},
        {"fedalt/fmnist-dir01", "FedAlt's pipeline on Fashion-MNIST, Dirichlet 0.1: (a) FedAvg, (b) the algorithm",
         "fashion-mnist", "dirichlet:0.1", "dnn", 100, 10, 100, 32, "fedavg rounds=200 rate=0.05 decay=step every=50",
         {{"", "rate", "0.01"}, {"", "weights", "batches"}}},
        {"fedalt/fmnist-dir01-cold", "The same without (a)",
         "fashion-mnist", "dirichlet:0.1", "dnn", 100, 10, 300, 32, "",
         {{"", "rate", "0.05"}, {"", "decay", "step"}, {"", "every", "75"}, {"", "weights", "batches"},
          {"", "tune.rate", "0.01"}, {"", "tune.schedule.decay", "constant"}}},
    };
    return all;
}

const std::vector<PresetVariant>& preset_variants() {
    static const std::vector<PresetVariant> all{
        {"+am", "The server goes twice as far as the mean (beta = 2)", {{"", "beta", "2"}}},
        // Per-FedAvg is served after one step as it is, so one step more are two.
        {"+ft", "One more step on a training batch when served; fedalt's: 5 epochs on v",
         {{bregman, "tune_steps", "1"}, {"per-fedavg", "tune_steps", "2"}, {"", "tune_epochs", "5"}}},
    };
    return all;
}

std::vector<std::string> in_words(const Preset& p, const Options& given) {
    std::vector<std::string> all;
    const auto say = [&](const char* name, const std::string& value, bool taken) {
        all.push_back(std::string(name).append("=").append(value).append(taken ? beaten : ""));
    };
    say("data", std::string(p.data), given.data.has_value());
    say("partition", std::string(p.partition), given.partition.has_value());
    say("model", std::string(p.model), given.model.has_value());
    say("clients", std::to_string(p.clients), given.clients.has_value());
    say("per-round", std::to_string(p.per_round), given.per_round.has_value());
    say("rounds", std::to_string(p.rounds), given.rounds.has_value());
    say("batch", std::to_string(p.batch), given.batch.has_value());
    if (!p.before.empty()) say("stages before", "'" + std::string(p.before) + "'", !given.stages.empty());
    for (const auto& s : p.set) all.push_back(in_words(s, given));
    return all;
}

std::vector<std::string> apply_preset(Options& o) {
    if (o.preset.empty()) return {};
    const auto tail = o.preset.find('+');
    const std::string base = o.preset.substr(0, tail);
    const auto preset = std::ranges::find(presets(), base, &Preset::name);
    if (preset == presets().end()) {
        std::string known;
        for (const auto& p : presets()) known.append(known.empty() ? "" : ", ").append(p.name);
        throw ConfigError("--preset " + o.preset + ": there is no such preset; known are " + known);
    }
    auto said = in_words(*preset, o);
    o.offers = preset->set;
    for (auto rest = std::string_view(o.preset).substr(base.size()); !rest.empty();) {
        const auto name = rest.substr(0, rest.find('+', 1));
        const auto variant = std::ranges::find(preset_variants(), name, &PresetVariant::name);
        if (variant == preset_variants().end())
            throw ConfigError("--preset " + o.preset + ": a preset's name may end with +am and +ft, not with " +
                              std::string(name));
        for (const auto& s : variant->set) {
            said.push_back(in_words(s, o));
            o.offers.push_back(s);
        }
        rest.remove_prefix(name.size());
    }
    fill(o.data, std::string(preset->data));
    fill(o.partition, std::string(preset->partition));
    fill(o.model, std::string(preset->model));
    fill(o.clients, preset->clients);
    fill(o.per_round, preset->per_round);
    fill(o.rounds, preset->rounds);
    fill(o.batch, preset->batch);
    o.before = preset->before;
    return said;
}

void apply_defaults(Options& o) {
    fill(o.data, std::string("fashion-mnist"));
    const bool synthetic = o.data->starts_with("synthetic");
    fill(o.partition, std::string(synthetic ? "natural" : "dirichlet:0.3"));
    fill(o.model, std::string("mclr"));
    fill(o.normalise, std::string(synthetic ? "none" : "standard"));
    fill(o.clients, std::size_t{synthetic ? 30u : 100u});
    fill(o.per_round, std::size_t{10});
    fill(o.rounds, std::size_t{100});
    fill(o.batch, std::size_t{20});
    fill(o.split_seed, o.seed);
    if (o.algorithm.empty() && o.stages.empty()) o.algorithm = "fedavg";
}

}  // namespace lab
