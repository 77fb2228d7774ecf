// SPDX-License-Identifier: BSD-3-Clause
// The fields of a plain struct, with their names: state, messages and settings are declared once and
// checkpoint, wire form, byte counts, hash and the lab's --set follow from the declaration.
//
// Works on aggregates without bases, arrays or private members, of at most 16 fields. Names are cut out
// of the compiler's own spelling of a pointer to the field (GCC 12, Clang 16 and newer).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tessera {
namespace detail {

struct Anything {
    template <class T>
    operator T() const;
};

template <class T, class... Given>
constexpr std::size_t arity() {
    if constexpr (sizeof...(Given) > 16)
        return sizeof...(Given);
    else if constexpr (requires { T{Given{}..., Anything{}}; })
        return arity<T, Given..., Anything>();
    else
        return sizeof...(Given);
}

// Asked before a struct is taken apart, so that the first error is the sentence.
template <class T>
struct AnyBaseOf {
    template <class U>
        requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T>)
    operator U() const;
};
template <class T>
concept HasBase = requires { T{AnyBaseOf<T>{}}; };

struct AnyClass {
    template <class U>
        requires std::is_class_v<U>
    operator U() const;
};
struct AnyNumber {
    template <class U>
        requires std::is_scalar_v<U>
    operator U() const;
};
// No class, but two numbers in braces: a C array. Without the braces each of its elements would pass for a field.
template <class T, class... Given>
constexpr bool has_array() {
    if constexpr (sizeof...(Given) > 16 || !requires { T{Given{}..., Anything{}}; }) return false;
    else if constexpr (requires { T{Given{}..., AnyClass{}}; }) return has_array<T, Given..., Anything>();
    else if constexpr (requires { T{Given{}..., {AnyNumber{}, AnyNumber{}}}; }) return true;
    else return has_array<T, Given..., Anything>();
}
template <class T>
concept HasArray = !requires { std::tuple_size<T>::value; } && has_array<T>();

// Storage that never holds a T, only lends the addresses its fields would have.
template <class T>
union Ghost {
    char none;
    T value;
    constexpr Ghost() : none{} {}
    constexpr ~Ghost() {}
};
template <class T>
inline constexpr Ghost<T> ghost{};

template <class T>
struct FieldAddress {
    const T* at;
};
template <class T>
FieldAddress(const T*) -> FieldAddress<T>;

template <FieldAddress Field>
consteval std::string_view spelled() {
    return __PRETTY_FUNCTION__;
}

// "... value.S::rate)}; ..." (GCC) or "... value.rate}]" (Clang) -> "rate". From the back: GCC's spelling of S may
// hold braces and parentheses of its own ("{anonymous}::S", "main()::S").
consteval std::string_view last_identifier(std::string_view text) {
    auto end = text.rfind('}');
    if (text[end - 1] == ')') --end;
    const auto begin = text.find_last_of(".:", end) + 1;
    return text.substr(begin, end - begin);
}

}  // namespace detail

template <class T>
concept Reflectable = std::is_aggregate_v<std::remove_cvref_t<T>> && !std::is_array_v<std::remove_cvref_t<T>>;

template <class T>
inline constexpr std::size_t field_count = detail::arity<std::remove_cvref_t<T>>();

