// SPDX-License-Identifier: BSD-3-Clause
// Step 4 of docs/tutorial.md: a method of one's own.
#include <cstdio>

#include <tessera/conformance.hpp>
#include <tessera/data/pool.hpp>
#include <tessera/io/csv.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include "tutorial_camps.hpp"

int main() {
    const data::Pool pool = io::read_csv("docs/snippets/gardens.csv", {.label = "water", .client = "garden"}).pool;
    const auto net = nn::mlp({4, 8, 2});
    // [use]
    conformance::require(conformance::method<Camps>());  // threads, wire, checkpoints, serving, ...

    const Camps method{.local = {.rate = 0.1}, .epochs = 2};
    Federation<Camps, nn::Network<float>> run{net, pool.federated({.seed = 1}), method, {.seed = 1, .batch = 10}};
    run.run(20, sample::Uniform{.count = 8});
    std::printf("%.0f %%, and the camps:", 100 * evaluate<Which::personal>(run).accuracy(Average::unweighted).value.get());
    for (Id k = 0; k < run.size(); ++k) std::printf(" %d", static_cast<int>(run.client(k).camp));
    std::printf("\n");
    // [/use]
}
