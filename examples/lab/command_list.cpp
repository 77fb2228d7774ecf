// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include <tessera/core/error.hpp>
#include <tessera/data/partition.hpp>
#include <tessera/report/json.hpp>

#include "commands.hpp"
#include "methods.hpp"
#include "presets.hpp"
#include "setting_words.hpp"
#include "tasks.hpp"

namespace lab {

int list(bool as_json, const std::string& name) {
    if (!name.empty()) {
        if (as_json) throw tessera::ConfigError("list: --json lists everything; leave out " + name);
        if (name.find('/') != name.npos) return list_presets(name);
        const auto& e = entry_of(name, "list");
        std::printf("%s: %s\ntrains %s clients%s\n", e.name.c_str(), e.what.c_str(), e.trains_all ? "all" : "sampled",
                    e.scoped ? "; takes --scope" : "");
        std::size_t widest = 0;
        for (const auto& [setting, value] : e.settings)
            widest = std::max(widest, std::min<std::size_t>(32, setting.size() + value.size() + 1));
        for (const auto& [setting, value] : e.settings)
            std::printf("  %-*s  %s; %s\n", static_cast<int>(widest), (setting + "=" + value).c_str(),
                        meaning_of(e.name, setting).c_str(), range_of(e, setting).c_str());
        return 0;
    }
    if (as_json) {
        std::string out;
        tessera::report::JsonWriter w(out);
        const auto names = [&](std::string_view key, const auto& all) {
            w.key(key).array([&] {
                for (const auto& each : all) w.value(each);
            });
        };
        w.object([&] {
            w.key("algorithms").array([&] {
                for (const auto& e : catalogue())
                    w.object([&] {
                        w.member("name", e.name);
                        w.member("what", e.what);
                        w.member("scope", e.scoped);
                        w.member("trains", e.trains_all ? "all" : "sampled");
                        w.key("settings").object([&] {
                            for (const auto& [setting, value] : e.settings) w.member(setting, value);
                        });
                    });
            });
            names("data", data_names);
            names("partitions", tessera::data::partition_names());
            names("models", model_names);
            w.key("presets").array([&] {
                for (const auto& p : presets())
                    w.object([&] {
                        const auto said = preset_in_words(p.file.name);
                        w.member("name", p.file.name);
                        w.member("what", p.what);
                        w.member("hash", said.hash);
                        w.member("file", p.file.path);
                        names("sets", said.pieces);
                    });
            });
            w.key("preset_variants").array([&] {
                for (const auto& v : preset_variants())
                    w.object([&] {
                        w.member("name", variant_name(v));
                        w.member("what", v.what);
                    });
            });
        });
        std::printf("%s\n", out.c_str());
        return 0;
    }
    std::printf("Algorithms (`tessera-lab list NAME` shows the settings of one, for --set)\n");
    std::size_t widest = 0;
    for (const auto& e : catalogue()) widest = std::max(widest, e.name.size());
    for (const auto& e : catalogue())
        std::printf("  %-*s  %s%s\n", static_cast<int>(widest), e.name.c_str(), e.what.c_str(),
                    e.scoped ? "; takes --scope" : "");
    const auto names = [](const char* title, const auto& all) {
        constexpr std::size_t terminal = 80;
        std::printf("%s\n ", title);
        std::size_t used = 1;
        for (const auto& each : all) {
            const std::string name(each);
            if (used > 1 && used + 1 + name.size() > terminal) std::printf("\n "), used = 1;
            std::printf(" %s", name.c_str());
            used += 1 + name.size();
        }
        std::printf("\n");
    };
    names("Data", data_names);
    names("Partitions", tessera::data::partition_names());
    names("Models", model_names);
    std::printf("Presets\n");
    for (const auto& p : presets()) std::printf("  %-24s %s\n", p.file.name.c_str(), p.what.c_str());
    for (const auto& v : preset_variants()) std::printf("  ...%-21s %s\n", variant_name(v).c_str(), v.what.c_str());
    return 0;
}

}  // namespace lab
