// SPDX-License-Identifier: BSD-3-Clause
// The settings of a policy by name: what the lab's --set and a report's configuration are made of.
//
// A setting is a number, a flag or an enum (with `words_of`) that is a field of the policy or of a policy
// inside it. "rate" means every field of that name, "local.rate" the one inside the field `local`. Who sets by several
// names sets by the less qualified ones first, so that the more specific one wins.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/reflect.hpp>

namespace tessera {

namespace detail {

template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) { words_of(value); };

inline std::string shortest(double value) {
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    return {text, end};
}

template <class T>
std::string text_of(const T& value) {
    if constexpr (NamedEnum<T>) return std::string(words_of(value)[static_cast<std::size_t>(value)]);
    else if constexpr (std::same_as<T, bool>) return value ? "true" : "false";
    else if constexpr (std::floating_point<T>) return shortest(static_cast<double>(value));
    else return std::to_string(value);
}

template <class T>
void read_text(const std::string& name, std::string_view text, T& value) {
    if constexpr (NamedEnum<T>) {
        constexpr auto words = words_of(T{});
        std::string known;
        for (std::size_t i = 0; i < words.size(); ++i) {
            if (words[i] == text) {
                value = static_cast<T>(i);
                return;
            }
            known.append(i == 0 ? "" : ", ").append(words[i]);
        }
        throw ConfigError(name + " is one of " + known + ", not '" + std::string(text) + "'");
    } else if constexpr (std::same_as<T, bool>) {
        if (text != "true" && text != "false")
            throw ConfigError(name + " is true or false, not '" + std::string(text) + "'");
        value = text == "true";
    } else {
        T read{};
        const auto* end = text.data() + text.size();
        const auto result = std::from_chars(text.data(), end, read);
        if (result.ec != std::errc{} || result.ptr != end)
            throw ConfigError(name + " is a " + (std::integral<T> ? "whole number" : "number") + ", not '" +
                              std::string(text) + "'");
        value = read;
    }
}

// A setting where it stands, whatever its type: what is done with settings is compiled once, not once a policy.
struct PlacedSetting {
    using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

    std::string name;  // in full
    void* field;
    Value (*value_of)(const void* field);
    std::string (*text_of)(const void* field);
    void (*read)(const std::string& name, std::string_view text, void* field);

    Value value() const { return value_of(field); }
};

template <class T>
PlacedSetting::Value value_of(const T& value) {
    if constexpr (NamedEnum<T>) return text_of(value);
    else if constexpr (std::same_as<T, bool>) return value;
    else if constexpr (std::floating_point<T>) return static_cast<double>(value);
    else if constexpr (std::signed_integral<T>) return static_cast<std::int64_t>(value);
    else return static_cast<std::uint64_t>(value);
}

template <class P>
void place_settings(P& policy, const std::string& prefix, std::vector<PlacedSetting>& all) {
    for_each_field(policy, [&]<class T>(std::string_view name, T& field) {
        std::string full = prefix + std::string(name);
        if constexpr (NamedEnum<T> || std::is_arithmetic_v<T>)
            all.push_back({std::move(full), &field,
                           [](const void* at) { return value_of(*static_cast<const T*>(at)); },
                           [](const void* at) { return text_of(*static_cast<const T*>(at)); },
                           [](const std::string& called, std::string_view text, void* at) {
                               read_text(called, text, *static_cast<T*>(at));
                           }});
        else if constexpr (std::is_class_v<T> && Reflectable<T>) place_settings(field, full + ".", all);
    });
}

// Every setting inside a policy, in order of declaration. Those of a constant one are only to be looked at.
template <class P>
std::vector<PlacedSetting> settings_in(const P& policy) {
    std::vector<PlacedSetting> all;
    place_settings(const_cast<P&>(policy), "", all);
    return all;
}

inline bool means(std::string_view full, std::string_view asked) {
    return full == asked || (full.size() > asked.size() && full.ends_with(asked) &&
                             full[full.size() - asked.size() - 1] == '.');
}

// Of two names that mean the same setting the one with more of them is the more specific.
inline std::size_t qualifiers_of(std::string_view name) {
    return static_cast<std::size_t>(std::count(name.begin(), name.end(), '.'));
}

inline bool set_by_name(const std::vector<PlacedSetting>& settings, std::string_view name, std::string_view text) {
    bool found = false;
    for (const auto& setting : settings)
        if (means(setting.name, name)) {
            setting.read(setting.name, text, setting.field);
            found = true;
        }
    return found;
}

}  // namespace detail

// All settings with their present values, in order of declaration.
template <class P>
std::vector<std::pair<std::string, std::string>> settings_of(const P& policy) {
    std::vector<std::pair<std::string, std::string>> all;
    for (auto& setting : detail::settings_in(policy))
        all.emplace_back(std::move(setting.name), setting.text_of(setting.field));
    return all;
}

// Sets every setting of that name; false if there is none. A text that does not fit is a ConfigError.
template <class P>
bool set_by_name(P& policy, std::string_view name, std::string_view text) {
    return detail::set_by_name(detail::settings_in(policy), name, text);
}

}  // namespace tessera
