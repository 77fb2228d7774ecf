// SPDX-License-Identifier: BSD-3-Clause
#include "settings.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/core/error.hpp>

#include "nearest.hpp"

namespace lab {

using tessera::ConfigError;
using tessera::detail::set_by_name;

namespace {

struct Wish {
    std::string name, value;
    std::string offered_by{};  // a preset's file and line; empty: the user asks, and the method must have it
};

// Whether the method has a setting of this name, or else of what it is called here.
bool set_as_called(const MethodSettings& of_method, const std::string& name, const std::string& value) {
    if (set_by_name(of_method, name, value)) return true;
    const auto usual = usual_name(name);
    return !usual.empty() && set_by_name(of_method, usual, value);
}

[[noreturn]] void refuse_name(const MethodSettings& of_method, const std::string& algorithm, const std::string& flag,
                              const std::string& name) {
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

// The more qualified name wins, wherever it stands; of equally qualified ones the later. Here those who win come last.
std::vector<Wish> ordered(std::vector<Wish> wishes) {
    std::ranges::stable_sort(wishes, {}, [](const Wish& w) { return tessera::detail::qualifiers_of(w.name); });
    return wishes;
}

std::vector<Wish> wishes_in(const Options& o) {
    std::vector<Wish> wishes;
    for (const auto& offer : o.offers)
        if (offer.concerns(o.algorithm)) wishes.push_back({offer.name, offer.value, offer.from});
    for (const auto& [name, value] : o.set) wishes.push_back({name, value});
    return wishes;
}

void grant(const MethodSettings& of_method, const std::string& algorithm, const std::string& flag,
           std::vector<Wish> wishes) {
    for (const auto& wish : ordered(std::move(wishes))) {
        const bool offered = !wish.offered_by.empty();
        try {
            if (set_as_called(of_method, wish.name, wish.value) || offered) continue;
        } catch (const ConfigError& e) {
            throw ConfigError((offered ? wish.offered_by : flag + " " + wish.name + "=" + wish.value) + ": " +
                              e.what());
        }
        refuse_name(of_method, algorithm, flag, wish.name);
    }
}

}  // namespace

std::string usual_name(const std::string& name) {
    constexpr std::pair<std::string_view, std::string_view> known[] = {
        {"lr", "rate"}, {"learning_rate", "rate"}, {"local_epochs", "epochs"}, {"local_steps", "steps"}};
    for (const auto& [called, usual] : known)
        if (name == called) return std::string(usual);
    return "";
}

void set_all(const MethodSettings& of_method, const std::string& algorithm, const std::string& flag,
             const NamedValues& settings) {
    std::vector<Wish> wishes;
    for (const auto& [name, value] : settings) wishes.push_back({name, value});
    grant(of_method, algorithm, flag, std::move(wishes));
}

void set_all(const MethodSettings& of_method, const Options& o) {
    grant(of_method, o.algorithm, o.stages.empty() ? "--set" : "--stages", wishes_in(o));
}

std::string asked_for(const std::string& setting, const Options& o) {
    std::string value;
    for (const auto& wish : ordered(wishes_in(o)))
        if (tessera::detail::means(setting, wish.name) ||
            (!usual_name(wish.name).empty() && tessera::detail::means(setting, usual_name(wish.name))))
            value = wish.value;
    return value;
}

Configuration in_report(const MethodSettings& of_method) {
    Configuration all;
    for (const auto& setting : of_method)
        std::visit([&](const auto& value) { all.emplace_back(setting.name, value); }, setting.value());
    return all;
}

}  // namespace lab
