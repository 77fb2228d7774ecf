// SPDX-License-Identifier: BSD-3-Clause
// The program in README.md.
// [program]
#include <tessera/data/synthetic.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <cstdio>

int main() {
    using namespace tessera;
    using Net = nn::Dnn<60, 20, 10>;
    using Method = FedAvgFt<rule::Sgd, fold::Mean>;  // every policy is a hole: fold::ServerAdam<>, your own, ...

    const auto clients = data::synthetic({.alpha = 0.5, .beta = 0.5, .clients = 30, .seed = 1, .max_examples = 400});
    const Method method{.local = {.rate = 0.05}, .epochs = 2, .tune_epochs = 3};
    Federation<Method, Net> run{Net{}, clients, method, {.seed = 1, .batch = 10, .rounds = 30}};
    run.run(30, sample::Uniform{.count = 10});

    const auto global = evaluate<Which::global>(run);
    const auto personal = evaluate<Which::personal>(run);
    const auto effect = report::compare(global, personal);  // the other way round does not compile
    std::printf("global %.0f %%, personal %.0f %%; %zu of %zu clients gain\n",
                100 * global.accuracy(Average::unweighted).value.get(),
                100 * personal.accuracy(Average::unweighted).value.get(), effect.benefiting, effect.deltas.size());
}
// [/program]
