// SPDX-License-Identifier: BSD-3-Clause
// Step 5 of docs/tutorial.md: a figure of one's own method in the report.
#include <cstdio>
#include <span>
#include <string>

#include <tessera/data/pool.hpp>
#include <tessera/io/csv.hpp>
#include <tessera/io/file.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/report/json.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include "tutorial_camps.hpp"

int main() {
    const data::Pool pool = io::read_csv("docs/snippets/gardens.csv", {.label = "water", .client = "garden"}).pool;
    const auto net = nn::mlp({4, 8, 2});
    const Camps method{.local = {.rate = 0.1}, .epochs = 2};
    Federation<Camps, nn::Network<float>> run{net, pool.federated({.seed = 1}), method, {.seed = 1, .batch = 10}};
    // [figure]
    report::RunRecord record;
    record.set("algorithm", "camps");
    report::Extra figure{.id = "camps", .title = "Gardens in each camp", .caption = "After each round; 24 gardens.",
                         .kind = report::Kind::line, .x = {.title = "round", .integers = true},
                         .y = {.title = "gardens"}, .series = {{.name = "first"}, {.name = "second"}}};
    for (std::size_t round = 1; round <= 20; ++round) {
        const RoundReport done = run.round(sample::Uniform{.count = 8});
        const auto personal = evaluate<Which::personal>(run);
        record.rounds.push_back({.round = round, .seconds = done.seconds, .bytes_up = done.bytes_up,
                                 .bytes_down = done.bytes_down,
                                 .evaluations = {personal.accuracy(Average::pooled), personal.loss(Average::pooled)}});
        double joined[3] = {};
        for (Id k = 0; k < run.size(); ++k) joined[run.client(k).camp] += 1;  // 0: not visited yet
        for (std::size_t camp : {1u, 2u}) {
            figure.series[camp - 1].x.push_back(static_cast<double>(round));
            figure.series[camp - 1].y.push_back(joined[camp]);
        }
    }
    record.add(figure);
    fill(record.per_client, evaluate<Which::personal>(run));
    const std::string json = report::to_json(record);
    io::write_file_atomically("camps.json", std::as_bytes(std::span(json)));
    std::printf("camps.json: %.0f and %.0f gardens\n", figure.series[0].y.back(), figure.series[1].y.back());
    // [/figure]
    return json.find("\"camps\"") == std::string::npos;
}
