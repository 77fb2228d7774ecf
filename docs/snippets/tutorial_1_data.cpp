// SPDX-License-Identifier: BSD-3-Clause
// Step 1 of docs/tutorial.md: a federation on data of one's own.
// [program]
#include <cstdio>

#include <tessera/data/pool.hpp>
#include <tessera/io/csv.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

using namespace tessera;

int main() {
    const data::Pool pool = io::read_csv("docs/snippets/gardens.csv", {.label = "water", .client = "garden"}).pool;

    const auto net = nn::mlp({4, 8, 2});  // four numbers in, eight hidden, two classes
    const FedAvgFt<> method{.local = {.rate = 0.1}, .epochs = 2, .tune_epochs = 10};
    Federation<FedAvgFt<>, nn::Network<float>> run{net, pool.federated({.seed = 1}), method, {.seed = 1, .batch = 10}};
    run.run(20, sample::Uniform{.count = 8});  // 20 rounds, 8 gardens in each

    for (const auto& accuracy : {evaluate<Which::global>(run).accuracy(Average::unweighted),
                                 evaluate<Which::personal>(run).accuracy(Average::unweighted)})
        std::printf("%.0f %%: %s\n", 100 * accuracy.value.get(), report::in_words(accuracy).c_str());
}
// [/program]
