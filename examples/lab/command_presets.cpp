// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>

#include <tessera/core/error.hpp>

#include "commands.hpp"
#include "presets.hpp"

namespace lab {

int list_presets(const std::string& name, bool as_text) {
    if (as_text && name.empty())
        throw tessera::ConfigError("presets --text: name the preset whose file is to be printed");
    if (!name.empty()) {
        const auto preset = preset_in_words(name);
        if (as_text) {
            std::fputs(preset.text.c_str(), stdout);
            return 0;
        }
        const bool elsewhere = !preset.path.empty() && !name.starts_with(preset.path);
        std::printf("%s %s%s\n", preset.hash.c_str(), name.c_str(), elsewhere ? (" of " + preset.path).c_str() : "");
        for (const auto& each : preset.pieces) std::printf("  %s\n", each.c_str());
        return 0;
    }
    for (const auto& p : presets())
        std::printf("%s %-26s %s\n", preset_in_words(p.file.name).hash.c_str(), p.file.name.c_str(), p.what.c_str());
    for (const auto& v : preset_variants())
        std::printf("%*s %-24s %s\n", 19, "...", variant_name(v).c_str(), v.what.c_str());
    return 0;
}

}  // namespace lab
