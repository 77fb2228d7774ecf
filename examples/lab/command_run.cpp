// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <utility>

#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>

#include "commands.hpp"
#include "outputs.hpp"
#include "ranks.hpp"
#include "runs.hpp"
#include "stages.hpp"
#include "tasks.hpp"

namespace lab {

int run(Options o) {
    const auto said = complete(o);
    stages_of(o);  // what is wrong without the data is said before the preset is
    bool in_vain = !check_checkpoints(o) && o.resume;
    if (const auto all = ranks()) {  // what the others see of the places is what rank 0 saw, before anything is written
        tessera::Bytes seen;
        tessera::put(seen, in_vain);
        all->broadcast(seen);
        in_vain = tessera::decode<bool>(seen);
        o = as_rank(std::move(o));
    }
    if (!said.empty() && !o.quiet) {
        const bool elsewhere = !o.preset_path.empty() && !o.preset.starts_with(o.preset_path);
        std::printf("preset %s (%s)%s sets", o.preset.c_str(), o.preset_hash.c_str(),
                    elsewhere ? (" of " + o.preset_path).c_str() : "");
        for (const auto& each : said) std::printf("\n  %s", each.c_str());
        std::printf("\n");
        std::fflush(stdout);
    }
    settle_normalisation(o);
    FailedOutputs failed;
    const auto task = make_task(o);
    if (!o.quiet) {
        std::printf("%s\n", task.read.c_str());
        std::fflush(stdout);
        for (const auto& stage : stages_of(o))
            for (const auto& said : {what_split_leaves(stage, task), what_it_costs(stage, task)})
                if (!said.empty()) std::fprintf(stderr, "tessera-lab: %s\n", said.c_str());
    }
    auto runs = run_seeds(o, task, failed);
    if (in_vain)
        for (auto& each : runs.all) each.notes.push_back("there was no checkpoint to resume; the run began at round 1");
    tell(runs, o, failed);
    return 0;
}

}  // namespace lab
