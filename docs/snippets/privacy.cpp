// SPDX-License-Identifier: BSD-3-Clause
// The code of docs/privacy.md and docs/policies/privacy.md.
#include <tessera/data/synthetic.hpp>
#include <tessera/fold/private_mean.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
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
    const Noisy rule{.rate = 0.1, .clip = 1, .noise = 1.2, .source = {privacy::Source::system}};
    using Method = Private<Ditto<Noisy>>;  // both models are trained with noise
    Federation<Method, Net> run{{}, clients, {.inner = {.local = rule, .personal = rule}, .delta = 1e-5}, {.batch = 5}};
    for (int round = 0; round < 3; ++round) run.round(sample::Everyone{});

    const auto statement = privacy_statement(run);  // the epsilon of each client, and what it assumes
    const auto table = report::analysis::privacy_table(statement);
    // [/run]
    return statement.epsilon.size() == 6 && statement.epsilon[0] > 0 && table.categories[0] == "epsilon, largest";
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
    return private_run(clients) && count() && client_level(clients) ? 0 : 1;
}
