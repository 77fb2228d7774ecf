// SPDX-License-Identifier: BSD-3-Clause
// The form of a value: how long every vector, list and mask in it is. What comes from outside is held against the form
// of what this side would have made itself, before anything reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <tessera/core/arena.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/core/reflect.hpp>

namespace tessera {

using Form = Vec<std::uint64_t>;

namespace detail {

// Where a walk stands, for a sentence.
struct FieldPath {
    const FieldPath* above = nullptr;
    std::string_view name{};
    std::size_t index = 0;  // where there is no name

    std::string words() const {
        std::string all = above ? above->words() : "";
        if (!name.empty()) return all.append(all.empty() ? "" : ".").append(name);
        return above ? all + "[" + std::to_string(index) + "]" : all;
    }
};

// f(path, length) for every vector, list and mask, in order; false ends the walk. Values of type `Skip` are passed by.
template <class Skip, class T, class F>
bool for_each_length(const T& value, const FieldPath& path, F&& f) {
    if constexpr (Number<T> || std::is_same_v<T, Skip>) {
        return true;
    } else if constexpr (std::is_same_v<T, Mask>) {
        return f(path, value.size());
    } else if constexpr (Growable<T> || is_array<T>) {
        if constexpr (Growable<T>)
            if (!f(path, value.size())) return false;
        if constexpr (!Number<typename T::value_type>)
            for (std::size_t i = 0; i < value.size(); ++i)
                if (!for_each_length<Skip>(value[i], {&path, {}, i}, f)) return false;
        return true;
    } else {
        bool on = true;
        for_each_field(value, [&](std::string_view name, const auto& field) {
            on = on && for_each_length<Skip>(field, {&path, name}, f);
        });
        return on;
    }
}

}  // namespace detail

template <class T, class Skip = void>
Form form_of(const T& value) {
    Form form;
    detail::for_each_length<Skip>(value, {}, [&](const auto&, std::size_t length) {
        form.push_back(length);
        return true;
    });
    return form;
}

// The first difference in words, "w has a length of 1, not 7850"; "" if the value has the form.
template <class T, class Skip = void>
std::string form_fault(const T& value, const Form& form) {
    std::string fault;
    std::size_t i = 0;
    detail::for_each_length<Skip>(value, {}, [&](const detail::FieldPath& path, std::size_t length) {
        const bool known = i < form.size();
        if (known && form[i++] == length) return true;
        const std::string where = path.words();
        fault = (where.empty() ? "it" : where) + " has a length of " + std::to_string(length) + ", not " +
                (known ? std::to_string(form[i - 1]) : "any");
        return false;
    });
    if (fault.empty() && i < form.size()) fault = "it ends too early";
    return fault;
}
template <class T, class Skip = void>
bool has_form(const T& value, const Form& form) {
    std::size_t i = 0;
    const bool fits = detail::for_each_length<Skip>(value, {}, [&](const auto&, std::size_t length) {
        return i < form.size() && form[i++] == length;
    });
    return fits && i == form.size();
}

// f(vector) for every vector of floating-point numbers in a value.
template <class T, class F>
void for_each_vector(T& value, F&& f) {
    if constexpr (detail::Growable<T> || detail::is_array<T>) {
        if constexpr (detail::Growable<T> && std::is_floating_point_v<typename T::value_type>) f(value);
        else if constexpr (!detail::Number<typename T::value_type>)
            for (auto& each : value) for_each_vector(each, f);
    } else if constexpr (!detail::Number<T> && !std::is_same_v<T, Mask>) {
        with_fields(value, [&](auto&... field) { (for_each_vector(field, f), ...); });
    }
}

namespace detail {

// Whether all that can grow in T is vectors of floating-point numbers.
template <class T>
consteval bool grows_by_numbers() {
    if constexpr (Number<T>) return true;
    else if constexpr (std::is_same_v<T, Mask>) return false;
    else if constexpr (Growable<T>) return std::is_floating_point_v<typename T::value_type>;
    else if constexpr (is_array<T>) return grows_by_numbers<typename T::value_type>();
    else if constexpr (std::is_class_v<T> && Reflectable<T>)
        return []<class... F>(Types<F...>*) { return (grows_by_numbers<F>() && ...); }(
            static_cast<field_types<T>*>(nullptr));
    else return false;
}

// Every vector is empty, or as long as it must be.
template <class T>
bool fresh_or(const T& value, std::size_t length) {
    return for_each_length<void>(value, {},
                                 [&](const auto&, std::size_t each) { return each == 0 || each == length; });
}

}  // namespace detail
}  // namespace tessera
