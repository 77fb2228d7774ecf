// SPDX-License-Identifier: BSD-3-Clause
// A first federation: thirty clients whose data differ, one shared model, one tuned model for each.
//
// Teaches: data, method, model, round, typed evaluation.        Next: 02_custom_fold.cpp
#include <tessera/data/synthetic.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/controls.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <cstdio>

using namespace tessera;

// Averaged over clients, so that a small one counts as much as a large one.
template <class Result>
double percent(const Result& result) {
    return 100 * result.accuracy(Average::unweighted).value.get();
}

int main() {
    // Every client sees inputs of its own and labels them by a rule of its own.
    const auto clients = data::synthetic({.clients = 30, .seed = 1, .max_examples = 400});

    // A method is a value: FedAvg in training, five epochs of fine-tuning when a client is served.
    const FedAvgFt<> method{.local = {.rate = 0.05}, .epochs = 2, .tune_epochs = 5};

    // A model is a type: 60 numbers in, 20 hidden, 10 classes out.
    using Net = nn::Dnn<60, 20, 10>;
    Federation<FedAvgFt<>, Net> federation{Net{}, clients, method, {.seed = 1, .batch = 10}};

    const auto every_tenth = [](const RoundReport& report) {
        if ((report.round + 1) % 10 == 0)
            std::printf("round %2zu   loss %.3f   %4.0f kB up   state %s\n", report.round + 1,
                        report.train_loss, static_cast<double>(report.bytes_up) / 1e3,
                        report.state.hex().c_str());
    };
    federation.run(30, sample::Uniform{.count = 10}, exec::Serial{}, every_tenth);

    // Results know what they are: swap two of these and the program does not compile.
    const auto global = evaluate<Which::global>(federation);
    const auto personal = evaluate<Which::personal>(federation);
    const auto effect = report::compare(global, personal);

    std::printf("most frequent class  %5.1f %%\n", percent(majority_class(clients)));
    std::printf("global model         %5.1f %%\n", percent(global));
    std::printf("personal models      %5.1f %%   %zu of %zu clients gain, %zu lose\n",
                percent(personal), effect.benefiting, effect.deltas.size(), effect.harmed);

    const bool worth_it = percent(personal) > percent(global) &&
                          percent(personal) > percent(majority_class(clients));
    return worth_it ? 0 : 1;
}
