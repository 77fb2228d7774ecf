// SPDX-License-Identifier: BSD-3-Clause
// The settings of a policy by name: what the lab's --set and a report's configuration are made of.
//
// A setting is a number, a flag or an enum (with `words_of`) that is a field of the policy or of a policy
// inside it. "rate" means every field of that name, "local.rate" the one inside the field `local`.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
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

// f(full name, field) for every setting inside a policy.
template <class P, class F>
void for_each_setting(P& policy, const std::string& prefix, F&& f) {
    for_each_field(policy, [&](std::string_view name, auto& field) {
        using T = std::remove_cvref_t<decltype(field)>;
        const std::string full = prefix.empty() ? std::string(name) : prefix + "." + std::string(name);
        if constexpr (NamedEnum<T> || std::is_arithmetic_v<T>) f(full, field);
        else if constexpr (std::is_class_v<T> && Reflectable<T>) for_each_setting(field, full, f);
    });
}

inline bool means(std::string_view full, std::string_view asked) {
    return full == asked || (full.size() > asked.size() && full.ends_with(asked) &&
                             full[full.size() - asked.size() - 1] == '.');
}

}  // namespace detail

// All settings with their present values, in order of declaration.
template <class P>
std::vector<std::pair<std::string, std::string>> settings_of(const P& policy) {
    std::vector<std::pair<std::string, std::string>> all;
    detail::for_each_setting(policy, "", [&](const std::string& name, const auto& value) {
        all.emplace_back(name, detail::text_of(value));
    });
    return all;
}

// Sets every setting of that name; false if there is none. A text that does not fit is a ConfigError.
template <class P>
bool set_by_name(P& policy, std::string_view name, std::string_view text) {
    bool found = false;
    detail::for_each_setting(policy, "", [&](const std::string& full, auto& value) {
        if (!detail::means(full, name)) return;
        detail::read_text(full, text, value);
        found = true;
    });
    return found;
}

}  // namespace tessera
