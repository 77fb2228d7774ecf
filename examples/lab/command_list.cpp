// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <string>
#include <string_view>

#include <tessera/data/partition.hpp>
#include <tessera/report/json.hpp>

#include "commands.hpp"
#include "methods.hpp"
#include "presets.hpp"
#include "tasks.hpp"

namespace lab {

int list(bool as_json) {
    if (as_json) {
        std::string out;
        tessera::report::JsonWriter w(out);
        const auto names = [&](std::string_view key, const auto& all) {
            w.key(key).array([&] {
                for (const auto& name : all) w.value(name);
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
                            for (const auto& [name, value] : e.settings) w.member(name, value);
                        });
                    });
            });
            names("data", data_names);
            names("partitions", tessera::data::partition_names());
            names("models", model_names);
            w.key("presets").array([&] {
                for (const auto& p : presets())
                    w.object([&] {
                        w.member("name", p.name);
                        w.member("what", p.what);
                        w.member("hash", preset_hash(std::string(p.name)));
                        names("sets", in_words(p));
                    });
            });
            w.key("preset_variants").array([&] {
                for (const auto& v : preset_variants())
                    w.object([&] {
                        w.member("name", v.name);
                        w.member("what", v.what);
                    });
            });
        });
        std::printf("%s\n", out.c_str());
        return 0;
    }
    std::printf("Algorithms (settings with their defaults, for --set)\n");
    for (const auto& e : catalogue()) {
        std::printf("  %-13s %s%s\n               ", e.name.c_str(), e.what.c_str(), e.scoped ? "; takes --scope" : "");
        for (const auto& [name, value] : e.settings) std::printf(" %s=%s", name.c_str(), value.c_str());
        std::printf("\n");
    }
    const auto names = [](const char* title, const auto& all) {
        std::printf("%s\n ", title);
        for (const auto& name : all) std::printf(" %s", std::string(name).c_str());
        std::printf("\n");
    };
    names("Data", data_names);
    names("Partitions", tessera::data::partition_names());
    names("Models", model_names);
    std::printf("Presets\n");
    for (const auto& p : presets()) {
        std::printf("  %-24s %s\n                          ", std::string(p.name).c_str(), std::string(p.what).c_str());
        for (const auto& said : in_words(p)) std::printf(" %s", said.c_str());
        std::printf("\n");
    }
    for (const auto& v : preset_variants())
        std::printf("  ...%-21s %s\n", std::string(v.name).c_str(), std::string(v.what).c_str());
    return 0;
}

}  // namespace lab
