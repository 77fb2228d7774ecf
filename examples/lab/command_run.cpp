// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>

#include "commands.hpp"
#include "outputs.hpp"
#include "runs.hpp"
#include "stages.hpp"

namespace lab {

int run(Options o) {
    const auto said = complete(o);
    stages_of(o);  // what is wrong without the data is said before the preset is
    check_checkpoints(o);
    if (!said.empty() && !o.quiet) {
        const bool elsewhere = !o.preset_path.empty() && !o.preset.starts_with(o.preset_path);
        std::printf("preset %s (%s)%s sets", o.preset.c_str(), o.preset_hash.c_str(),
                    elsewhere ? (" of " + o.preset_path).c_str() : "");
        for (const auto& each : said) std::printf("\n  %s", each.c_str());
        std::printf("\n");
        std::fflush(stdout);
    }
    const auto runs = run_seeds(o, make_task(o));
    if (!o.quiet) print_summary(runs);
    write_together(runs, o);
    return 0;
}

}  // namespace lab
