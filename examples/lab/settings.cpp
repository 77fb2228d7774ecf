// SPDX-License-Identifier: BSD-3-Clause
#include "settings.hpp"

#include <variant>

#include <tessera/core/error.hpp>

#include "nearest.hpp"

namespace lab {

using tessera::ConfigError;
using tessera::detail::set_by_name;

void set_all(const MethodSettings& of_method, const std::string& algorithm, const std::string& flag,
             const NamedValues& settings) {
    for (const auto& [name, value] : settings) {
        try {
            if (set_by_name(of_method, name, value)) continue;
        } catch (const ConfigError& e) {
            throw ConfigError(flag + " " + name + "=" + value + ": " + e.what());
        }
        std::string has;
        std::vector<std::string> known;
        for (const auto& setting : of_method) {
            has.append(has.empty() ? "" : ", ").append(setting.name);
            known.push_back(setting.name.substr(setting.name.rfind('.') + 1));
            known.push_back(setting.name);
        }
        const auto meant = perhaps(name, known);
        throw ConfigError(flag + " " + name + ": " + algorithm + " has no such setting" + meant +
                          (meant.empty() ? "; it" : " It") + " has " + has);
    }
}

void set_all(const MethodSettings& of_method, const Options& o) {
    for (const auto& offer : o.offers)
        if (offer.concerns(o.algorithm)) try {
                set_by_name(of_method, offer.name, offer.value);
            } catch (const ConfigError& e) {
                throw ConfigError(offer.from + ": " + e.what());
            }
    set_all(of_method, o.algorithm, o.stages.empty() ? "--set" : "--stages", o.set);
}

Configuration in_report(const MethodSettings& of_method) {
    Configuration all;
    for (const auto& setting : of_method)
        std::visit([&](const auto& value) { all.emplace_back(setting.name, value); }, setting.value());
    return all;
}

}  // namespace lab
