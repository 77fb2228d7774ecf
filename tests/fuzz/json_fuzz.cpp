// SPDX-License-Identifier: BSD-3-Clause
// JSON of runs: any text is refused with an IoError, or holds runs that survive being written and read.
#include "driver.hpp"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <page/run_reader.hpp>
#include <tessera/core/error.hpp>
#include <tessera/report/json.hpp>

using namespace tessera;
using namespace tessera::report;
using lab::runs_from_json;

bool fuzz_accepted = false;

namespace {

RunRecord some_run() {
    RunRecord run;
    run.set("algorithm", "fedavg");
    run.set("rate", 0.05);
    run.set("stateless", false);
    run.set("data_fingerprint", "0123456789abcdef0123456789abcdef");
    run.kernel_set = "avx2";
    run.version = "0.1.0";
    const Evaluation accuracy{.model = Which::global,
                              .when = When::before,
                              .on = On::local(),
                              .split = SplitOf::test,
                              .clients = Whom::all,
                              .pick = Pick::mean_last(3),
                              .average = Average::pooled,
                              .metric = Metric::accuracy,
                              .stage = "first \"stage\"\n",
                              .value = 0.5};
    run.rounds = {{.round = 1, .seconds = 0.25, .bytes_up = 7, .state_hash = "ab", .evaluations = {accuracy}}};
    run.rounds[0].phases = {{"visits", 0, 0.125}};
    run.final_evaluations = {accuracy};
    run.per_client = {{.id = 3, .n_train = 5, .n_test = 2, .accuracy_global = 0.5, .labels = {4, 1}, .name = "ann"}};
    run.notes = {"a note"};
    run.add({.id = "table",
             .title = "Title",
             .caption = "Caption",
             .kind = Kind::table,
             .x = {.title = "x"},
             .categories = {"one", "two"},
             .series = {{.name = "y", .y = {1, 2}, .texts = {"a", "b"}}}});
    return run;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz_accepted = false;
    std::vector<RunRecord> runs;
    try {
        runs = runs_from_json({reinterpret_cast<const char*>(data), size}, "input");
    } catch (const IoError& e) {
        fuzz_refused(e, "input");
        return 0;
    }
    fuzz_accepted = true;
    for (const auto& run : runs) {
        // Once written, 1e3 is 1000 and a whole number; from there on nothing changes any more.
        const std::string once = to_json(runs_from_json(to_json(run), "written").at(0));
        if (to_json(runs_from_json(once, "written again").at(0)) != once) std::abort();
    }
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() {
    auto stopped = some_run();
    stopped.stopped = "interrupted after round 1 of 9, by SIGTERM";
    std::vector<std::vector<std::uint8_t>> seeds;
    for (const auto& text : {to_json(some_run()), to_json(stopped), "{\"runs\":[" + to_json(stopped) + "]}"})
        seeds.emplace_back(text.begin(), text.end());
    return seeds;
}
