// SPDX-License-Identifier: BSD-3-Clause
// Regions of this file are quoted in docs/analyses.md: figures of a run, figures over runs, an extra of one's own.
#include <cstdio>
#include <string>
#include <vector>

#include <tessera/data/synthetic.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/report/analysis/clients.hpp>
#include <tessera/report/analysis/memory.hpp>
#include <tessera/report/analysis/runs.hpp>
#include <tessera/report/json.hpp>
#include <tessera/report/seeds.hpp>
#include <tessera/runtime/class_loss.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/theory.hpp>
#include <tessera/sample/uniform.hpp>

using namespace tessera;

namespace {

int failures = 0;
void expect(const char* what, bool holds) {
    if (!holds) std::printf("failed: %s\n", what), ++failures;
}

using Net = nn::Dnn<60, 20, 10>;
using Run = Federation<FedAlt<>, Net>;

Run trained(std::uint64_t seed) {
    const auto clients = data::synthetic({.alpha = 0.5, .beta = 0.5, .clients = 8, .seed = 3, .max_examples = 120});
    Run run{{}, clients, FedAlt<>{}, {.seed = seed, .batch = 10, .rounds = 3}};
    run.run(3, sample::Uniform{.count = 4});
    return run;
}

// [clients]
report::RunRecord recorded(const Run& run) {
    report::RunRecord record;
    record.set("algorithm", "fedalt");
    record.set("seed", run.settings().seed);
    fill(record.per_client, evaluate<Which::global>(run));
    fill(record.per_client, evaluate<Which::personal>(run));
    fill(record.per_client, evaluate<Which::global, SplitOf::train>(run));
    fill(record.per_client, evaluate<Which::personal, SplitOf::train>(run));
    report::analysis::add_client_figures(record);  // change against size, violins, harmed clients, quantiles
    return record;
}
// [/clients]

}  // namespace

int main() {
    const Run run = trained(1);
    auto record = recorded(run);
    // [run]
    record.add(report::analysis::loss_deviation_on_own(class_losses<Which::personal>(run)));
    record.add(report::analysis::loss_deviation_on_union(class_losses_on_union<Which::personal>(run)));
    record.add(theory_table(theory_constants(run), 4));  // four clients a round

    const Coordinates own = on(run.setup().method.own, run.setup().model);
    const std::size_t d = run.setup().initial.size(), personal = own.size(d);
    record.set("personal_parameters", personal);
    record.add(report::analysis::memory_estimate(d - personal, personal));
    // [/run]
    expect("eight figures", record.extras.size() == 8);

    // [own]
    report::Extra extra{.id = "sizes", .title = "Largest clients", .caption = "By training examples.",
                        .kind = report::Kind::bars, .y = {.title = "examples"}};
    extra.categories = {"first", "second"};
    extra.series = {{.name = "training", .y = {40, 31}}, {.name = "test", .y = {10, 8}}};
    record.add(extra);
    // [/own]

    // [runs]
    const std::vector<report::RunRecord> runs{record, recorded(trained(2)), recorded(trained(3))};
    const std::vector<report::Extra> across{report::analysis::spread_over_seeds(runs),
                                            report::analysis::gain_against_parameters(runs),
                                            report::analysis::ablation(runs, {"dropout", "l2"})};
    const std::string seeds = report::seeds_to_json(runs), figures = report::to_json(across);  // two files
    // [/runs]
    expect("the runs keep their figures", seeds.find("\"theory\"") != std::string::npos &&
                                              seeds.find("\"sizes\"") != std::string::npos);
    expect("the numbers are there", figures.find("gain-parameters") != std::string::npos);
    return failures;
}
