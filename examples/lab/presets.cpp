// SPDX-License-Identifier: BSD-3-Clause
#include "presets.hpp"

#include <algorithm>

#include <tessera/core/error.hpp>
#include <tessera/core/hash.hpp>

#include "methods.hpp"
#include "nearest.hpp"
#include "pools.hpp"

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

// The PerAda paper's CIFAR-10, and what its program does: 10 local epochs, lambda 1, distillation in 30 rounds. 500
// batches of 256 are some 20 passes over a tenth of Fashion-MNIST, as its batches of 2048 are over 50,000 images.
std::vector<Offer> perada() {
    return {{"", "rate", "0.01"},       {"", "epochs", "10"},      {"", "own_epochs", "10"},
            {"perada ditto", "lambda", "1"}, {"", "weights", "uniform"}, {"", "kd_steps", "500"},
            {"", "kd_batch", "256"},   {"", "kd_rate", "0.001"},  {"", "kd_rounds", "30"}};
}

// Section 5.1 of the FedSpa paper; Ditto's 2 + 3 epochs and lambda are those of its comparison.
std::vector<Offer> fedspa() {
    return {{"", "rate", "0.1"},           {"", "decay", "exponential"}, {"", "factor", "0.998"},
            {"", "weight_decay", "5e-4"},  {"", "epochs", "5"},          {"", "weights", "uniform"},
            {"", "density", "0.5"},        {"fedspa", "prune_rate", "0.5"}, {"ditto", "epochs", "2"},
            {"ditto", "own_epochs", "3"},  {"ditto", "lambda", "0.5"}};
}

// The Flow paper's EMNIST settings (K1 = K2 = 3 epochs, gamma 1e-2) with the momentum of its program; baselines as
// there.
std::vector<Offer> flow() {
    constexpr const char* routed = "flow pi-flow";
    return {{"", "rate", "0.01"},          {"", "momentum", "0.9"},       {"", "epochs", "3"},
            {"", "own_epochs", "3"},       {"", "tune_epochs", "3"},      {routed, "local_epochs", "3"},
            {routed, "joint_epochs", "3"}, {routed, "gamma", "0.01"},     {"local", "epochs", "10"},
            {"local", "rate", "0.05"},     {"ditto", "lambda", "0.1"},    {"apfl", "alpha", "0.25"},
            {"apfl", "momentum", "0"},     {"knn-per", "neighbours", "10"}, {"knn-per", "lambda", "0.4"}};
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
        {"perada/fmnist", "PerAda's CIFAR-10 setting on Fashion-MNIST: (a) FedAvg for the backbone, (b) the algorithm",
         "fashion-mnist", "dirichlet-unbalanced:0.1", "dnn-adapter", 20, 8, 100, 64,
         "backbone rounds=20 rate=0.05 epochs=1", perada(), "held-out:0.1"},
        {"perada/fmnist-half", "The same on a backbone that has seen the lower half of the classes only",
         "fashion-mnist", "dirichlet-unbalanced:0.1", "dnn-adapter", 20, 8, 100, 64,
         "backbone-half rounds=20 rate=0.05 epochs=1", perada(), "held-out:0.1"},
        {"fedspa/fmnist-iid", "FedSpa's setting on Fashion-MNIST, IID",
         "fashion-mnist", "iid", "dnn", 100, 10, 400, 128, "", fedspa()},
        {"fedspa/fmnist-a", "FedSpa's setting A on Fashion-MNIST, Dirichlet 0.3",
         "fashion-mnist", "dirichlet:0.3", "dnn", 100, 10, 400, 128, "", fedspa()},
        {"fedspa/fmnist-b", "FedSpa's setting B on Fashion-MNIST, Dirichlet 0.1",
         "fashion-mnist", "dirichlet:0.1", "dnn", 100, 10, 400, 128, "", fedspa()},
        {"flow/fmnist-dir01", "Flow's setting on Fashion-MNIST, Dirichlet 0.1 at equal client sizes",
         "fashion-mnist", "dirichlet-fixed:0.1", "dnn", 100, 10, 200, 20, "", flow()},
        {"flow/fmnist-dir06", "Flow's setting on Fashion-MNIST, Dirichlet 0.6 at equal client sizes",
         "fashion-mnist", "dirichlet-fixed:0.6", "dnn", 100, 10, 200, 20, "", flow()},
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
    if (!p.aux.empty()) say("aux", std::string(p.aux), given.aux.has_value());
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
        std::vector<std::string> known;
        for (const auto& p : presets()) known.emplace_back(p.name);
        const auto meant = perhaps(base, known);
        throw ConfigError("--preset " + o.preset + ": there is no such preset" + meant + (meant.empty() ? ";" : "") +
                          " `tessera-lab presets` names all");
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
    if (!preset->aux.empty()) fill(o.aux, std::string(preset->aux));
    fill(o.clients, preset->clients);
    fill(o.per_round, preset->per_round);
    fill(o.rounds, preset->rounds);
    fill(o.batch, preset->batch);
    o.before = preset->before;
    return said;
}

std::vector<std::string> preset_in_words(const std::string& name) {
    Options nothing_given;
    nothing_given.preset = name;
    return apply_preset(nothing_given);
}

std::string preset_hash(const std::string& name) {
    std::string all;
    for (const auto& each : preset_in_words(name)) all += each + "\n";
    return tessera::fingerprint(all).hex().substr(0, 16);
}

void apply_defaults(Options& o) {
    fill(o.data, std::string("fashion-mnist"));
    const bool synthetic = o.data->starts_with("synthetic");
    const bool owned = comes_with_clients(*o.data);
    fill(o.partition, std::string(synthetic || owned ? "natural" : "dirichlet:0.3"));
    fill(o.model, std::string("mclr"));
    fill(o.normalise, std::string(synthetic ? "none" : "standard"));
    if (owned && o.partition->starts_with("natural")) fill(o.clients, pool_of(*o.data).clients.size());
    fill(o.clients, std::size_t{synthetic ? 30u : 100u});
    const std::size_t seen = *o.clients > o.unseen ? *o.clients - o.unseen : *o.clients;
    fill(o.per_round, std::min<std::size_t>(10, seen));
    fill(o.rounds, std::size_t{100});
    fill(o.batch, std::size_t{20});
    fill(o.split_seed, o.seed);
    if (o.algorithm.empty() && o.stages.empty()) o.algorithm = usual_algorithm;
}

}  // namespace lab
