// SPDX-License-Identifier: BSD-3-Clause
// The code of docs/privacy.md and docs/policies/privacy.md.
#include <tessera/data/synthetic.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/privacy_forecast.hpp>
#include <tessera/method/privacy_statement.hpp>
#include <tessera/method/private.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/privacy.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;
using Net = nn::Mclr<60, 10>;

namespace {

bool private_run(const data::FederatedDataset& clients) {
    // [run]
    using Noisy = rule::DpSgd<privacy::Noise>;
    const Noisy rule{.rate = 0.1, .clip = 1, .noise = 1.2};
    using Method = Private<Ditto<Noisy>>;  // both models are trained with noise
    Federation<Method, Net> run{{}, clients, {.inner = {.local = rule, .personal = rule}, .delta = 1e-5}, {.batch = 5}};
    for (int round = 0; round < 3; ++round) run.round(sample::Everyone{});

    const auto statement = privacy_statement(run);  // the epsilon of each client, and what it assumes
    const auto table = report::analysis::privacy_table(statement);
    // [/run]
    return statement.epsilon.size() == 6 && statement.epsilon[0] > 0 && table.categories[0] == "epsilon, largest";
}

bool within_a_budget(const data::FederatedDataset& clients) {
    // [budget]
    using Noisy = rule::DpSgd<privacy::Noise>;
    using Run = Federation<Private<FedAvg<Noisy>>, Net>;
    const auto with_noise = [&](double noise, double epsilon) {
        return Run{{}, clients, {.inner = {.local = {.clip = 1, .noise = noise}}, .epsilon = epsilon}, {.batch = 5}};
    };
    // What 20 rounds will cost is known before the first one, and so is the noise with which they keep to a budget.
    const auto ahead = privacy_forecast(with_noise(1, 0), sample::Everyone{}, 20);
    const auto dearest = ahead.dearest(1e-5);              // dearest.epsilon, dearest.client
    const auto fit = ahead.rounds_within(8, 1e-5);         // rounds that an epsilon of 8 allows with noise 1
    const double noise = ahead.scale_within(8, 1e-5) * 1;  // the noise with which all 20 keep to it
    auto run = with_noise(1, 8);
    try {
        run.run(20, sample::Everyone{});
    } catch (const BudgetError& e) {
        // nobody has anything left; whoever had spent all before was left out of the rounds since
    }
    // [/budget]
    auto other = with_noise(noise, 8);
    other.run(20, sample::Everyone{});
    bool kept = true;
    for (Id k = 0; k < run.size(); ++k) kept = kept && run.setup().method.spent(run.client(k)).epsilon <= 8;
    return dearest.epsilon > 8 && kept && run.rounds_done() >= fit && fit > 0 && fit < 20 && other.rounds_done() == 20;
}

bool count() {
    // [ledger]
    Vec<Spent> ledger;
    spend(ledger, {.rate = 64.0 / 2500, .noise = 1.0, .steps = 400});
    spend(ledger, {.rate = 1, .noise = 8, .steps = 1});  // anything else that was released
    const auto now = privacy::guarantee(ledger, 1e-5);   // now.epsilon, and the order that gave it

    // The noise with which 400 steps keep to an epsilon of 2:
    const double noise = privacy::calibrated_noise(64.0 / 2500, 400, 2.0, 1e-5);
    // [/ledger]
    return now.epsilon > 3.6 && now.epsilon < 4.5 && noise > 1.2 && noise < 1.6;
}

bool client_level(const data::FederatedDataset& clients) {
    // [clients]
    using Hidden = fold::PrivateMean<privacy::Noise>;
    Federation<FedAvg<rule::Sgd, Hidden>, Net> run{
        {}, clients, {.fold = {.clip = 0.5, .noise = 1, .clients = 6}}, {.batch = 5}};
    run.round(sample::Everyone{});
    const double epsilon = privacy::guarantee(run.server().fold.ledger, 1e-5).epsilon;
    // [/clients]
    return epsilon > 4 && epsilon < 5;
}

}  // namespace

int main() {
    const auto clients = data::synthetic({.clients = 6, .seed = 1, .max_examples = 60});
    return private_run(clients) && within_a_budget(clients) && count() && client_level(clients) ? 0 : 1;
}
