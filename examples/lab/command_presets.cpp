// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>

#include "commands.hpp"
#include "presets.hpp"

namespace lab {

int list_presets(const std::string& name) {
    if (!name.empty()) {
        std::printf("%s %s\n", preset_hash(name).c_str(), name.c_str());
        for (const auto& each : preset_in_words(name)) std::printf("  %s\n", each.c_str());
        return 0;
    }
    for (const auto& p : presets()) {
        const std::string base(p.name);
        std::printf("%s %-26s %s\n", preset_hash(base).c_str(), base.c_str(), std::string(p.what).c_str());
    }
    for (const auto& v : preset_variants())
        std::printf("%*s %-24s %s\n", 19, "...", std::string(v.name).c_str(), std::string(v.what).c_str());
    return 0;
}

}  // namespace lab