// use(fields...), by reference and in order of declaration. No std::tuple: that is most of what a reflected struct
// costs to compile.
template <Reflectable T, class Use>
constexpr decltype(auto) with_fields(T& object, Use&& use) {
    using Plain = std::remove_cvref_t<T>;
    constexpr bool based = detail::HasBase<Plain>, bare = !based && detail::HasArray<Plain>;
    constexpr std::size_t count = based || bare ? 17 : field_count<T>;
    static_assert(!based, "tessera: a reflected struct has no base; make it the first field");
    static_assert(!bare, "tessera: a reflected struct has no C arrays; use std::array");
    static_assert(based || bare || count <= 16,
                  "tessera: a reflected struct may have at most 16 fields; group some of them in a struct");
    if constexpr (count == 0) {
        return use();
    } else if constexpr (count == 1) {
        auto& [a] = object;
        return use(a);
    } else if constexpr (count == 2) {
        auto& [a, b] = object;
        return use(a, b);
    } else if constexpr (count == 3) {
        auto& [a, b, c] = object;
        return use(a, b, c);
    } else if constexpr (count == 4) {
        auto& [a, b, c, d] = object;
        return use(a, b, c, d);
    } else if constexpr (count == 5) {
        auto& [a, b, c, d, e] = object;
        return use(a, b, c, d, e);
    } else if constexpr (count == 6) {
        auto& [a, b, c, d, e, g] = object;
        return use(a, b, c, d, e, g);
    } else if constexpr (count == 7) {
        auto& [a, b, c, d, e, g, h] = object;
        return use(a, b, c, d, e, g, h);
    } else if constexpr (count == 8) {
        auto& [a, b, c, d, e, g, h, i] = object;
        return use(a, b, c, d, e, g, h, i);
    } else if constexpr (count == 9) {
        auto& [a, b, c, d, e, g, h, i, j] = object;
        return use(a, b, c, d, e, g, h, i, j);
    } else if constexpr (count == 10) {
        auto& [a, b, c, d, e, g, h, i, j, k] = object;
        return use(a, b, c, d, e, g, h, i, j, k);
    } else if constexpr (count == 11) {
        auto& [a, b, c, d, e, g, h, i, j, k, l] = object;
        return use(a, b, c, d, e, g, h, i, j, k, l);
    } else if constexpr (count == 12) {
        auto& [a, b, c, d, e, g, h, i, j, k, l, m] = object;
        return use(a, b, c, d, e, g, h, i, j, k, l, m);
    } else if constexpr (count == 13) {
        auto& [a, b, c, d, e, g, h, i, j, k, l, m, n] = object;
        return use(a, b, c, d, e, g, h, i, j, k, l, m, n);
    } else if constexpr (count == 14) {
        auto& [a, b, c, d, e, g, h, i, j, k, l, m, n, o] = object;
        return use(a, b, c, d, e, g, h, i, j, k, l, m, n, o);
    } else if constexpr (count == 15) {
        auto& [a, b, c, d, e, g, h, i, j, k, l, m, n, o, p] = object;
        return use(a, b, c, d, e, g, h, i, j, k, l, m, n, o, p);
    } else if constexpr (count == 16) {
        auto& [a, b, c, d, e, g, h, i, j, k, l, m, n, o, p, q] = object;
        return use(a, b, c, d, e, g, h, i, j, k, l, m, n, o, p, q);
    }
}

namespace detail {

// The pointer behind I others.
template <class... Skipped>
struct After {
    template <class Field>
    constexpr const Field* operator()(Skipped..., const Field* field, ...) const {
        return field;
    }
};
template <std::size_t... I>
constexpr auto after(std::index_sequence<I...>) {
    return After<decltype(static_cast<const void*>((void(I), nullptr)))...>{};
}

template <class T, std::size_t I>
consteval std::string_view field_name() {
    constexpr auto* address = with_fields(ghost<T>.value, [](auto&... field) {
        return after(std::make_index_sequence<I>{})(&field...);
    });
    return last_identifier(spelled<FieldAddress{address}>());
}

template <class T, std::size_t... I>
consteval auto names_of(std::index_sequence<I...>) {
    return std::array<std::string_view, sizeof...(I)>{field_name<T, I>()...};
}

}  // namespace detail

template <class T>
inline constexpr auto field_names =
    detail::names_of<std::remove_cvref_t<T>>(std::make_index_sequence<field_count<T>>{});

// f(name, field) for each field.
template <Reflectable T, class F>
constexpr void for_each_field(T& object, F&& f) {
    with_fields(object, [&](auto&... field) {
        std::size_t i = 0;
        (f(field_names<T>[i++], field), ...);
    });
}

namespace detail {
template <class... Field>
struct Types {};
struct TypesOf {
    template <class... Field>
    Types<std::remove_cv_t<Field>...> operator()(Field&...) const {
        return {};
    }
};
}  // namespace detail

// detail::Types<...> of the fields.
template <class T>
using field_types = decltype(with_fields(std::declval<T&>(), detail::TypesOf{}));

}  // namespace tessera
